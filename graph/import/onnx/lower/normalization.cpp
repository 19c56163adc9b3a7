// Normalisations, whole and as exporters take them apart.
#include <algorithm>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_normalization {

using List = std::vector<std::int64_t>;

std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot + 1);
}

// Returns the weight or bias; none where the exporter has written ones and zeros, as for
// affine=False.
TensorId affine(OnnxLowering& l, std::size_t operand) {
  return l.constant(l.node().inputs.at(operand)) != nullptr ? TensorId() : l.operand(operand);
}

// The counter of batches is in the module but not in the file. Statistics are those of the batch
// also where the file was exported for inference: the step that is simulated trains.
void lower_batch_norm(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId result = b.add("batch_norm", {l.operand(0), affine(l, 1), affine(l, 2)});
  l.set(result);
  const OnnxValueId mean = l.node().inputs.at(3);
  const OnnxValueId variance = l.node().inputs.at(4);
  if (!l.is_initializer(mean) || !l.is_initializer(variance)) return;
  const TensorId counter =
      l.add_buffer(parent_of(l.file().names[mean]) + "num_batches_tracked", {}, DType::kInt64);
  static_cast<void>(b.add_many("update_running_stats",
                               {l.tensor(mean), l.tensor(variance), counter},
                               {{"in_place", std::int64_t{1}}}));
}

void lower_instance_norm(OnnxLowering& l) {
  l.set(l.builder().add("instance_norm", {l.operand(0), affine(l, 1), affine(l, 2)}));
}

void lower_layer_norm(OnnxLowering& l) {
  l.set(l.builder().add("layer_norm",
                        {l.operand(0), l.operand(1), l.has(2) ? l.operand(2) : TensorId()}));
}

// Whether an initializer has the shape of the trailing axes that are normalised.
bool is_affine(OnnxLowering& l, OnnxValueId value, const Shape& x, std::size_t axes) {
  if (!l.is_initializer(value)) return false;
  const TensorId found = l.tensor(value);
  if (!found.valid()) return false;
  const Shape& shape = l.builder().shape(found);
  if (static_cast<std::size_t>(shape.rank()) != axes) return false;
  for (int axis = 1; axis <= shape.rank(); ++axis) {
    if (shape[-axis] != x[-axis]) return false;
  }
  return true;
}

// Returns the number k if the node averages over the last k axes of x; 0 when its axes are others.
std::size_t trailing_axes(OnnxLowering& l, const OnnxNode& mean, int rank) {
  List axes = l.axes_of(mean);
  for (std::int64_t& axis : axes)
    axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) return 0;
  }
  return axes.size();
}

// F.layer_norm: m = ReduceMean(x); d = x - m; y = d / sqrt(ReduceMean(d^2) + eps) [w + b]. The
// exporter leaves `keepdims` out here; means that a model takes by hand have it.
bool match_layer_norm(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const int rank = l.shape_of_operand(0).rank();
  const std::size_t axes = trailing_axes(l, l.node(), rank);
  if (axes == 0 || l.node().find<std::int64_t>("keepdims") != nullptr) return false;
  const OnnxValueId d = m.next("Sub", l.node().outputs.front(), 1, x);
  if (!d.valid() || l.uses().readers[d].size() != 2 || l.uses().is_output[d] != 0) return false;
  const OnnxValueId squares = m.reader("Pow", d, 0);
  if (!squares.valid() || m.operand_number(squares, 1) != 2.0) return false;
  const OnnxValueId variance = m.next("ReduceMean", squares, 0);
  if (!variance.valid() || trailing_axes(l, m.node_of(variance), rank) != axes ||
      m.node_of(variance).find<std::int64_t>("keepdims") != nullptr) {
    return false;
  }
  const OnnxValueId shifted = m.next("Add", variance, 0);
  if (!shifted.valid() || !m.operand_number(shifted, 1)) return false;
  const OnnxValueId deviation = m.next("Sqrt", shifted, 0);
  if (!deviation.valid()) return false;
  OnnxValueId result = m.next("Div", deviation, 1, d);
  if (!result.valid()) return false;
  TensorId weight;
  TensorId bias;
  const Shape& shape = l.shape_of_operand(0);
  const OnnxValueId scaled = m.peek("Mul", result, 0);
  if (scaled.valid() && is_affine(l, m.node_of(scaled).inputs[1], shape, axes)) {
    weight = l.tensor(m.node_of(scaled).inputs[1]);
    m.take(scaled);
    result = scaled;
    const OnnxValueId sum = m.peek("Add", result, 0);
    if (sum.valid() && is_affine(l, m.node_of(sum).inputs[1], shape, axes)) {
      bias = l.tensor(m.node_of(sum).inputs[1]);
      m.take(sum);
      result = sum;
    }
  }
  m.finish(result, l.builder().add("layer_norm", {l.operand(0), weight, bias},
                                   {{"axes", static_cast<std::int64_t>(axes)}}));
  return true;
}

