// Reductions, softmax, and losses that are part of the exported module.
#include <fmt/format.h>

#include "graph/import/onnx/element_type.hpp"
#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_reduction {

using List = std::vector<std::int64_t>;

Attributes reduction_attributes(List axes, bool keep) {
  Attributes attributes{{"keepdim", std::int64_t{keep ? 1 : 0}}};
  if (!axes.empty()) attributes.set("axes", std::move(axes));
  return attributes;
}

void reduce(OnnxLowering& l, std::string_view family) {
  List axes = l.setting_or_attribute(1, "axes");
  const bool keep = l.node().integer("keepdims", 1) != 0;
  if (axes.empty() && l.node().integer("noop_with_empty_axes") != 0) return l.set(l.operand(0));
  l.set(l.builder().add(family, {l.operand(0)}, reduction_attributes(std::move(axes), keep)));
}

void lower_mean(OnnxLowering& l) {
  reduce(l, "mean");
}
void lower_sum(OnnxLowering& l) {
  reduce(l, "sum");
}
// x.max(axis) makes values and positions and keeps the positions; of several axes, or all, only
// amax is possible. The exporter writes x.amax(axis) of one axis in the same way: the first is
// assumed.
void reduce_extremum(OnnxLowering& l, std::string_view one_axis, std::string_view several) {
  const List axes = l.setting_or_attribute(1, "axes");
  if (axes.size() != 1) return reduce(l, several);
  const bool keep = l.node().integer("keepdims", 1) != 0;
  l.set(l.builder().add_many(one_axis, {l.operand(0)}, reduction_attributes(axes, keep))[0]);
}
void lower_max(OnnxLowering& l) {
  reduce_extremum(l, "max", "amax");
}
void lower_min(OnnxLowering& l) {
  reduce_extremum(l, "min", "amin");
}
void lower_product(OnnxLowering& l) {
  reduce(l, "prod");
}
void lower_norm(OnnxLowering& l) {
  reduce(l, "norm");
}
void lower_logsumexp(OnnxLowering& l) {
  reduce(l, "logsumexp");
}

void lower_argmax(OnnxLowering& l) {
  const bool keep = l.node().integer("keepdims", 1) != 0;
  l.set(l.builder().add("argmax", {l.operand(0)},
                        reduction_attributes({l.node().integer("axis")}, keep)));
}

// Takes a Cast of `value`, its one reader, that changes no type in the file.
OnnxValueId unchanging_cast(OnnxLowering& l, OnnxMatch& m, OnnxValueId value, DType dtype) {
  const OnnxValueId result = m.peek("Cast", value, 0);
  if (!result.valid()) return {};
  const auto named = onnx_element_type(m.node_of(result).integer("to"));
  if (!named || l.model_type(*named) != dtype) return {};
  m.take(result);
  return result;
}

// Lowers softmax; sets before 13 take axis 1 by default. F.softmax(x, axis, dtype) is written as a
// Cast of the result, and converts x before; .to(q.dtype) after it is a second Cast, which gives
// back the type of the products under autocast.
void softmax(OnnxLowering& l, std::string_view family) {
  const std::int64_t axis = l.node().integer("axis", l.opset() < 13 ? 1 : -1);
  ModelBuilder& b = l.builder();
  TensorId x = l.operand(0);
  const DType dtype = b.tensor(x).dtype;
  OnnxMatch m(l);
  OnnxValueId last = l.node().outputs.front();
  const OnnxValueId named = unchanging_cast(l, m, last, dtype);
  if (named.valid()) {
    x = b.cast(x, dtype);
    last = named;
  }
  TensorId result = b.add(family, {x}, {{"axis", axis}, {"called_by_itself", std::int64_t{1}}});
  const OnnxValueId restored = named.valid() ? unchanging_cast(l, m, named, dtype) : OnnxValueId();
  if (restored.valid()) {
    result = b.add("cast", {result},
                   {{"dtype", std::string(name_of(dtype))}, {"to_low_type", std::int64_t{1}}});
    last = restored;
  }
  m.finish(last, result);
}

void lower_softmax(OnnxLowering& l) {
  softmax(l, "softmax");
}
void lower_log_softmax(OnnxLowering& l) {
  softmax(l, "log_softmax");
}

void lower_cumsum(OnnxLowering& l) {
  const auto axis = l.setting(1);
  if (!axis || axis->size() != 1) l.fail("its axis is not one number");
  l.set(l.builder().add("cumsum", {l.operand(0)}, {{"axis", axis->front()}}));
}

TensorId nll_loss(OnnxLowering& l, TensorId scores) {
  Attributes attributes;
  if (l.node().get<std::string>("reduction", "mean") == "none")
    attributes.set("per_sample", std::int64_t{1});
  return l.builder().add("nll_loss", {scores, l.operand(1)}, std::move(attributes));
}

// F.nll_loss; the classes are axis 1.
void lower_nll_loss(OnnxLowering& l) {
  l.set(nll_loss(l, l.operand(0)));
}

// F.cross_entropy is log_softmax and nll_loss; of probabilities it is the sum of their products
// with the log-probabilities, negated and divided by the number of samples inside the operator.
void lower_cross_entropy(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId scores = b.add("log_softmax", {l.operand(0)}, {{"axis", std::int64_t{1}}});
  const TensorId target = l.operand(1);
  if (is_floating(b.tensor(target).dtype)) {
    if (l.node().get<std::string>("reduction", "mean") == "none")
      l.fail("a loss of probabilities that is not reduced is not simulated");
    const TensorId sum = b.add("sum", {b.multiply(scores, target)});
    l.set(b.add("scale", {b.add("neg", {sum})}, {{"inside_operator", std::int64_t{1}}}));
  } else {
    l.set(nll_loss(l, scores));
  }
  l.set(scores, 1);
}

constexpr OnnxOperator kOperators[] = {
    {"ReduceMean", lower_mean},
    {"ReduceSum", lower_sum},
    {"ReduceMax", lower_max},
    {"ReduceMin", lower_min},
    {"ReduceProd", lower_product},
    {"ReduceL1", lower_norm},
    {"ReduceL2", lower_norm},
    {"ReduceLogSumExp", lower_logsumexp},
    {"ArgMax", lower_argmax},
    {"ArgMin", lower_argmax},
    {"Softmax", lower_softmax},
    {"LogSoftmax", lower_log_softmax},
    {"CumSum", lower_cumsum},
    {"NegativeLogLikelihoodLoss", lower_nll_loss},
    {"SoftmaxCrossEntropyLoss", lower_cross_entropy},
};

}  // namespace onnx_reduction

std::span<const OnnxOperator> onnx_reduction_operators() {
  return onnx_reduction::kOperators;
}

}  // namespace tidemark
