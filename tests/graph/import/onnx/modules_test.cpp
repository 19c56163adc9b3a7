// Modules and blocks by the names of nodes.
#include <chrono>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/import/onnx/onnx_modules.hpp"

namespace tidemark::test::modules_test {
namespace {

OnnxModel named(const std::vector<std::string>& names) {
  OnnxModel model;
  for (const std::string& name : names)
    model.nodes.push_back({.op = "Relu", .name = name});
  return model;
}

int block_of(const OnnxModules& modules, std::size_t node) {
  return modules.all[static_cast<std::size_t>(modules.of_node[OnnxNodeId(node)])].block;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("blocks are the outermost numbered modules that hold others, but not lists") {
    const OnnxModules modules(
        named({"/stem/Relu", "/layers.0/attn/Relu", "/layers.0/mlp/mlp.0/Relu",
               "/layers.1/attn/Relu", "/head/Relu"}));
    CHECK(modules.all[2].path == "layers.0.mlp.0");
    CHECK(block_of(modules, 0) == -1);
    CHECK(block_of(modules, 1) == 0);
    CHECK(block_of(modules, 2) == 0);
    CHECK(block_of(modules, 3) == 1);
    CHECK(block_of(modules, 4) == -1);
  }

  TEST_CASE("numbered modules by the thousand take time in proportion to their number") {
    std::vector<std::string> names;
    constexpr int kMany = 20'000;
    for (int i = 0; i < kMany; ++i)
      names.push_back(fmt::format("/0/{}/act/Relu", i));
    const auto start = std::chrono::steady_clock::now();
    const OnnxModules modules(named(names));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    CHECK(modules.all.size() == kMany);
    CHECK(block_of(modules, kMany - 1) == kMany - 1);
    CHECK(elapsed.count() < 2);  // a walk over all of them for each takes minutes
  }

  TEST_CASE("a name of any depth is a module") {
    std::string deep;
    for (int i = 0; i < 100'000; ++i)
      deep += "/a";
    const OnnxModules modules(named({deep + "/Relu"}));
    CHECK(modules.all.size() == 1);
    CHECK(modules.all[0].path.size() < 1000);
  }
}

}  // namespace tidemark::test::modules_test
