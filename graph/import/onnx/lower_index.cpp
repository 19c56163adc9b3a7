// Elements chosen by indices.
#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace {

// nn.Embedding calls its table `weight`; other parameters are indexed.
bool is_embedding_table(OnnxLowering& l, OnnxValueId value) {
  if (!l.is_parameter(value) || l.node().integer("axis") != 0) return false;
  if (l.builder().shape(l.tensor(value)).rank() != 2) return false;
  const std::string& name = l.file().names[value];
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos || name.substr(dot + 1) == "weight";
}

// x[.., index, ..]: a view for one number, else a copy.
void lower_gather(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const std::int64_t axis = l.node().integer("axis");
  const OnnxConstant* index = l.has(1) ? l.constant(l.node().inputs[1]) : nullptr;
  const Shape x = l.shape_of_operand(0);
  if (axis < -x.rank() || axis >= x.rank()) l.fail(fmt::format("axis {} does not exist", axis));
  if (index != nullptr && index->is_scalar() && index->known) {
    const std::int64_t extent = x[static_cast<int>(axis)];
    const std::int64_t place = index->integer() + (index->integer() < 0 ? extent : 0);
    return l.set(b.add("narrow", {l.operand(0)},
                       {{"axis", axis},
                        {"start", place},
                        {"length", std::int64_t{1}},
                        {"drop_axis", std::int64_t{1}}}));
  }
  if (is_embedding_table(l, l.node().inputs[0])) {
    return l.set(b.add("embedding", {l.operand(1), l.operand(0)}));
  }
  l.set(b.add("index", {l.operand(0), l.operand(1)}, {{"axis", axis}}));
}

void lower_gather_elements(OnnxLowering& l) {
  l.set(l.builder().add("gather", {l.operand(0), l.operand(1)},
                        {{"axis", l.node().integer("axis")}}));
}

void lower_topk(OnnxLowering& l) {
  const auto k = l.setting(1);
  if (!k || k->size() != 1) l.fail("its number of results is not one number");
  const std::vector<TensorId> results = l.builder().add_many(
      "topk", {l.operand(0)}, {{"k", k->front()}, {"axis", l.node().integer("axis", -1)}});
  l.set(results[0], 0);
  l.set(results[1], 1);
}

constexpr OnnxOperator kOperators[] = {
    {"Gather", lower_gather},
    {"GatherElements", lower_gather_elements},
    {"TopK", lower_topk},
};

}  // namespace

std::span<const OnnxOperator> onnx_index_operators() {
  return kOperators;
}

}  // namespace tidemark
