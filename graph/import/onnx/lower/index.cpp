// Elements chosen by indices.
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/models/routing.hpp"

namespace tidemark {
namespace onnx_index {

using List = std::vector<std::int64_t>;

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
    return l.set(b.add("narrow", {l.leading_slices(l.operand(0), axis)},
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

// Returns the indices of a bag where the bags are the rows of one tensor, which Reshape makes one
// axis of; 0 otherwise.
std::int64_t length_of_rows(OnnxLowering& l, OnnxValueId indices) {
  const OnnxNodeId maker = l.uses().producer[indices];
  if (!maker.valid() || l.file().nodes[maker].op != "Reshape") return 0;
  const TensorId rows = l.tensor(l.file().nodes[maker].inputs[0]);
  if (!rows.valid() || l.builder().shape(rows).rank() != 2) return 0;
  return l.builder().shape(rows)[1];
}

// One row for each bag of indices (embedding_bag.hpp). The offsets of rows are numbers in the file;
// PyTorch makes them in forward, for the rows that there are.
void lower_embedding_bag(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId indices = l.operand(1);
  const OnnxConstant* given = l.constant(l.node().inputs[2]);
  TensorId offsets;
  if (given == nullptr) {
    offsets = l.operand(2);
  } else {
    const std::int64_t count = b.shape(indices)[0];
    const std::int64_t length = length_of_rows(l, l.node().inputs[1]);
    const std::int64_t bags = length > 0 ? count / length : given->elements().count;
    offsets = b.add_many("arange", {}, {{"length", bags}})[0];
  }
  l.set(b.add("embedding_bag", {indices, l.operand(0), offsets},
              {{"mode", l.node().get<std::string>("mode", "mean")},
               {"include_last_offset", l.node().integer("include_last_offset")}}));
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

// x[i, j, ..] by rows of indices: x seen as one axis of the places that they choose from.
void lower_gather_nd(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const Shape x = l.shape_of_operand(0);
  const Shape indices = l.shape_of_operand(1);
  if (l.node().integer("batch_dims") != 0) l.fail("batch_dims is not simulated");
  if (indices.rank() < 1 || indices[-1] < 1 || indices[-1] > x.rank()) {
    l.fail(fmt::format("indices of the shape {} do not fit {}", to_string(indices), to_string(x)));
  }
  if (indices[-1] != 1) l.fail("indices of more than one axis are not simulated");
  Shape places;
  for (int axis = 0; axis + 1 < indices.rank(); ++axis)
    places.push_back(indices[axis]);
  l.set(b.add("index", {l.operand(0), b.view(l.operand(1), places)}, {{"axis", std::int64_t{0}}}));
}

// torch.scatter and scatter_add.
void lower_scatter_elements(OnnxLowering& l) {
  const std::string reduction = l.node().get<std::string>("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    l.fail(fmt::format("the reduction {} is not simulated", tidemark::quoted_excerpt(reduction)));
  }
  l.set(l.builder().add(reduction == "add" ? "scatter_add" : "scatter",
                        {l.operand(0), l.operand(1), l.operand(2)},
                        {{"axis", l.node().integer("axis")}}));
}

// x[..] = values: a slice, whose constant indices are the exporter's, or torch.index_put, which
// keeps the indices that it was given.
void lower_scatter_nd(OnnxLowering& l) {
  const OnnxValueId indices = l.node().inputs.at(1);
  const bool slice = l.constant(indices) != nullptr;
  l.set(l.builder().add("index_put",
                        {l.operand(0), slice ? TensorId() : l.operand(1), l.operand(2)}));
}

// F.one_hot: int64, with the classes as the last axis.
void lower_one_hot(OnnxLowering& l) {
  const auto depth = l.setting(1);
  const std::int64_t axis = l.node().integer("axis", -1);
  const int rank = l.shape_of_operand(0).rank();
  if (!depth || depth->size() != 1 || depth->front() < 1) {
    l.fail("its number of classes is not one number of at least 1");
  }
  if (axis != -1 && axis != rank) l.fail("classes are simulated as the last axis only");
  List extents(l.shape_of_operand(0).begin(), l.shape_of_operand(0).end());
  extents.push_back(depth->front());
  static_cast<void>(l.shape(extents));
  l.set(l.builder().add_many(one_hot_family(), {l.operand(0)}, {{"classes", depth->front()}})[0]);
}

void lower_nonzero(OnnxLowering& l) {
  l.fail(
      "how many elements are not zero depends on data, which is not simulated; export the model "
      "with a fixed number of elements, such as a mask that multiplies");
}

constexpr OnnxOperator kOperators[] = {
    {"Gather", lower_gather},
    {"GatherND", lower_gather_nd},
    {"EmbeddingBag", lower_embedding_bag},
    {"NonZero", lower_nonzero},
    {"OneHot", lower_one_hot},
    {"ScatterElements", lower_scatter_elements},
    {"ScatterND", lower_scatter_nd},
    {"GatherElements", lower_gather_elements},
    {"TopK", lower_topk},
};

}  // namespace onnx_index

std::span<const OnnxOperator> onnx_index_operators() {
  return onnx_index::kOperators;
}

}  // namespace tidemark
