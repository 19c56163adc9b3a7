// Elements chosen by several tensors of indices, x[:, i, j]. The exporter moves the axes that they
// index to the front, makes one of them, and reads it at i * extent + j:
//
//   [Transpose] Flatten Gather(., Add(j, Mul(i, extent))) Reshape [[Transpose] Reshape]
#include <algorithm>
#include <numeric>

#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_index_patterns_lowering {

using List = std::vector<std::int64_t>;

// Returns the indices of `count` axes that one tensor of places is made of, from the first axis to
// the last; nothing if it is made otherwise. The nodes that make it become part of the match.
std::vector<OnnxValueId> indices_of(OnnxLowering& l, OnnxMatch& m, OnnxValueId places,
                                    std::size_t count) {
  std::vector<OnnxValueId> indices;
  while (indices.size() + 1 < count) {
    const OnnxNodeId sum = l.uses().producer[places];
    if (!sum.valid() || l.file().nodes[sum].op != "Add") return {};
    const OnnxNodeId product = l.uses().producer[l.file().nodes[sum].inputs[1]];
    if (!product.valid() || l.file().nodes[product].op != "Mul") return {};
    const OnnxNode& scaled = l.file().nodes[product];
    if (!l.number(scaled.inputs[1])) return {};
    m.take(places);
    m.take(scaled.outputs.front());
    indices.push_back(scaled.inputs[0]);
    places = l.file().nodes[sum].inputs[0];
  }
  // The last axis has been found last, behind the products of the first ones.
  indices.push_back(places);
  return indices;
}

// Takes the nodes that read the shape of the places for the last Reshape.
bool take_shape_of(OnnxLowering& l, OnnxMatch& m, OnnxValueId places, OnnxValueId gathered) {
  for (const OnnxUse& use : l.uses().readers[places]) {
    const OnnxNode& node = l.file().nodes[use.node];
    if (node.outputs.front() == gathered) continue;
    if (node.op != "Shape") return false;
    m.take(node.outputs.front());
    const OnnxValueId joined = m.next("Concat", node.outputs.front(), OnnxMatch::kEither);
    if (!joined.valid()) return false;
    const OnnxNodeId reader = l.uses().only_reader(joined);
    if (!reader.valid() || l.file().nodes[reader].op != "Reshape") return false;
  }
  return true;
}

bool match_index_axes(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxNode& first = l.node();
  const TensorId x = l.tensor(first.inputs[0]);
  if (!x.valid()) return false;
  OnnxValueId flat = first.outputs.front();
  List order(static_cast<std::size_t>(l.builder().shape(x).rank()));
  std::iota(order.begin(), order.end(), 0);
  if (first.op == "Transpose") {
    order = first.list("perm");
    flat = m.next("Flatten", flat, 0);
    if (!flat.valid()) return false;
  }
  const std::int64_t count = m.node_of(flat).integer("axis", 1);
  if (count < 2 || count > static_cast<std::int64_t>(order.size())) return false;
  const List axes(order.begin(), order.begin() + count);
  const OnnxValueId gathered = m.next("Gather", flat, 0);
  if (!gathered.valid() || m.node_of(gathered).integer("axis") != 0) return false;
  const OnnxValueId places = m.node_of(gathered).inputs[1];
  const std::vector<OnnxValueId> indices =
      indices_of(l, m, places, static_cast<std::size_t>(count));
  if (indices.empty()) return false;
  OnnxValueId result = m.next("Reshape", gathered, 0);
  if (!result.valid()) return false;
  bool adjacent = true;
  for (std::size_t i = 1; i < axes.size(); ++i)
    adjacent = adjacent && axes[i] == axes[i - 1] + 1;
  if (adjacent) {
    const OnnxValueId moved = m.next("Transpose", result, 0);
    result = m.next("Reshape", moved.valid() ? moved : result, 0);
    if (!result.valid()) return false;
  }
  if (!take_shape_of(l, m, places, gathered)) return false;
  std::vector<TensorId> operands{x};
  for (OnnxValueId index : indices) {
    operands.push_back(l.tensor(index));
    if (!operands.back().valid()) return false;
  }
  m.finish(result, l.builder().add("index_axes", operands, {{"axes", axes}}));
  return true;
}

constexpr OnnxPattern kIndexPatterns[] = {{"Transpose", match_index_axes},
                                          {"Flatten", match_index_axes}};

}  // namespace onnx_index_patterns_lowering

std::span<const OnnxPattern> onnx_index_patterns() {
  return onnx_index_patterns_lowering::kIndexPatterns;
}

}  // namespace tidemark
