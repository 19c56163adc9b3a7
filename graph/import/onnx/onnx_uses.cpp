#include "graph/import/onnx/onnx_uses.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tidemark {

OnnxUses::OnnxUses(const OnnxModel& model)
    : producer(model.names.size()), readers(model.names.size()), is_output(model.names.size(), 0) {
  for (OnnxNodeId id : ids_of(model.nodes)) {
    const OnnxNode& node = model.nodes[id];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid()) readers[node.inputs[i]].push_back({id, i});
    }
    for (OnnxValueId output : node.outputs) {
      if (output.valid()) producer[output] = id;
    }
  }
  for (OnnxValueId output : model.outputs)
    is_output[output] = 1;
}

bool is_setting(const OnnxNode& node, std::size_t operand) {
  constexpr std::array<std::string_view, 19> kFromSecond = {
      "Reshape",    "Expand",    "Slice",     "Pad",    "Clip", "Dropout",    "Resize",
      "Tile",       "Squeeze",   "Unsqueeze", "Split",  "TopK", "ReduceMean", "ReduceSum",
      "ReduceProd", "ReduceMax", "ReduceMin", "CumSum", "Trilu"};
  constexpr std::array<std::string_view, 3> kAll = {"ConstantOfShape", "Range", "Constant"};
  const auto listed = [&](const auto& words) {
    return std::find(words.begin(), words.end(), node.op) != words.end();
  };
  const bool classes = node.op == "OneHot" && operand >= 1;
  return listed(kAll) || (operand >= 1 && listed(kFromSecond)) || classes;
}

std::size_t least_operands(const OnnxNode& node) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 29> kMore = {{
      {"Constant", 0},     {"Add", 2},
      {"Sub", 2},          {"Mul", 2},
      {"Div", 2},          {"Pow", 2},
      {"MatMul", 2},       {"Gemm", 2},
      {"Conv", 2},         {"ConvTranspose", 2},
      {"Gather", 2},       {"GatherElements", 2},
      {"Equal", 2},        {"Less", 2},
      {"Greater", 2},      {"Where", 3},
      {"LSTM", 3},         {"InstanceNormalization", 3},
      {"GRU", 3},          {"BatchNormalization", 5},
      {"RNN", 3},          {"GatherND", 2},
      {"OneHot", 3},       {"GridSample", 2},
      {"RandomNormal", 0}, {"RandomUniform", 0},
      {"ScatterND", 3},    {"ScatterElements", 3},
      {"EmbeddingBag", 3},
  }};
  for (const auto& [op, count] : kMore) {
    if (op == node.op) return count;
  }
  return 1;
}

}  // namespace tidemark
