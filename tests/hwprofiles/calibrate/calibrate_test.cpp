#include "hwprofiles/calibrate/calibrate.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/bounded_fit.hpp"
#include "hwprofiles/calibrate/validated.hpp"
#include "scenarios/measured/measured_files.hpp"
#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::calibrate_test {

namespace {

std::vector<std::string> folders() {
  return {test::source_path("hwprofiles")};
}

DeviceProfile profile_of(const std::string& name) {
  return load_device_profile(name, folders());
}

// A table of products and softmaxes as this device takes, rounded to nothing.
std::string table_of(const DeviceProfile& device, const std::string& name) {
  const CostModel model(device);
  std::string text = "op,shape,dtype,device,seconds\n";
  const auto add = [&](const std::string& op, const std::string& shape, const char* type) {
    const std::string row = fmt::format("{},{},{},{},", op, shape, type, name);
    const MeasuredTable one =
        read_measured_operators(parse_csv("op,shape,dtype,device,seconds\n" + row + "1\n", "one"));
    text += fmt::format("{}{:.9g}\n", row, kernel_seconds(one.operators.front(), model));
  };
  for (int i = 0; i < 40; ++i) {
    add("matmul", fmt::format("{}x{}x{}", 512 + 128 * i, 4096, 256 + 64 * i), "fp16");
    add("softmax", fmt::format("{}x1000", 20000 + 3000 * i), "fp32");
  }
  return text;
}

Calibration calibrated(const DeviceProfile& device, const std::string& text,
                       const CalibrationOptions& options = {}) {
  const std::vector<MeasuredTable> tables{read_measured_operators(parse_csv(text, "t.csv"))};
  return calibrate(device, tables, profile_names(folders().front()), options);
}

double median_of(const Calibration& calibration, const std::string& group) {
  for (const CalibratedGroup& g : calibration.groups) {
    if (g.group == group) return g.after.median;
  }
  FAIL("no group ", group);
  return 1;
}

// Calibrates on half of published tables; empty where they are absent.
std::optional<Calibration> published(const std::string& device,
                                     const std::vector<std::string>& files,
                                     std::uint64_t seed = 0) {
  std::vector<MeasuredTable> tables;
  for (const std::string& file : files) {
    const std::string path = shared_path("cases/measured/operators/" + file).string();
    if (!std::filesystem::exists(path)) {
      MESSAGE("skipped: no ", path);
      return std::nullopt;
    }
    tables.push_back(read_measured_operators(read_csv_file(path)));
  }
  return calibrate(profile_of(device), tables, profile_names(folders().front()), {.seed = seed});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a bounded fit finds the parameters of a power law, and stops at a bound") {
    const auto law = [](const std::vector<double>& values, std::vector<double>& residuals) {
      for (std::size_t i = 0; i < residuals.size(); ++i) {
        const double x = 1 + static_cast<double>(i);
        residuals[i] = std::log(values[0] * std::pow(x, values[1]) / (3 * std::pow(x, 0.5)));
      }
    };
    const std::vector<FitVariable> free{{.start = 1, .lower = 0.1, .upper = 10, .spread = 5},
                                        {.start = 1, .lower = 0.1, .upper = 2, .spread = 5}};
    const std::vector<FittedVariable> found = fit_bounded(free, 50, law);
    CHECK(found[0].value == doctest::Approx(3).epsilon(0.01));
    CHECK(found[1].value == doctest::Approx(0.5).epsilon(0.01));
    CHECK_FALSE(found[0].at_bound);
    std::vector<FitVariable> bounded = free;
    bounded[0].upper = 2;
    CHECK(fit_bounded(bounded, 50, law)[0].at_bound);
    CHECK(fit_bounded(bounded, 50, law)[0].value == doctest::Approx(2));
  }

