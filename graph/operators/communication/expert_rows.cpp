#include "graph/operators/communication/expert_rows.hpp"

#include "graph/operators/communication/collectives.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace expert_rows_detail {
namespace {

Shape with_rows(const Inference& inference) {
  Shape shape = inference.input(0).shape;
  inference.require(shape.rank() == 2, "needs the axes rows and width");
  shape[0] = inference.attributes().integer("rows", shape[0]);
  return shape;
}

void infer_rows(Inference& inference) {
  inference.create(with_rows(inference), inference.input(0).dtype);
}

ForwardKernel forward_copy(const NodeView& node) {
  return {.work = work_on(OperatorClass::kEmbedding, Flops(0), {node.output()}, {node.output()})};
}

// The place of each row among the tokens.
void save_places(SavedSet& saved) {
  saved.extra("places", {saved.node().output().shape[0]}, DType::kInt64);
}

void backward_permute(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch(
      {.name = "permute_rows.backward",
       .reads = {gradient, b.saved("places")},
       .creates = {result},
       .work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient), {gradient}, {gradient})});
  b.set_input_gradient(0, result);
}

ForwardKernel forward_exchange(const NodeView& node) {
  const bool grows = node.output().bytes() > node.input(0).bytes();
  return {.work = collective_work(node, CollectiveKind::kAllToAll,
                                  grows ? node.output() : node.input(0)),
          .blocks_host = node.attributes().flag("host_sizes")};
}

void backward_exchange(BackwardBuilder& b) {
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  const bool grows = result.bytes() > gradient.bytes();
  b.launch({.name = "all_to_all",
            .reads = {gradient},
            .creates = {result},
            .work = collective_work(b.node(), CollectiveKind::kAllToAll, grows ? result : gradient),
            .blocks_host = b.node().attributes().flag("host_sizes")});
  b.set_input_gradient(0, result);
}

void backward_sort(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch({.name = "sort_rows.backward",
            .reads = {gradient},
            .creates = {result},
            .work = work_on(OperatorClass::kEmbedding, Flops(0), {gradient}, {result})});
  b.set_input_gradient(0, result);
}

// The weights are one [experts, out, in], or one [out, in] for each expert.
void infer_grouped(Inference& inference) {
  const Tensor& x = inference.input(0);
  inference.require(x.shape.rank() == 2 && inference.input_count() >= 2,
                    "needs rows and a weight for each expert");
  const Shape& weight = inference.input(1).shape;
  const bool stacked = inference.input_count() == 2 && weight.rank() == 3;
  for (std::size_t i = 1; i < inference.input_count(); ++i) {
    const Shape& each = inference.input(i).shape;
    inference.require(each == weight && (stacked || each.rank() == 2) && weight[-1] == x.shape[1],
                      "the weights of the experts differ, or take other rows");
  }
  inference.create({x.shape[0], weight[-2]}, x.dtype);
}

std::int64_t experts_of(const NodeView& node) {
  const Shape& weight = node.input(1).shape;
  return weight.rank() == 3 ? weight[0] : static_cast<std::int64_t>(node.input_count()) - 1;
}

Work grouped_work(const NodeView& node, std::int64_t m, std::int64_t n, std::int64_t k) {
  return matmul_work(node.output().dtype, m, n, k, experts_of(node));
}

std::int64_t rows_of_each(const NodeView& node) {
  const std::int64_t experts = experts_of(node);
  return (node.input(0).shape[0] + experts - 1) / experts;
}

ForwardKernel forward_grouped(const NodeView& node) {
  return {.work = grouped_work(node, rows_of_each(node), node.output().shape[1],
                               node.input(0).shape[1])};
}

void save_grouped(SavedSet& saved) {
  const NodeView& node = saved.node();
  bool trains = false;
  for (std::size_t i = 1; i < node.input_count(); ++i)
    trains = trains || node.needs_gradient(i);
  if (trains) saved.input(0);
  for (std::size_t i = 1; i < node.input_count() && node.needs_gradient(0); ++i)
    saved.input(i);
}