// x.var and x.std: m = ReduceMean(x); d = x - m; v = ReduceMean(d d), where unbiased times n / (n -
// 1), of the deviation its root. Squares that are written by hand are Pow. The mean may have other
// readers, since the exporter joins equal nodes.
bool match_variance(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const OnnxValueId mean = l.node().outputs.front();
  const List axes = l.axes_of(l.node());
  if (l.node().integer("keepdims", 1) == 0 && !axes.empty()) return false;
  const OnnxValueId d = m.reader("Sub", mean, 1);
  if (!d.valid() || m.node_of(d).inputs[0] != x || l.uses().is_output[d] != 0) return false;
  const auto& squared = l.uses().readers[d];
  if (squared.size() != 2 || squared[0].node != squared[1].node) return false;
  const OnnxValueId square = l.file().nodes[squared[0].node].outputs.front();
  if (m.node_of(square).op != "Mul") return false;
  m.take(square);
  OnnxValueId result = m.next("ReduceMean", square, 0);
  if (!result.valid() || l.axes_of(m.node_of(result)) != axes) return false;
  const bool keep = m.node_of(result).integer("keepdims", 1) != 0;
  const OnnxValueId sum = m.peek("Mul", result, 0);
  const OnnxValueId unbiased = sum.valid() ? m.peek("Div", sum, 0) : OnnxValueId();
  const auto count = sum.valid() ? m.operand_number(sum, 1) : std::nullopt;
  if (unbiased.valid() && count && m.operand_number(unbiased, 1) == *count - 1) {
    m.take(sum);
    m.take(unbiased);
    result = unbiased;
  }
  const OnnxValueId root = m.peek("Sqrt", result, 0);
  if (root.valid()) {
    m.take(root);
    result = root;
  }
  Attributes attributes{{"keepdim", std::int64_t{keep ? 1 : 0}}};
  Attributes of_mean{{"keepdim", std::int64_t{1}}};
  if (!axes.empty()) {
    attributes.set("axes", axes);
    of_mean.set("axes", axes);
  }
  const TensorId input = l.operand(0);
  if (l.uses().readers[mean].size() > 1 || l.uses().is_output[mean] != 0) {
    l.set(l.builder().add("mean", {input}, of_mean));
  }
  m.finish(result, l.builder().add(root.valid() ? "std" : "var", {input}, attributes));
  return true;
}

// nn.GroupNorm: InstanceNormalization of x as [n, groups, -1], reshaped back, times weight plus
// bias as [channels, 1, ...]. The kernel works on contiguous memory and keeps a copy of anything
// else.
bool match_group_norm(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId normalized = m.next("InstanceNormalization", l.node().outputs.front(), 0);
  if (!normalized.valid()) return false;
  const auto target = l.setting(1);
  if (!target || target->size() != 3 || (*target)[0] != 0 || (*target)[2] != -1) return false;
  const OnnxConstant* ones = l.constant(m.node_of(normalized).inputs.at(1));
  if (ones == nullptr || ones->elements().count != (*target)[1]) return false;
  OnnxValueId result = m.next("Reshape", normalized, 0);
  if (!result.valid()) return false;
  const std::int64_t channels = l.shape_of_operand(0)[1];
  const auto affine = [&](OnnxValueId value) -> TensorId {
    const OnnxNodeId source = l.uses().producer[value];
    const bool unsqueezed = source.valid() && l.file().nodes[source].op == "Unsqueeze";
    const OnnxValueId root = unsqueezed ? l.file().nodes[source].inputs[0] : value;
    if (!l.is_initializer(root)) return {};
    const TensorId tensor = l.tensor(root);
    return tensor.valid() && l.builder().shape(tensor) == Shape{channels} ? tensor : TensorId();
  };
  // Without parameters the exporter writes [1, 1, ...] and [0, 0, ...].
  const auto constant = [&](OnnxValueId of) {
    const OnnxConstant* value = l.constant(m.node_of(of).inputs[1]);
    return value != nullptr && value->elements() == Elements(1) && !value->is_scalar();
  };
  TensorId weight;
  TensorId bias;
  const OnnxValueId scaled = m.peek("Mul", result, 0);
  if (scaled.valid()) weight = affine(m.node_of(scaled).inputs[1]);
  if (weight.valid() || (scaled.valid() && constant(scaled))) {
    m.take(scaled);
    result = scaled;
    const OnnxValueId sum = m.peek("Add", result, 0);
    if (sum.valid()) bias = affine(m.node_of(sum).inputs[1]);
    if (bias.valid() || (sum.valid() && constant(sum))) {
      m.take(sum);
      result = sum;
    }
  }
  const TensorId x = l.builder().contiguous(l.operand(0));
  m.finish(result, l.builder().add("group_norm", {x, weight, bias}, {{"groups", (*target)[1]}}));
  return true;
}

constexpr OnnxOperator kOperators[] = {
    {"BatchNormalization", lower_batch_norm},
    {"InstanceNormalization", lower_instance_norm},
    {"LayerNormalization", lower_layer_norm},
};

constexpr OnnxPattern kPatterns[] = {
    {"ReduceMean", match_layer_norm},
    {"ReduceMean", match_variance},
    {"Reshape", match_group_norm},
};

}  // namespace onnx_normalization

std::span<const OnnxOperator> onnx_normalization_operators() {
  return onnx_normalization::kOperators;
}

std::span<const OnnxPattern> onnx_normalization_patterns() {
  return onnx_normalization::kPatterns;
}

}  // namespace tidemark