  TEST_CASE("calibrating on a device's own times finds its figures again") {
    DeviceProfile changed = profile_of("a100-sxm-80gb");
    changed.matrix[static_cast<std::size_t>(DType::kFloat16)].matmul_share = 0.7;
    changed.bandwidth[static_cast<std::size_t>(OperatorClass::kSoftmax)] = 0.45;
    const Calibration result =
        calibrated(profile_of("a100-sxm-80gb"), table_of(changed, "a100-sxm-80gb"));
    CHECK(result.rows == 80);
    for (const CalibratedClass& c : result.classes) {
      CAPTURE(name_of(c.fit_class));
      CHECK(c.before.median > 0.1);
      CHECK(c.after.median < 0.02);
      CHECK(c.rows + c.after.n == 40);
      CHECK(c.after.n > 10);  // held out
    }
    const FittedFigure& softmax = result.classes.back().figures.front();
    CHECK(softmax.path == "efficiency.bandwidth.softmax");
    CHECK(std::stod(softmax.after) == doctest::Approx(0.45).epsilon(0.03));
  }

  TEST_CASE("rows that scatter around the profile leave it as it is, rows that agree move it") {
    const DeviceProfile a100 = profile_of("a100-sxm-80gb");
    constexpr auto kSoftmax = static_cast<std::size_t>(OperatorClass::kSoftmax);
    // Softmaxes whose times lie around those of a device, by up to this factor.
    const auto scattered = [](const DeviceProfile& device, int rows, double by) {
      std::string text = "op,shape,dtype,device,seconds\n";
      for (int i = 0; i < rows; ++i) {
        const std::string row = fmt::format("softmax,{}x1000,fp32,A100-80GB,", 20000 + 3000 * i);
        const MeasuredTable one = read_measured_operators(
            parse_csv("op,shape,dtype,device,seconds\n" + row + "1\n", "one"));
        const double seconds = kernel_seconds(one.operators.front(), CostModel(device));
        text += fmt::format("{}{:.9g}\n", row, seconds * std::pow(1 + by, std::sin(1.7 * i)));
      }
      return text;
    };
    DeviceProfile slower = a100;
    slower.bandwidth[kSoftmax] *= 0.7;
    int halves_kept = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(seed);
      const Calibration noise =
          calibrated(a100, scattered(a100, 24, 0.15), {.held_out = 0.5, .seed = seed});
      REQUIRE(noise.classes.size() == 1);
      const CalibratedClass& kept = noise.classes.front();
      if (kept.followed == 0) ++halves_kept;
      const Calibration moved =
          calibrated(a100, scattered(slower, 24, 0.15), {.held_out = 0.5, .seed = seed});
      CHECK(moved.classes.front().followed >= 0.5);
      CHECK(moved.classes.front().after.median < moved.classes.front().before.median / 1.4);
    }
    CHECK(halves_kept >= 6);  // chance moves one half in twenty
    // A profile of kept figures is the old one.
    const Calibration exact = calibrated(a100, scattered(a100, 24, 0));
    CHECK(exact.classes.front().followed == 0);
    CHECK(exact.classes.front().figures.front().after ==
          exact.classes.front().figures.front().before);
    CHECK(calibrated_profile(exact, "a100-sxm-80gb").ends_with("extends: \"a100-sxm-80gb\"\n"));
    // Three rows cannot be parted: the prior alone restrains their fit.
    const Calibration few = calibrated(a100, scattered(slower, 3, 0), {.held_out = 0});
    CHECK(few.classes.front().followed == 1);
    CHECK(few.classes.front().fit.median < 0.2);
  }

  TEST_CASE("a seed holds out other rows") {
    const DeviceProfile a100 = profile_of("a100-sxm-80gb");
    const std::string table = table_of(a100, "a100-sxm-80gb");
    const auto fitted_to = [&](std::uint64_t seed) {
      const Calibration result = calibrated(a100, table, {.held_out = 0.5, .seed = seed});
      std::vector<std::size_t> rows;
      for (const CalibratedClass& c : result.classes)
        rows.push_back(c.rows);
      return rows;
    };
    CHECK(fitted_to(0) == fitted_to(0));
    std::set<std::vector<std::size_t>> halves;
    for (std::uint64_t seed = 0; seed < 8; ++seed)
      halves.insert(fitted_to(seed));
    CHECK(halves.size() > 3);
  }

  TEST_CASE("the written profile extends the old one and has the fitted figures") {
    DeviceProfile changed = profile_of("a100-sxm-80gb");
    changed.bandwidth[static_cast<std::size_t>(OperatorClass::kSoftmax)] = 0.45;
    const Calibration result =
        calibrated(profile_of("a100-sxm-80gb"), table_of(changed, "a100-sxm-80gb"));
    const testing::Workspace workspace;
    workspace.write("new.yaml", calibrated_profile(result, "a100-sxm-80gb"));
    const DeviceProfile read =
        load_device_profile((workspace.folder() / "new.yaml").string(), folders());
    CHECK(read.bandwidth[static_cast<std::size_t>(OperatorClass::kSoftmax)] ==
          doctest::Approx(0.45).epsilon(0.03));
    CHECK(read.hbm.capacity == changed.hbm.capacity);
    bool found = false;
    for (const Figure& figure : read.figures) {
      if (figure.path != "efficiency.bandwidth.softmax") continue;
      found = true;
      CHECK(figure.source.find("rows of t.csv, held-out median") != std::string::npos);
    }
    CHECK(found);
  }

  TEST_CASE("calibrate refuses tables of other devices, and those of impossible rates") {
    const DeviceProfile v100 = profile_of("v100-sxm-32gb");
    const std::string header = "op,shape,dtype,device,seconds\n";
    CHECK_THROWS_WITH_AS(
        static_cast<void>(calibrated(v100, header + "matmul,64x64x64,fp16,A100-80GB,0.1\n")),
        "no row was measured on v100-sxm-32gb\n  1 rows: other devices", UserError);
    CHECK_THROWS_AS(
        static_cast<void>(calibrated(v100, header + "matmul,4096x4096x4096,fp16,V100,0.0001\n")),
        UserError);
  }

  TEST_CASE(
      "a profile of one's own card is calibrated and validated with the driver's name of it") {
    const testing::Workspace workspace;
    REQUIRE(workspace.run("init --device 'RTX 4080' rtx-4080.yaml").code == 0);
    const DeviceProfile fast = profile_of("rtx-4090-24gb");
    workspace.write("m.csv", table_of(fast, "NVIDIA GeForce RTX 4080"));
    const testing::Outcome mine = workspace.run("calibrate ./rtx-4080.yaml m.csv -o mine.yaml");
    CAPTURE(mine.err);
    CHECK(mine.code == 0);
    CHECK(mine.out.find("other devices") == std::string::npos);
    const testing::Outcome held = workspace.run("validate m.csv --gpu ./rtx-4080.yaml --json");
    CAPTURE(held.err);
    REQUIRE(held.code == 0);
    CHECK(nlohmann::json::parse(held.out).at("groups").size() == 2);
    // Another chip's rows stay another's.
    workspace.write("other.csv", table_of(fast, "NVIDIA GeForce RTX 4080 SUPER"));
    const testing::Outcome other = workspace.run("calibrate ./rtx-4080.yaml other.csv -o o.yaml");
    CHECK(other.code == 2);
    CHECK(other.err.find("80 rows: other devices") != std::string::npos);
  }

  TEST_CASE("a device is found alike where its profile stands in several folders") {
    const std::string once = test::source_path("hwprofiles");
    const std::vector<std::string> twice{once, once};
    const MeasuredTable table = read_measured_operators(parse_csv(
        "op,shape,dtype,device,seconds\nmatmul,4096x4096x4096,bf16,NVIDIA H100 SXM,0.001\n", "t"));
    ProfileCache cache;
    Validation validation;
    validate_operators(table, nullptr, twice, cache, validation);
    REQUIRE(validation.rows.size() == 1);
    CHECK(validation.rows.front().group.starts_with("h100-sxm-80gb "));
  }

  TEST_CASE("validate prints the interface's groups, and calibrate a profile that lowers them") {
    const testing::Workspace workspace;
    DeviceProfile changed = profile_of("a100-sxm-80gb");
    changed.bandwidth[static_cast<std::size_t>(OperatorClass::kSoftmax)] = 0.45;
    workspace.write("m.csv", table_of(changed, "A100-80GB") + "matmul,1x1,fp16,A100-80GB,0.1\n");
    const testing::Outcome before = workspace.run("validate m.csv --json");
    CHECK(before.code == 0);
    const auto groups = nlohmann::json::parse(before.out).at("groups");
    REQUIRE(groups.size() == 2);
    CHECK(groups[1].at("group") == "a100-sxm-80gb softmax fp32");
    CHECK(groups[1].at("metric") == "time");
    CHECK(groups[1].at("n") == 40);
    CHECK(groups[1].at("median").get<double>() > 0.15);
    CHECK(groups[1].at("bias").get<double>() < -0.15);
    CHECK(nlohmann::json::parse(before.out).at("refused_rows").at("count") == 1);
    CHECK(workspace.run("calibrate a100-sxm-80gb m.csv -o new.yaml").code == 0);
    const testing::Outcome after = workspace.run("validate m.csv --gpu ./new.yaml -o out --json");
    CHECK(nlohmann::json::parse(after.out).at("groups")[1].at("median").get<double>() < 0.03);
    CHECK(workspace.read("out/rows.csv").starts_with("group,metric,row,file,line,predicted"));
    CHECK(workspace.read("out/validate.svg").find("measured") != std::string::npos);
    CHECK(workspace.read("out/validate.html").find("softmax fp32") != std::string::npos);
    const std::string table = workspace.read("m.csv");
    CHECK(workspace.run("calibrate a100-sxm-80gb m.csv -o ./m.csv").code == 2);
    CHECK(workspace.read("m.csv") == table);
    // Fitted times are whole nanoseconds, as a profile has them.
    CHECK(workspace.run("run gpt2 --gpu ./new.yaml -s model.layers=1 --json").code == 0);
    CHECK(workspace.run("calibrate a100-sxm-80gb none.csv -o x.yaml").code == 2);
    CHECK_FALSE(workspace.exists("x.yaml"));
  }
}