void backward_grouped(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor& x = node.input(0);
  const std::int64_t n = node.output().shape[1];
  if (b.needs_gradient(0)) {
    const Tensor result = b.create_like("input_gradient", x);
    BackwardBuilder::Kernel kernel{.name = "grouped_linear.input_gradient",
                                   .part = OperatorPart::kInputGradient,
                                   .reads = {gradient},
                                   .creates = {result},
                                   .work = grouped_work(node, rows_of_each(node), x.shape[1], n)};
    for (std::size_t i = 1; i < node.input_count(); ++i)
      kernel.reads.push_back(node.input(i));
    b.launch(kernel);
    b.set_input_gradient(0, result);
  }
  BackwardBuilder::Kernel kernel{.name = "grouped_linear.weight_gradient",
                                 .part = OperatorPart::kWeightGradient,
                                 .reads = {gradient, x},
                                 .work = grouped_work(node, n, x.shape[1], rows_of_each(node))};
  for (std::size_t i = 1; i < node.input_count(); ++i) {
    if (!b.needs_gradient(i)) continue;
    kernel.creates.push_back(b.create_like("weight_gradient", node.input(i)));
    b.set_input_gradient(i, kernel.creates.back());
  }
  if (!kernel.creates.empty()) b.launch(kernel);
}

constexpr std::size_t kRows = 0;
constexpr std::size_t kWeights = 1;

void infer_combine(Inference& inference) {
  const Tensor& rows = inference.input(kRows);
  const Tensor& weights = inference.input(kWeights);
  inference.require(rows.shape.rank() == 2 && weights.shape.rank() == 2,
                    "needs rows and the weights of each token's choices");
  inference.create({weights.shape[0], rows.shape[1]}, rows.dtype);
}

ForwardKernel forward_combine(const NodeView& node) {
  const Tensor& rows = node.input(kRows);
  return {.work = work_on(OperatorClass::kEmbedding, flops_per(2, rows), {rows, rows},
                          {rows, node.output()})};
}

void save_combine(SavedSet& saved) {
  if (saved.node().needs_gradient(kWeights)) saved.input(kRows);
  saved.input(kWeights);
  saved.extra("places", {saved.node().input(kRows).shape[0]}, DType::kInt64);
}

void backward_combine(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor of_rows = b.create_like("row_gradient", node.input(kRows));
  BackwardBuilder::Kernel kernel{.name = "combine_rows.backward",
                                 .reads = {gradient, node.input(kWeights), b.saved("places")},
                                 .creates = {of_rows},
                                 .work = work_on(OperatorClass::kEmbedding, flops_per(3, of_rows),
                                                 {of_rows, of_rows}, {of_rows})};
  if (b.needs_gradient(kWeights)) {
    kernel.reads.push_back(node.input(kRows));
    kernel.creates.push_back(b.create_like("weight_gradient", node.input(kWeights)));
    b.set_input_gradient(kWeights, kernel.creates.back());
  }
  b.launch(kernel);
  b.set_input_gradient(kRows, of_rows);
}

constexpr OperatorFamily kPermute{.name = "permute_rows",
                                  .summary = "a row for each choice of a token, by expert",
                                  .infer = infer_rows,
                                  .forward = forward_copy,
                                  .save = save_places,
                                  .backward = backward_permute};
constexpr OperatorFamily kExchange{.name = "all_to_all",
                                   .summary = "rows go to the ranks that have their experts",
                                   .infer = infer_rows,
                                   .forward = forward_exchange,
                                   .save = save_nothing,
                                   .backward = backward_exchange};
constexpr OperatorFamily kSort{.name = "sort_rows",
                               .summary = "rows from several ranks, by expert",
                               .infer = infer_rows,
                               .forward = forward_copy,
                               .save = save_nothing,
                               .backward = backward_sort};
constexpr OperatorFamily kGrouped{.name = "grouped_linear",
                                  .summary = "rows times the weight of their expert",
                                  .infer = infer_grouped,
                                  .forward = forward_grouped,
                                  .save = save_grouped,
                                  .backward = backward_grouped};
constexpr OperatorFamily kCombine{.name = "combine_rows",
                                  .summary = "the weighted sum of each token's rows",
                                  .infer = infer_combine,
                                  .forward = forward_combine,
                                  .save = save_combine,
                                  .backward = backward_combine};

}  // namespace
}  // namespace expert_rows_detail

const OperatorFamily& permute_rows_family() {
  return expert_rows_detail::kPermute;
}
const OperatorFamily& exchange_rows_family() {
  return expert_rows_detail::kExchange;
}
const OperatorFamily& sort_rows_family() {
  return expert_rows_detail::kSort;
}
const OperatorFamily& grouped_linear_family() {
  return expert_rows_detail::kGrouped;
}
const OperatorFamily& combine_rows_family() {
  return expert_rows_detail::kCombine;
}

}  // namespace tidemark
