#include "graph/operators/communication/ring_attention.hpp"

#include <array>
#include <vector>

#include "graph/operators/communication/collectives.hpp"
#include "graph/operators/forward_builder.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/products/attention_work.hpp"

namespace tidemark {
namespace ring_attention_detail {
namespace {

constexpr std::size_t kQuery = 0;
constexpr std::size_t kKey = 1;
constexpr std::size_t kValue = 2;

void infer(Inference& inference) {
  const Tensor& q = inference.input(kQuery);
  const Shape& k = inference.input(kKey).shape;
  const Shape& v = inference.input(kValue).shape;
  inference.require(q.shape.rank() == 4 && k.rank() == 4 && v.rank() == 4,
                    "q, k and v need the axes batch, heads, length, width");
  const Shape result{q.shape[0], q.shape[1], q.shape[2], v[3]};
  inference.create(result, q.dtype, dense_strides(result, q.strides));
}

std::int64_t ranks_of(const NodeView& node) {
  return node.attributes().integer("ranks", 1);
}

// Elements of the keys and values of one rank.
std::int64_t pair_elements(const NodeView& node) {
  return node.input(kKey).elements().count + node.input(kValue).elements().count;
}

Shape rows_of(const NodeView& node) {
  const Shape& q = node.input(kQuery).shape;
  return {q[0], q[1], q[2]};
}

// The ring buffer of the last step is what forward keeps of keys and values.
void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  saved.input(kQuery);
  saved.output();
  saved.extra("keys_and_values", {pair_elements(node)}, node.input(kKey).dtype);
  saved.extra("logsumexp", rows_of(node), DType::kFloat32);
  saved.extra("random_state", {2}, DType::kInt64);
}

Work send_work(const NodeView& node, std::int64_t pairs) {
  Tensor sent;
  sent.dtype = node.input(kKey).dtype;
  sent.shape = {pairs * pair_elements(node)};
  return collective_work(node, CollectiveKind::kSend, sent);
}

void emit(ForwardBuilder& b) {
  const NodeView& node = b.node();
  const bool keeps = node.output().requires_grad;
  const DType dtype = node.input(kKey).dtype;
  const std::int64_t ranks = ranks_of(node);
  const auto buffer = [&](std::int64_t step) {
    return keeps && step == ranks - 1 ? b.saved("keys_and_values")
                                      : b.create("ring_buffer", {pair_elements(node)}, dtype);
  };
  std::vector<Tensor> held{buffer(0)};
  b.launch({.name = "attention.pack",
            .reads = {node.input(kKey), node.input(kValue)},
            .creates = {held[0]},
            .work = work_on(OperatorClass::kElementwise, Flops(0), {held[0]}, {held[0]})});
  std::vector<Tensor> partial;
  for (std::int64_t step = 0; step < ranks; ++step) {
    if (step + 1 < ranks) {
      held.push_back(buffer(step + 1));
      b.launch({.name = "send",
                .reads = {held[static_cast<std::size_t>(step)]},
                .creates = {held.back()},
                .work = send_work(node, 1)});
    }
    const Tensor result = b.create("partial_output", node.output().shape, node.output().dtype);
    const Tensor rows = b.create("partial_logsumexp", rows_of(node), DType::kFloat32);
    b.launch({.name = "attention",
              .reads = {node.input(kQuery), held[static_cast<std::size_t>(step)]},
              .creates = {result, rows},
              .work = attention_work(node, 1, 0)});
    partial.insert(partial.end(), {result, rows});
  }
  // All buffers are in a list until the function returns.
  BackwardKernel correct{.name = "attention.correct",
                         .reads = partial,
                         .creates = {node.output()},
                         .work = work_on(OperatorClass::kElementwise,
                                         flops_per(2 * static_cast<double>(ranks), node.output()),
                                         {}, {node.output()})};
  correct.work.dtype = node.output().dtype;
  for (const Tensor& tensor : partial)
    correct.work.read += tensor.bytes();
  correct.reads.insert(correct.reads.end(), held.begin(), held.end());
  if (keeps) {
    correct.creates.push_back(b.saved("logsumexp"));
    correct.creates.push_back(b.saved("random_state"));
  }
  b.launch(correct);
}

// Adds a step's gradients to what has come from the rank before.
void accumulate(BackwardBuilder& b, const Tensor& added, const Tensor& sum) {
  b.launch(
      {.name = "attention.accumulate",
       .reads = {added},
       .mutates = {sum},
       .work = work_on(OperatorClass::kElementwise, flops_per(1, added), {added, added}, {added})});
}

// Returns a gradient as the view that it is of the ring buffer.
Tensor view_of(const Tensor& buffer, const Tensor& like) {
  Tensor view = like;
  view.storage = buffer.storage;
  view.strides = contiguous_strides(like.shape);
  return view;
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const DType dtype = node.input(kKey).dtype;
  const std::int64_t ranks = ranks_of(node);
  const std::int64_t pair = pair_elements(node);
  const Tensor gradient = b.output_gradient();
  // K and V, then dK and dV.
  const std::array ring = {b.create("ring_buffer", {2 * pair}, dtype),
                           b.create("ring_buffer", {2 * pair}, dtype)};
  const Tensor kept = b.saved("keys_and_values");
  b.launch({.name = "attention.pack",
            .reads = {kept},
            .creates = {ring[0], ring[1]},
            .work = work_on(OperatorClass::kElementwise, Flops(0), {kept}, {kept})});
  const Tensor query_gradient = create_dense(b, "query_gradient", node.input(kQuery));
  for (std::int64_t step = 0; step < ranks; ++step) {
    const Tensor& from = ring[static_cast<std::size_t>(step % 2)];
    const Tensor& to = ring[static_cast<std::size_t>((step + 1) % 2)];
    const bool both = step > 0 && step + 1 < ranks;
    b.launch(
        {.name = "send", .reads = {from}, .mutates = {to}, .work = send_work(node, both ? 2 : 1)});
    const bool first = step == 0;
    const Tensor of_query =
        first ? query_gradient : create_dense(b, "step_query_gradient", node.input(kQuery));
    const Tensor of_pair = b.create("step_gradients", {pair}, dtype);
    b.launch({.name = "attention.backward",
              .reads = {gradient, node.input(kQuery), from, node.output(), b.saved("logsumexp"),
                        b.saved("random_state")},
              .creates = {of_query, of_pair},
              .work = attention_work(node, 2.5, kAttentionBackward),
              .workspace = attention_backward_workspace(node)});
    if (!first) accumulate(b, of_query, query_gradient);
    accumulate(b, of_pair, to);
  }
  const Tensor& last = ring[static_cast<std::size_t>(ranks % 2)];
  b.set_input_gradient(kQuery, query_gradient);
  b.set_input_gradient(kKey, view_of(last, node.input(kKey)));
  b.set_input_gradient(kValue, view_of(last, node.input(kValue)));
}

constexpr OperatorFamily kFamily{
    .name = "attention",
    .summary = "attention to the keys and values of all context ranks, which go around a ring",
    .infer = infer,
    .forward = nullptr,
    .save = save,
    .backward = backward,
    .emit = emit};

}  // namespace
}  // namespace ring_attention_detail

const OperatorFamily& ring_attention_family() {
  return ring_attention_detail::kFamily;
}

bool is_attention(const OperatorFamily& family) {
  return &family == &attention_family() || &family == &ring_attention_family();
}

}  // namespace tidemark
