#include "hwprofiles/gpu_names.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

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