TEST_SUITE("golden") {
  TEST_CASE("a calibration predicts products of a V100 no worse, whatever half is held out") {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto v100 = published("v100-sxm-32gb", {"deepbench-gemm.csv.gz"}, seed);
      if (!v100) return;
      CAPTURE(seed);
      const CalibratedClass& products = v100->classes.front();
      CHECK(products.after.median < products.before.median + 0.003);
      CHECK(products.after.mape < products.before.mape + 0.003);
    }
  }

  TEST_CASE("V100 convolutions and products of DeepBench keep their errors on the half held out") {
    const auto v100 =
        published("v100-sxm-32gb", {"deepbench-gemm.csv.gz", "deepbench-conv.csv.gz"});
    if (!v100) return;
    const auto after = [&](FitClass wanted) {
      for (const CalibratedClass& c : v100->classes) {
        if (c.fit_class == wanted) return c.after.median;
      }
      return 1.0;
    };
    CHECK(after(FitClass::kMatmul) < 0.06);
    CHECK(after(FitClass::kConvolutionForward) < 0.20);
    CHECK(after(FitClass::kConvolutionBackwardData) < 0.28);
    CHECK(after(FitClass::kConvolutionBackwardWeight) < 0.28);
  }

  TEST_CASE("A100 operators keep their errors on the half held out") {
    const auto a100 = published("a100-pcie-40gb", {"neusight-ops-train.csv.gz"});
    if (!a100) return;
    CHECK(median_of(*a100, "a100-pcie-40gb batched matmul fp32") < 0.05);
    CHECK(median_of(*a100, "a100-pcie-40gb linear fp32") < 0.055);
    CHECK(median_of(*a100, "a100-pcie-40gb softmax fp32") < 0.08);
    CHECK(median_of(*a100, "a100-pcie-40gb layer norm fp32") < 0.08);
  }
}

}  // namespace tidemark::calibrate_test
