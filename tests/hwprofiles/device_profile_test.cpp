#include "hwprofiles/device_profile.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::device_profile_test {

namespace {

const std::string kFolder = test::source_path("hwprofiles");

DeviceProfile load(const std::string& name) {
  return load_device_profile(name, std::vector<std::string>{kFolder});
}

DeviceProfile load_with(const std::string& name, const std::string& overrides) {
  const Value document = parse_document(overrides, "scenario.yaml");
  return load_device_profile(name, std::vector<std::string>{kFolder}, &document);
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

const Figure* find_figure(const DeviceProfile& profile, const std::string& path) {
  const auto found = std::find_if(profile.figures.begin(), profile.figures.end(),
                                  [&](const Figure& figure) { return figure.path == path; });
  return found == profile.figures.end() ? nullptr : &*found;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder of profiles that is removed with the test.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("tidemark_" + std::to_string(getpid()) + "_" + name)) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file) << text;
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every shipped profile decodes and each of its figures names a source") {
    const std::vector<std::string> names = profile_names(kFolder);
    CHECK(names == std::vector<std::string>{"a10-24gb",
                                            "a100-pcie-40gb",
                                            "a100-pcie-80gb",
                                            "a100-sxm-40gb",
                                            "a100-sxm-80gb",
                                            "a10g-24gb",
                                            "b200-sxm-192gb",
                                            "gaudi2-96gb",
                                            "gaudi3-128gb",
                                            "gb200",
                                            "gh200-96gb",
                                            "h100-nvl-94gb",
                                            "h100-pcie-80gb",
                                            "h100-sxm-80gb",
                                            "h100-sxm-96gb-2.4tb",
                                            "h200-sxm-141gb",
                                            "l4-24gb",
                                            "l40s-48gb",
                                            "mi250x-128gb",
                                            "mi250x-64gb",
                                            "mi300x-192gb",
                                            "rtx-3090-24gb",
                                            "rtx-4090-24gb",
                                            "rtx-5090-32gb",
                                            "rtx-6000-ada-48gb",
                                            "rtx-a6000-48gb",
                                            "t4-16gb",
                                            "tpu-v4-32gb",
                                            "tpu-v5p-95gb",
                                            "v100-pcie-32gb",
                                            "v100-sxm-16gb",
                                            "v100-sxm-32gb"});
    ProfileCache cache;
    for (const std::string& name : names) {
      CAPTURE(name);
      const DeviceProfile profile =
          load_device_profile(name, std::vector<std::string>{kFolder}, nullptr, {}, &cache);
      CHECK(profile.name == name);
      CHECK_FALSE(profile.description.empty());
      CHECK(profile.figures.size() > 70);
      for (const Figure& figure : profile.figures) {
        CAPTURE(figure.path);
        CHECK(figure.source.size() > 5);
        CHECK_FALSE(figure.value.empty());
      }
    }
  }

  TEST_CASE("figures are read in their units") {
    const DeviceProfile a100 = load("a100-sxm-80gb");
    CHECK(a100.hbm.capacity == 81050 * kMiB);
    CHECK(a100.hbm.bandwidth == BytesPerSecond{2039e9});
    CHECK(a100.matrix[static_cast<std::size_t>(DType::kBFloat16)].peak == FlopsPerSecond{312e12});
    CHECK(a100.launch.kernel == Duration(2600));
    // The A100's host link is not symmetric when both directions run.
    CHECK(a100.links.host_to_device.duplex == BytesPerSecond{12.5e9});
    CHECK(a100.links.device_to_host.duplex == BytesPerSecond{24e9});
    CHECK(a100.framework.cublas_workspace == Bytes(8519680));
    CHECK(load("h100-sxm-80gb").framework.cublas_workspace == 32 * kMiB);
    CHECK(a100.framework.cudnn_filter_copies == 1);
  }

  TEST_CASE("a profile that extends another one keeps what it does not change") {
    const DeviceProfile small = load("a100-sxm-40gb");
    const DeviceProfile large = load("a100-sxm-80gb");
    CHECK(small.hbm.capacity == 40448 * kMiB);
    CHECK(small.hbm.bandwidth == BytesPerSecond{1555e9});
    CHECK(small.links.device_to_host.alone == large.links.device_to_host.alone);
    CHECK(small.attention_forward.size() == large.attention_forward.size());
    CHECK(small.figures.size() == large.figures.size());
  }

  TEST_CASE("a type that the device lacks runs as the next wider one") {
    const DeviceProfile v100 = load("v100-sxm-32gb");
    CHECK(matrix_type(v100, DType::kFloat16) == DType::kFloat16);
    CHECK(matrix_type(v100, DType::kBFloat16) == DType::kFloat32);
    CHECK(matrix_type(v100, DType::kTf32) == DType::kFloat32);
    CHECK(matrix_type(v100, DType::kFloat8) == DType::kFloat16);
    CHECK(matrix_type(v100, DType::kInt64) == DType::kFloat32);
    CHECK(matrix_type(load("a100-sxm-80gb"), DType::kFloat8) == DType::kFloat16);
    CHECK(matrix_type(load("h100-sxm-80gb"), DType::kFloat8) == DType::kFloat8);
  }

  TEST_CASE("a scenario overrides single figures and becomes their source") {
    const DeviceProfile profile =
        load_with("a100-sxm-80gb", "{hbm: {capacity: 40GiB}, peaks: {bf16: 300TFLOP/s}}");
    CHECK(profile.hbm.capacity == 40 * kGiB);
    CHECK(profile.hbm.bandwidth == BytesPerSecond{2039e9});
    CHECK(profile.matrix[static_cast<std::size_t>(DType::kBFloat16)].peak ==
          FlopsPerSecond{300e12});
    REQUIRE(find_figure(profile, "hbm.capacity") != nullptr);
    CHECK(find_figure(profile, "hbm.capacity")->source == "overridden by the scenario");
    CHECK(find_figure(profile, "hbm.capacity")->value == "40GiB");
    CHECK(find_figure(profile, "peaks.bf16")->source == "overridden by the scenario");
    CHECK(find_figure(profile, "peaks.fp16")->source == "NVIDIA A100 data sheet, dense");
  }

  TEST_CASE("a link that is given another rate keeps its share in both directions") {
    const DeviceProfile whole = load("h100-sxm-80gb");
    const double share =
        whole.links.host_to_device.duplex.value / whole.links.host_to_device.alone.value;
    const DeviceProfile mine = load_with("h100-sxm-80gb", "{links: {h2d: {alone: 25GB/s}}}");
    CHECK(mine.links.host_to_device.alone == BytesPerSecond{25e9});
    CHECK(mine.links.host_to_device.duplex.value == doctest::Approx(25e9 * share));
    CHECK(mine.links.device_to_host.duplex == whole.links.device_to_host.duplex);
    REQUIRE(find_figure(mine, "links.h2d.duplex") != nullptr);
    CHECK(find_figure(mine, "links.h2d.duplex")->source.starts_with("derived: "));
    const DeviceProfile both =
        load_with("h100-sxm-80gb", "{links: {h2d: {alone: 25GB/s, duplex: 24GB/s}}}");
    CHECK(both.links.host_to_device.duplex == BytesPerSecond{24e9});
  }

  TEST_CASE("an override may bring its own source and add what the device lacks") {
    const DeviceProfile profile = load_with(
        "v100-sxm-32gb",
        "{peaks: {bf16: {value: 10TFLOP/s, source: measured}}, efficiency: {matmul: {bf16: 0.5}}}");
    CHECK(matrix_type(profile, DType::kBFloat16) == DType::kBFloat16);
    CHECK(find_figure(profile, "peaks.bf16")->source == "measured");
  }

  TEST_CASE("an unknown field is an error at its place with the nearest name") {
    const std::string error =
        error_of([] { (void)load_with("a100-sxm-80gb", "\nhbm:\n  capcity: 40GiB\n"); });
    CHECK(contains(error, "scenario.yaml:3:"));
    CHECK(contains(error, "capcity"));
    CHECK(contains(error, "did you mean 'capacity'?"));
  }

  TEST_CASE("a capacity without its unit is found out") {
    CHECK(error_of([] {
            (void)load_with("a100-sxm-80gb", "{hbm: {capacity: 80}}");
          }).ends_with("hardware.hbm.capacity: 80 bytes hold no model; is 80GiB meant?"));
  }

  TEST_CASE("bad values and misplaced groups are errors at their place") {
    CHECK(contains(error_of([] { (void)load_with("a100-sxm-80gb", "{hbm: {capacity: 40G}}"); }),
                   "scenario.yaml:1:"));
    CHECK(contains(error_of([] { (void)load_with("a100-sxm-80gb", "{hbm: 40GiB}"); }),
                   "expected a group of figures"));
    CHECK(contains(
        error_of([] { (void)load_with("a100-sxm-80gb", "{links: {h2d: {duplex: 30GB/s}}}"); }),
        "not faster while the other direction is busy"));
    CHECK(contains(
        error_of([] { (void)load_with("v100-sxm-32gb", "{efficiency: {matmul: {bf16: 0.5}}}"); }),
        "add peaks.bf16"));
  }

  TEST_CASE("an unknown GPU is an error that names the nearest") {
    const std::string error = error_of([] {
      (void)load_device_profile("a100-smx-80gb", std::vector<std::string>{kFolder}, nullptr,
                                {.file = "s.yaml", .line = 3, .column = 18});
    });
    CHECK(contains(error, "s.yaml:3:18: unknown GPU 'a100-smx-80gb'"));
    CHECK(contains(error, "did you mean 'a100-sxm-80gb'?"));
    CHECK(contains(error, "v100-sxm-16gb"));
  }

  TEST_CASE("a profile in a cache is read from its file once") {
    const TemporaryFolder folder("cached");
    folder.write("mine.yaml",
                 "extends: a100-sxm-80gb\nname: mine\nhbm: {source: my log, capacity: 79GiB}\n");
    const std::string file = folder.path() + "/mine.yaml";
    const std::vector<std::string> folders{kFolder};
    ProfileCache cache;
    const DeviceProfile first = load_device_profile(file, folders, nullptr, {}, &cache);
    folder.write("mine.yaml",
                 "extends: a100-sxm-80gb\nname: mine\nhbm: {source: my log, capacity: 78GiB}\n");
    CHECK(first.hbm.capacity == 79 * kGiB);
    CHECK(load_device_profile(file, folders, nullptr, {}, &cache).hbm.capacity == 79 * kGiB);
    CHECK(load_device_profile(file, folders).hbm.capacity == 78 * kGiB);
    // Changes of one scenario leave the cached profile as it is.
    const Value changes = parse_document("hbm: {capacity: 40GiB}\n", "scenario.yaml");
    CHECK(load_device_profile(file, folders, &changes, {}, &cache).hbm.capacity == 40 * kGiB);
    CHECK(load_device_profile(file, folders, nullptr, {}, &cache).hbm.capacity == 79 * kGiB);
  }

  TEST_CASE("a user's profile extends a shipped one by name and is found by its path") {
    const TemporaryFolder folder("extends");
    folder.write("mine.yaml",
                 "extends: a100-sxm-80gb\nname: mine\n"
                 "hbm: {source: my log, capacity: 79GiB, bandwidth: 2TB/s}\n");
    const DeviceProfile profile =
        load_device_profile(folder.path() + "/mine.yaml", std::vector<std::string>{kFolder});
    CHECK(profile.name == "mine");
    CHECK(profile.hbm.capacity == 79 * kGiB);
    CHECK(find_figure(profile, "hbm.bandwidth")->source == "my log");
  }

  TEST_CASE("a peak without the share that products reach of it is an error where it stands") {
    const TemporaryFolder folder("shares");
    folder.write("mine.yaml",
                 "like: v100-sxm-32gb\nname: mine\npeaks: {source: my log, bf16: 100TFLOP/s}\n");
    const std::string error = error_of([&] {
      (void)load_device_profile(folder.path() + "/mine.yaml", std::vector<std::string>{kFolder});
    });
    CHECK(contains(error, "mine.yaml:3:"));
    CHECK(contains(error, "peaks.bf16"));
    CHECK(contains(error, "add efficiency.matmul.bf16"));
  }

  TEST_CASE("profiles that extend each other in a circle are an error") {
    const TemporaryFolder folder("circle");
    folder.write("a.yaml", "extends: ./b.yaml\nname: a\n");
    folder.write("b.yaml", "extends: a.yaml\nname: b\n");
    const std::string error = error_of([&] {
      (void)load_device_profile(folder.path() + "/a.yaml", std::vector<std::string>{kFolder});
    });
    CHECK(contains(error, "b.yaml:1:"));
    CHECK(contains(error, "cannot extend itself"));
  }

  TEST_CASE("a figure without a source is an error in a profile") {
    const TemporaryFolder folder("sourceless");
    folder.write("mine.yaml", "extends: a100-sxm-80gb\nname: mine\nhbm: {capacity: 79GiB}\n");
    const std::string error = error_of([&] {
      (void)load_device_profile(folder.path() + "/mine.yaml", std::vector<std::string>{kFolder});
    });
    CHECK(contains(error, "mine.yaml:3:"));
    CHECK(contains(error, "a figure names its source"));
  }
}

}  // namespace tidemark::device_profile_test
