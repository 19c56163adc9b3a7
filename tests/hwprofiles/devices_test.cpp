// Every device that the project knows: its names, its roofline, and what it takes over from others.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "hwprofiles/cost_model.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/gpu_names.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::devices_test {

namespace {

const std::string kFolder = test::source_path("hwprofiles");

// All profiles, read once for the cases below.
const std::vector<DeviceProfile>& devices() {
  static const std::vector<DeviceProfile> all = [] {
    ProfileCache cache;
    std::vector<DeviceProfile> profiles;
    for (const std::string& name : profile_names(kFolder)) {
      profiles.push_back(
          load_device_profile(name, std::vector<std::string>{kFolder}, nullptr, {}, &cache));
    }
    return profiles;
  }();
  return all;
}

const DeviceProfile& device(const std::string& name) {
  const auto found = std::find_if(devices().begin(), devices().end(),
                                  [&](const DeviceProfile& d) { return d.name == name; });
  REQUIRE(found != devices().end());
  return *found;
}

double seconds(const DeviceProfile& profile, const Work& work) {
  return std::chrono::duration<double>(CostModel(profile).duration(work)).count();
}

// Work that only moves 3 GB.
Work addition() {
  Work work;
  work.op_class = OperatorClass::kElementwise;
  work.read = Bytes(2'000'000'000);
  work.written = Bytes(1'000'000'000);
  return work;
}

Work product(std::int64_t extent, DType type) {
  const auto side = static_cast<double>(extent);
  return {.op_class = OperatorClass::kMatmul,
          .dtype = type,
          .flops = Flops(2 * side * side * side),
          .read = bytes_of(type, Elements(2 * extent * extent)),
          .written = bytes_of(type, Elements(extent * extent)),
          .extent = {extent, extent, extent, 1}};
}

const Figure& figure(const DeviceProfile& profile, const std::string& path) {
  const auto found = std::find_if(profile.figures.begin(), profile.figures.end(),
                                  [&](const Figure& f) { return f.path == path; });
  REQUIRE(found != profile.figures.end());
  return *found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every device reaches its share of the peak in a large fp16 product, and no more") {
    for (const DeviceProfile& profile : devices()) {
      CAPTURE(profile.name);
      const MatrixRate& rate =
          profile.matrix[static_cast<std::size_t>(matrix_type(profile, DType::kFloat16))];
      const Work work = product(16384, DType::kFloat16);
      const double reached = work.flops.count / seconds(profile, work);
      const double share = rate.matmul_share * rate.peak.value;
      CHECK(reached <= share);
      // At 16384 the last wave is at least 4 in 5 full on every device, and prologues take 0.2 %.
      CHECK(reached > 0.8 * share);
      // Tensor cores accumulating in fp32 reach up to 1.13 of what GeForce data sheets state.
      CHECK(rate.matmul_share <= 1.13);
    }
  }

  TEST_CASE("every device reaches its share of the bandwidth in a large addition") {
    for (const DeviceProfile& profile : devices()) {
      CAPTURE(profile.name);
      const double share = profile.bandwidth[static_cast<std::size_t>(OperatorClass::kElementwise)];
      CHECK(share < 1);
      const double reached = 3e9 / seconds(profile, addition());
      CHECK(reached == doctest::Approx(share * profile.hbm.bandwidth.value).epsilon(0.01));
    }
  }

  TEST_CASE("devices stand in the order in which people know them") {
    // Slower first.
    const std::array<std::pair<const char*, const char*>, 12> by_bandwidth{
        {{"h100-sxm-80gb", "h200-sxm-141gb"},
         {"h100-pcie-80gb", "h100-sxm-80gb"},
         {"h100-sxm-96gb-2.4tb", "h100-sxm-80gb"},
         {"a100-sxm-40gb", "a100-sxm-80gb"},
         {"a100-pcie-80gb", "h100-sxm-80gb"},
         {"h200-sxm-141gb", "b200-sxm-192gb"},
         {"rtx-3090-24gb", "rtx-4090-24gb"},
         {"rtx-4090-24gb", "rtx-5090-32gb"},
         {"rtx-a6000-48gb", "rtx-3090-24gb"},
         {"l4-24gb", "a10g-24gb"},
         {"t4-16gb", "v100-sxm-16gb"},
         {"tpu-v4-32gb", "tpu-v5p-95gb"}}};
    for (const auto& [slow, fast] : by_bandwidth) {
      CAPTURE(slow);
      CHECK(seconds(device(fast), addition()) < seconds(device(slow), addition()));
    }
    const std::array<std::pair<const char*, const char*>, 8> by_products{
        {{"a100-pcie-80gb", "a100-sxm-80gb"},
         {"a100-sxm-80gb", "h100-pcie-80gb"},
         {"h100-pcie-80gb", "h100-sxm-80gb"},
         {"h100-sxm-80gb", "b200-sxm-192gb"},
         {"rtx-3090-24gb", "rtx-4090-24gb"},
         {"l4-24gb", "l40s-48gb"},
         {"t4-16gb", "a10g-24gb"},
         {"mi250x-64gb", "mi300x-192gb"}}};
    const Work work = product(16384, DType::kFloat16);
    for (const auto& [slow, fast] : by_products) {
      CAPTURE(slow);
      CHECK(seconds(device(fast), work) < seconds(device(slow), work));
    }
  }

  TEST_CASE("a device of a chip that is on the list twice prices kernels by its own memory") {
    // The same die: a product that is bound by arithmetic takes as long.
    const Work work = product(16384, DType::kFloat16);
    CHECK(seconds(device("h200-sxm-141gb"), work) == seconds(device("h100-sxm-80gb"), work));
    CHECK(seconds(device("a100-pcie-40gb"), work) == seconds(device("a100-pcie-80gb"), work));
  }

  TEST_CASE("another chip takes figures over as assumptions, the same chip as they are") {
    const DeviceProfile& a100 = device("a100-sxm-80gb");
    const std::string path = "efficiency.bandwidth.matmul";
    CHECK(figure(a100, path).source == "fit of LLMCompass A100 fp16 matmul");
    CHECK(figure(device("a100-sxm-40gb"), path).source == figure(a100, path).source);
    const std::string as_a100 = "as a100-sxm-80gb: " + figure(a100, path).source;
    CHECK(figure(device("rtx-3090-24gb"), path).source == as_a100);
    // Taken over twice, the figure still names the device that it is of.
    CHECK(figure(device("rtx-a6000-48gb"), path).source == as_a100);
    CHECK(figure(device("rtx-a6000-48gb"), "launch.matmul").value == "0us");
    CHECK(figure(device("rtx-a6000-48gb"), "l2.capacity").source ==
          "as rtx-3090-24gb: recalled, not verified");
    // A definition holds on any device.
    CHECK(figure(device("t4-16gb"), "links.hbm_tax").source ==
          figure(a100, "links.hbm_tax").source);
    CHECK(figure(a100, "host.dispatch").note.starts_with("range 10us to 50us; "));
  }

  TEST_CASE("only devices without CUDA's kernels have a roofline alone") {
    std::vector<std::string> rooflines;
    for (const DeviceProfile& profile : devices())
      if (is_roofline_only(profile)) rooflines.push_back(profile.name);
    CHECK(rooflines == std::vector<std::string>{"gaudi2-96gb", "gaudi3-128gb", "mi250x-128gb",
                                                "tpu-v4-32gb", "tpu-v5p-95gb"});
  }

  TEST_CASE("the shipped devices are found by the names that people and drivers write") {
    const std::vector<std::string> known = profile_names(kFolder);
    const std::vector<std::pair<std::string, std::string>> names{
        {"h100", "h100-sxm-80gb"},
        {"A100-80GB", "a100-sxm-80gb"},
        {"a100-40gb", "a100-sxm-40gb"},
        {"rtx4090", "rtx-4090-24gb"},
        {"RTX 3090", "rtx-3090-24gb"},
        {"5090", "rtx-5090-32gb"},
        {"A6000", "rtx-a6000-48gb"},
        {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"},
        {"L4", "l4-24gb"},
        {"NVIDIA L40S", "l40s-48gb"},
        {"Tesla T4", "t4-16gb"},
        {"A10G", "a10g-24gb"},
        {"a10", "a10-24gb"},
        {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
        {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
        {"Tesla V100-PCIE-32GB", "v100-pcie-32gb"},
        {"NVIDIA H100 PCIe", "h100-pcie-80gb"},
        {"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
        {"NVIDIA H100 NVL", "h100-nvl-94gb"},
        {"H200", "h200-sxm-141gb"},
        {"GH200", "gh200-96gb"},
        {"B200", "b200-sxm-192gb"},
        {"GB200", "gb200"},
        {"NVIDIA GH200 480GB", "gh200-96gb"},
        {"GH200 120GB", "gh200-96gb"},
        {"AMD Instinct MI250X/MI250", "mi250x-64gb"},
        {"AMD Instinct MI300X", "mi300x-192gb"},
        {"TPU v4", "tpu-v4-32gb"},
        {"TPUv5p", "tpu-v5p-95gb"},
        {"V100-SXM2-16GB", "v100-sxm-16gb"}};
    for (const auto& [name, profile] : names) {
      CAPTURE(name);
      CHECK(profiles_meant(name, known) == std::vector<std::string>{profile});
    }
    using Names = std::vector<std::string>;
    // The size of the memory is never guessed.
    CHECK(profiles_meant("a100", known) ==
          Names{"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"});
    CHECK(profiles_meant("v100", known) ==
          Names{"v100-pcie-32gb", "v100-sxm-16gb", "v100-sxm-32gb"});
    CHECK(profiles_meant("mi250x", known) == Names{"mi250x-128gb", "mi250x-64gb"});
    CHECK(profiles_meant("RTX 4090 Laptop", known).empty());
    CHECK(profiles_meant("NVIDIA GH200 144G HBM3e", known).empty());
    CHECK_THROWS_WITH_AS(
        static_cast<void>(load_device_profile("V100", std::vector<std::string>{kFolder})),
        "several GPUs are called 'V100': v100-pcie-32gb, v100-sxm-16gb, v100-sxm-32gb", UserError);
  }

  TEST_CASE("a GPU without a profile is told which is nearest and how they differ") {
    const std::vector<std::string> known = profile_names(kFolder);
    const std::vector<std::pair<std::string, std::string>> nearest{
        {"NVIDIA A40", "rtx-a6000-48gb (the same chip with slower memory)"},
        {"NVIDIA A100-SXM-64GB", "are a100-sxm-80gb, a100-sxm-40gb (another memory"},
        {"NVIDIA A100-SXM4-80GB MIG 3g.40gb", "is a100-sxm-80gb (of which a MIG slice is a part)"},
        {"NVIDIA H100 64GB", "are h100-sxm-80gb, h100-pcie-80gb, h100-nvl-94gb, h100-sxm-96gb"},
        {"NVIDIA H100 MIG 3g.40gb", "are h100-sxm-80gb, h100-pcie-80gb"},
        {"NVIDIA H100 MIG 3g.47gb", "are h100-nvl-94gb, h100-sxm-96gb"},
        {"NVIDIA A100 MIG 1g.5gb", "are a100-sxm-40gb, a100-pcie-40gb"},
        {"NVIDIA L40", "l40s-48gb (the same chip and memory with half the rate of matrix"},
        {"NVIDIA A800-SXM4-80GB", "a100-sxm-80gb (the same chip with a slower NVLink)"},
        {"Tesla V100-PCIE-16GB", "v100-pcie-32gb"},
        {"NVIDIA H200 NVL", "h200-sxm-141gb"},
        {"NVIDIA GH200 144G HBM3e", "gh200-96gb"},
        {"NVIDIA GeForce RTX 4090 D", "rtx-4090-24gb"},
        {"NVIDIA GeForce RTX 4080 SUPER", "rtx-4090-24gb"},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-5090-32gb"},
        {"AMD Instinct MI325X", "mi300x-192gb"}};
    for (const auto& [name, words] : nearest) {
      CAPTURE(name);
      CHECK(profiles_meant(name, known).empty());
      const std::string said = nearest_gpu(name, known);
      CAPTURE(said);
      CHECK(said.starts_with("; the nearest "));
      CHECK(said.find(words) != std::string::npos);
    }
    CHECK(nearest_gpu("Tesla K80", known).empty());
    CHECK(nearest_gpu("a100-smx-80gb", known).starts_with("; did you mean "));
    CHECK(nearest_gpu("NVIDIA H20", std::vector<std::string>{"t4-16gb"}).empty());
    CHECK(is_profile_path("./a100"));
    CHECK(is_profile_path("gpus/mine.yaml"));
    CHECK_FALSE(is_profile_path("AMD Instinct MI250X/MI250"));
    CHECK_FALSE(is_profile_path("a100-sxm-80gb"));
  }
}

}  // namespace tidemark::devices_test
