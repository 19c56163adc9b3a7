// Modules and blocks by the names of nodes.
#include <chrono>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/import/onnx/merged_operators.hpp"
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

// An activation before a linear in each of two blocks, as the exporter writes it: once.
class MergedActivation {
 public:
  MergedActivation(const std::string& reader, bool reads_parameter) {
    const OnnxValueId x = value("x");
    const OnnxValueId p = value("blocks.0.p");
    model_.inputs.push_back({.value = x});
    model_.initializers.push_back({.value = p});
    const OnnxValueId s = node("Sigmoid", "/blocks.0/act/Sigmoid", {reads_parameter ? p : x});
    const OnnxValueId y = node("Mul", "/blocks.0/act/Mul", {x, s});
    node("Gemm", "/blocks.0/linear/Gemm", {y});
    node("Gemm", reader, {y});
    split_merged_operators(model_);
  }
  // The names of the nodes in their order.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const OnnxNode& node : model_.nodes)
      all.push_back(node.name);
    return all;
  }
  [[nodiscard]] const OnnxModel& model() const { return model_; }

 private:
  OnnxValueId value(const std::string& name) { return model_.names.push_back(name); }
  OnnxValueId node(const std::string& op, const std::string& name,
                   const std::vector<OnnxValueId>& inputs) {
    const OnnxValueId result = value(name + "_output_0");
    model_.nodes.push_back({.op = op, .name = name, .inputs = inputs, .outputs = {result}});
    return result;
  }

  OnnxModel model_;
};

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

  TEST_CASE("operators that two modules compute of one tensor are two, though the file has one") {
    const MergedActivation merged("/blocks.1/linear/Gemm", false);
    CHECK(merged.names() == std::vector<std::string>{"/blocks.0/act/Sigmoid", "/blocks.0/act/Mul",
                                                     "/blocks.0/linear/Gemm",
                                                     "/blocks.1/act/Sigmoid", "/blocks.1/act/Mul",
                                                     "/blocks.1/linear/Gemm"});
    const auto& nodes = merged.model().nodes;
    CHECK(nodes[OnnxNodeId(4u)].inputs[1] == nodes[OnnxNodeId(3u)].outputs[0]);
    CHECK(nodes[OnnxNodeId(5u)].inputs[0] == nodes[OnnxNodeId(4u)].outputs[0]);
  }

  TEST_CASE("a result stays one where modules hand it on") {
    // T5's first layer computes the bias of all layers, of a parameter of its own.
    CHECK(MergedActivation("/blocks.1/linear/Gemm", true).names().size() == 4);
    // The next module reads what the first one returns, at a place of its own.
    CHECK(MergedActivation("/head/out/Gemm", false).names().size() == 4);
    CHECK(MergedActivation("/Gemm", false).names().size() == 4);
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
