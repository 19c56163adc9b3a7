#include "graph/operators/communication/collectives.hpp"

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"

namespace tidemark {

Attributes collective_attributes(MeshDimension group, std::int64_t ranks) {
  return {{"group", static_cast<std::int64_t>(group)}, {"ranks", ranks}};
}

Work collective_work(const NodeView& node, CollectiveKind kind, const Tensor& whole) {
  const auto group = static_cast<MeshDimension>(node.attributes().integer("group"));
  return {.op_class = OperatorClass::kCollective,
          .dtype = whole.dtype,
          .read = whole.bytes(),
          .written = whole.bytes(),
          .collective = {.kind = kind, .group = group, .bytes = whole.bytes()}};
}

namespace collectives_detail {
namespace {

void infer_in_place(Inference& inference) {
  inference.in_place(0);
}

ForwardKernel forward_all_reduce(const NodeView& node) {
  return {.work = collective_work(node, CollectiveKind::kAllReduce, node.output())};
}

void infer_identity(Inference& inference) {
  inference.view(0, inference.input(0).shape, inference.input(0).strides);
}

void backward_copy(BackwardBuilder& b) {
  const Tensor gradient = b.contiguous(b.output_gradient());
  b.launch({.name = "all_reduce",
            .mutates = {gradient},
            .work = collective_work(b.node(), CollectiveKind::kAllReduce, gradient)});
  b.set_input_gradient(0, gradient);
}

// Creates the input with the attribute `axis` as long as `extent` says.
void infer_extent(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  const int axis = checked_axis(inference, attributes.integer("axis"), x.shape.rank());
  Shape shape = x.shape;
  shape[axis] = attributes.integer("extent");
  inference.create(shape, x.dtype);
}

ForwardKernel forward_gather(const NodeView& node) {
  return {.work = collective_work(node, CollectiveKind::kAllGather, node.output())};
}

void save_input(SavedSet& saved) {
  saved.input(0);
}

void backward_gather(BackwardBuilder& b) {
  if (!b.needs_gradient(0)) return;
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch({.name = "reduce_scatter",
            .reads = {gradient},
            .creates = {result},
            .work = collective_work(b.node(), CollectiveKind::kReduceScatter, gradient)});
  b.set_input_gradient(0, result);
}

void backward_gather_whole(BackwardBuilder& b) {
  if (!b.needs_gradient(0)) return;
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch({.name = "take_part",
            .reads = {gradient},
            .creates = {result},
            .work = work_on(OperatorClass::kElementwise, Flops(0), {result}, {result})});
  b.set_input_gradient(0, result);
}

ForwardKernel forward_reduce_scatter(const NodeView& node) {
  return {.work = collective_work(node, CollectiveKind::kReduceScatter, node.input(0))};
}

void backward_by_gather(BackwardBuilder& b) {
  if (!b.needs_gradient(0)) return;
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch({.name = "all_gather",
            .reads = {gradient},
            .creates = {result},
            .work = collective_work(b.node(), CollectiveKind::kAllGather, result)});
  b.set_input_gradient(0, result);
}

ForwardKernel forward_take_part(const NodeView& node) {
  return {.work = work_on(OperatorClass::kElementwise, Flops(0), {node.output()}, {node.output()})};
}

void infer_all_to_all(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  const std::int64_t ranks = attributes.integer("ranks", 1);
  const int split = checked_axis(inference, attributes.integer("split_axis"), x.shape.rank());
  const int joined = checked_axis(inference, attributes.integer("joined_axis"), x.shape.rank());
  inference.require(x.shape[split] % ranks == 0, [&] {
    return fmt::format("axis {} of extent {} does not split over {} ranks", split, x.shape[split],
                       ranks);
  });
  Shape shape = x.shape;
  shape[split] /= ranks;
  shape[joined] *= ranks;
  inference.create(shape, x.dtype);
}

ForwardKernel forward_all_to_all(const NodeView& node) {
  return {.work = collective_work(node, CollectiveKind::kAllToAll, node.output())};
}

void backward_all_to_all(BackwardBuilder& b) {
  if (!b.needs_gradient(0)) return;
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch({.name = "all_to_all",
            .reads = {gradient},
            .creates = {result},
            .work = collective_work(b.node(), CollectiveKind::kAllToAll, gradient)});
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kAllReduce{.name = "all_reduce",
                                    .summary = "the sum over the ranks of a group, in place",
                                    .infer = infer_in_place,
                                    .forward = forward_all_reduce,
                                    .save = save_nothing,
                                    .backward = pass_gradient};
constexpr OperatorFamily kCopyToRanks{.name = "copy_to_ranks",
                                      .summary = "its input; gradients of the ranks are summed",
                                      .infer = infer_identity,
                                      .forward = no_kernel,
                                      .save = save_nothing,
                                      .backward = backward_copy};
constexpr OperatorFamily kAllGather{
    .name = "all_gather",
    .summary = "the whole of which each rank has a part; keeps the part",
    .infer = infer_extent,
    .forward = forward_gather,
    .save = save_input,
    .backward = backward_gather,
    .recomputed_in_backward = true};
constexpr OperatorFamily kGatherWhole{
    .name = "gather_whole",
    .summary = "the whole of which each rank has a part; all ranks go on alike",
    .infer = infer_extent,
    .forward = forward_gather,
    .save = save_nothing,
    .backward = backward_gather_whole};
constexpr OperatorFamily kReduceScatter{.name = "reduce_scatter",
                                        .summary = "a part of the sum over the ranks of a group",
                                        .infer = infer_extent,
                                        .forward = forward_reduce_scatter,
                                        .save = save_nothing,
                                        .backward = backward_by_gather};
constexpr OperatorFamily kTakePart{.name = "take_part",
                                   .summary = "the part of one rank",
                                   .infer = infer_extent,
                                   .forward = forward_take_part,
                                   .save = save_nothing,
                                   .backward = backward_by_gather};
constexpr OperatorFamily kAllToAll{.name = "all_to_all",
                                   .summary = "parts of one axis, exchanged for parts of another",
                                   .infer = infer_all_to_all,
                                   .forward = forward_all_to_all,
                                   .save = save_nothing,
                                   .backward = backward_all_to_all};

}  // namespace
}  // namespace collectives_detail

const OperatorFamily& all_reduce_family() {
  return collectives_detail::kAllReduce;
}
const OperatorFamily& copy_to_ranks_family() {
  return collectives_detail::kCopyToRanks;
}
const OperatorFamily& all_gather_family() {
  return collectives_detail::kAllGather;
}
const OperatorFamily& gather_whole_family() {
  return collectives_detail::kGatherWhole;
}
const OperatorFamily& reduce_scatter_family() {
  return collectives_detail::kReduceScatter;
}
const OperatorFamily& take_part_family() {
  return collectives_detail::kTakePart;
}
const OperatorFamily& all_to_all_family() {
  return collectives_detail::kAllToAll;
}

}  // namespace tidemark
