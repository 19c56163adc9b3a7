#include "graph/import/onnx/onnx_uses.hpp"

#include <algorithm>
#include <array>

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
  return listed(kAll) || (operand >= 1 && listed(kFromSecond));
}

}  // namespace tidemark
