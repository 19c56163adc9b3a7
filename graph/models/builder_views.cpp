// Composites of the builder that depend on views: functions in place, and matmul.
#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/models/builder.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/on_view.hpp"

namespace tidemark {
namespace builder_views_detail {
namespace {

std::vector<std::int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace
}  // namespace builder_views_detail

// Follows views from `x` to the tensor that they are of. F.linear of three axes with a bias and
// instance_norm end in a view of their own; a module that returns its input makes none.
ModelBuilder::ViewOf ModelBuilder::view_of(TensorId x) const {
  ViewOf found{.base = x};
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[NodeId(i)];
    if (std::find(node.outputs.begin(), node.outputs.end(), found.base) == node.outputs.end()) {
      continue;
    }
    if (node.in_place) break;
    const OperatorFamily* family = node.family;
    const Tensor& in = tensor(node.inputs.front());
    if (in.storage != tensor(found.base).storage) {
      const bool flat_linear = family == &linear_family() && in.shape.rank() == 3 &&
                               in.is_contiguous() && node.inputs.size() > 2 &&
                               node.inputs[2].valid() && !node.attributes.flag("copied_rows");
      found.is_view = found.is_view || flat_linear || family == &instance_norm_family();
      break;
    }
    const bool is_input = family == &cast_family() || family == &contiguous_family() ||
                          family == &dropout_family() || family == &feature_dropout_family() ||
                          family == &stochastic_depth_family();
    found.is_view = found.is_view || !is_input;
    found.base = node.inputs.front();
  }
  return found;
}

TensorId ModelBuilder::add_in_place(std::string_view family, TensorId x, Attributes attributes) {
  const ViewOf view = view_of(x);
  if (is_root(x)) return add(family, {x}, std::move(attributes));
  if (!view.is_view || !tensor(view.base).requires_grad) {
    attributes.set("in_place", std::int64_t{1});
    return add(family, {x}, std::move(attributes));
  }
  const Tensor part = tensor(x);
  change_view(attributes, part);
  const TensorId changed = add(family, {view.base}, std::move(attributes));
  return add("as_strided", {changed},
             {{"shape", builder_views_detail::list_of(part.shape)},
              {"strides", builder_views_detail::list_of(part.strides)}});
}

// torch.matmul: a 2-D right operand is a linear layer without transposition; otherwise both are
// expanded to common batch axes and reshaped to three axes, which copies head-split views: the
// contiguous copies are what bmm keeps.
TensorId ModelBuilder::matmul(TensorId a, TensorId b) {
  if (shape(b).rank() == 2) {
    // Transposed rows may be multiplied in batches (operators/products/linear.cpp).
    if (shape(a).rank() > 2 && !has_transposed_rows(tensor(a))) {
      const Shape rows{-1, shape(a)[-1]};
      Shape result = shape(a);
      result[-1] = shape(b)[1];
      return view(add("linear", {reshape(a, rows), b}, {{"transposed_weight", std::int64_t{1}}}),
                  result);
    }
    return add("linear", {a, b}, {{"transposed_weight", std::int64_t{1}}});
  }
  const int rank = std::max(shape(a).rank(), shape(b).rank());
  Shape batch;
  std::int64_t batches = 1;
  for (int axis = rank; axis > 2; --axis) {
    const std::int64_t left = shape(a).rank() >= axis ? shape(a)[-axis] : 1;
    const std::int64_t right = shape(b).rank() >= axis ? shape(b)[-axis] : 1;
    batch.push_back(std::max(left, right));
    batches *= batch[-1];
  }
  const auto folded = [&](TensorId x) {
    Shape expanded = batch;
    expanded.push_back(shape(x)[-2]);
    expanded.push_back(shape(x)[-1]);
    if (!(shape(x) == expanded)) {
      // Autocast converts the arguments of torch.matmul, which widens them afterwards.
      const std::vector<std::int64_t> sizes(expanded.begin(), expanded.end());
      x = add("expand", {x}, {{"shape", sizes}, {"widens_argument", std::int64_t{1}}});
    }
    return shape(x).rank() == 3 ? x : reshape(x, {batches, shape(x)[-2], shape(x)[-1]});
  };
  Shape result = batch;
  result.push_back(shape(a)[-2]);
  result.push_back(shape(b)[-1]);
  const TensorId left = folded(a);
  const TensorId product = add("bmm", {left, folded(b)});
  return rank == 3 ? product : view(product, result);
}

}  // namespace tidemark
