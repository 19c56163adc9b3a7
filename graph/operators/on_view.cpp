#include "graph/operators/on_view.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tidemark {
namespace on_view_detail {
namespace {

constexpr std::string_view kShape = "view_shape";
constexpr std::string_view kStrides = "view_strides";

bool is_on_view(const NodeView& node) {
  return !node.attributes().list(kShape).empty();
}

}  // namespace
}  // namespace on_view_detail

void change_view(Attributes& attributes, const Tensor& view) {
  attributes.set("in_place", std::int64_t{1});
  attributes.set(on_view_detail::kShape,
                 std::vector<std::int64_t>(view.shape.begin(), view.shape.end()));
  attributes.set(on_view_detail::kStrides,
                 std::vector<std::int64_t>(view.strides.begin(), view.strides.end()));
}

Tensor changed_part(const NodeView& node) {
  Tensor part = node.input(0);
  if (!on_view_detail::is_on_view(node)) return part;
  part.shape = shape_from(node.attributes().list(on_view_detail::kShape));
  part.strides = shape_from(node.attributes().list(on_view_detail::kStrides));
  return part;
}

ChangedPart::ChangedPart(BackwardBuilder& backward)
    : backward_(backward),
      on_view_(on_view_detail::is_on_view(backward.node())),
      gradient_(backward.output_gradient()) {
  if (!on_view_) return;
  const Tensor& base = backward.node().input(0);
  whole_ = create_dense(backward, "base_gradient", base);
  backward.launch_elementwise("copy_slices", {gradient_}, whole_, OperatorClass::kElementwise, 0);
  const Tensor part = changed_part(backward.node());
  gradient_ = create_dense(backward, "part_gradient", part);
  backward.launch_elementwise("copy_slices.clone", {whole_}, gradient_, OperatorClass::kElementwise,
                              0);
}

bool ChangedPart::launch_inside(BackwardBuilder::Kernel kernel, const Tensor& result) {
  if (!on_view_) return false;
  kernel.creates = {};
  kernel.mutates = {whole_};
  kernel.workspace += result.bytes();
  backward_.launch(kernel);
  backward_.set_input_gradient(0, whole_);
  return true;
}

void ChangedPart::finish(const Tensor& result) {
  if (!on_view_) return backward_.set_input_gradient(0, result);
  backward_.launch({.name = "copy_slices.copy_back",
                    .reads = {result},
                    .mutates = {whole_},
                    .work = work_on(OperatorClass::kElementwise, Flops(0), {result}, {result})});
  backward_.set_input_gradient(0, whole_);
}

}  // namespace tidemark
