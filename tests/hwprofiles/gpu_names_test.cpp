#include "hwprofiles/gpu_names.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "hwprofiles/device_profile.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::gpu_names_test {

TEST_SUITE("unit") {
  TEST_CASE("GPUs are found by the names that people and drivers write") {
    const std::vector<std::string> profiles{"a100-pcie-40gb", "a100-sxm-40gb", "a100-sxm-80gb",
                                            "a10g",           "h100-nvl",      "h100-sxm-80gb",
                                            "rtx-4090",       "v100-sxm-16gb"};
    using Names = std::vector<std::string>;
    const std::vector<std::pair<std::string, Names>> expected{
        {"A100-80GB", {"a100-sxm-80gb"}},
        {"A100 80 GB", {"a100-sxm-80gb"}},
        {"NVIDIA A100-SXM4-40GB", {"a100-sxm-40gb"}},
        {"NVIDIA A100-PCIE-40GB", {"a100-pcie-40gb"}},
        {"NVIDIA H100 80GB HBM3", {"h100-sxm-80gb"}},
        {"Tesla V100-SXM2-16GB", {"v100-sxm-16gb"}},
        {"RTX4090", {"rtx-4090"}},
        {"NVIDIA GeForce RTX 4090", {"rtx-4090"}},
        {"4090", {"rtx-4090"}},
        {"A10G", {"a10g"}},
        {"h100", {"h100-nvl", "h100-sxm-80gb"}},
        {"a100 40gb", {"a100-pcie-40gb", "a100-sxm-40gb"}},
        {"a10", {}},
        {"h200", {}},
        {"a100-pcie-80gb", {}},
        {"NVIDIA", {}},
        {"", {}}};
    for (const auto& [name, found] : expected) {
      CAPTURE(name);
      CHECK(profiles_like(name, profiles) == found);
    }
  }

  TEST_CASE("the shipped profiles are found by other names of the same cards") {
    const std::vector<std::string> profiles = profile_names(test::source_path("hwprofiles"));
    const std::vector<std::pair<std::string, std::string>> expected{
        {"B200-SXM-180GB", "b200-sxm-192gb"},  // data sheets say 180 and 192 GB
        {"NVIDIA B200", "b200-sxm-192gb"},
        {"GB200-SXM-186GB", "gb200"},
        {"NVIDIA GB200 SXM", "gb200"},
        {"GB200 NVL72", "gb200"},
        {"NVIDIA GH200 SXM", "gh200-96gb"},
        {"NVIDIA GH200 480GB", "gh200-96gb"},
        {"Intel Gaudi 2", "gaudi2-96gb"},
        {"gaudi-2", "gaudi2-96gb"},
        {"Intel Gaudi 3", "gaudi3-128gb"},
        {"rtx6000ada", "rtx-6000-ada-48gb"},
        {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"},
        {"RTXA6000", "rtx-a6000-48gb"},
        {"h100sxm", "h100-sxm-80gb"},
        {"H100SXM5", "h100-sxm-80gb"},
        {"h100pcie", "h100-pcie-80gb"},
        {"NVIDIA H100 NVL", "h100-nvl-94gb"}};
    for (const auto& [name, profile] : expected) {
      CAPTURE(name);
      CHECK(profiles_meant(name, profiles) == std::vector<std::string>{profile});
    }
    // Another memory stays another card.
    CHECK(profiles_meant("GH200 144GB", profiles).empty());
    CHECK(profiles_meant("B200 288GB", profiles).empty());
    CHECK(profiles_meant("Gaudi 1", profiles).empty());
    CHECK(nearest_gpu("3090ti", profiles) == nearest_gpu("RTX 3090 Ti", profiles));
    CHECK(nearest_gpu("3090ti", profiles).find("two multiprocessors more") != std::string::npos);
    CHECK(nearest_gpu("RTX4090D", profiles) == nearest_gpu("RTX 4090 D", profiles));
    CHECK(nearest_gpu("RTX4090D", profiles).find("fewer multiprocessors") != std::string::npos);
  }

  TEST_CASE("two names are of one GPU where chip, memory and form agree or are left open") {
    CHECK(name_one_gpu("NVIDIA GeForce RTX 4080", "rtx-4080"));
    CHECK(name_one_gpu("GeForce RTX 4080", "rtx-4080-16gb"));
    CHECK(name_one_gpu("Tesla P100-PCIE-16GB", "tesla-p100-pcie-16gb"));
    CHECK(name_one_gpu("Tesla P100-PCIE-16GB", "p100"));
    CHECK_FALSE(name_one_gpu("Tesla P100-PCIE-16GB", "p100-pcie-12gb"));
    CHECK_FALSE(name_one_gpu("Tesla P100-SXM2-16GB", "p100-pcie-16gb"));
    CHECK_FALSE(name_one_gpu("NVIDIA GeForce RTX 4080 SUPER", "rtx-4080"));
    CHECK_FALSE(name_one_gpu("NVIDIA GeForce RTX 4080", "rtx-4070"));
    CHECK_FALSE(name_one_gpu("NVIDIA", "gpu"));  // neither says anything
  }
}

}  // namespace tidemark::gpu_names_test
