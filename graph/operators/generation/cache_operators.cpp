#include "graph/operators/generation/cache_operators.hpp"

#include "graph/operators/kernels.hpp"
#include "graph/operators/pointwise/creation.hpp"

namespace tidemark {
namespace cache_operators_detail {
namespace {

void infer_next_token(Inference& inference) {
  const Shape& logits = inference.input(0).shape;
  inference.require(logits.rank() == 3 && logits[1] == 1,
                    "needs logits of one position, [batch, 1, vocabulary]");
  inference.create({logits[0], 1}, DType::kInt64);
}

ForwardKernel forward_next_token(const NodeView& node) {
  const Tensor& logits = node.input(0);
  return {
      .work = work_on(OperatorClass::kReduction, flops_per(1, logits), {logits}, {node.output()}),
      .blocks_host = true};
}

constexpr std::size_t kLength = 2;

void infer_append(Inference& inference) {
  const std::size_t last = inference.input_count() - 1;
  const Tensor& added = inference.input(last);
  inference.require(added.shape.rank() == 4, "needs the axes batch, heads, length, width");
  Shape shape = added.shape;
  if (last > 0) {
    const Tensor& cache = inference.input(0);
    shape[kLength] += cache.shape[kLength];
    Shape without = cache.shape;
    without[kLength] = shape[kLength];
    inference.require(without == shape && cache.dtype == added.dtype,
                      "the cache and what is added differ in another axis than the length");
  }
  inference.create(shape, added.dtype);
  inference.set_role(Role::kKeyValueCache);
}

ForwardKernel forward_append(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0)};
}

void infer_new(Inference& inference) {
  create_shaped(inference, "bf16");
  inference.set_role(Role::kKeyValueCache);
}

ForwardKernel forward_new(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kMemset, 0)};
}

void infer_write(Inference& inference) {
  const Tensor& cache = inference.input(0);
  const Tensor& added = inference.input(1);
  inference.require(added.elements().count <= cache.elements().count,
                    "the cache has no room for what is written");
  inference.in_place(0);
}

ForwardKernel forward_write(const NodeView& node) {
  const Tensor& added = node.input(1);
  Work work{.op_class = OperatorClass::kElementwise, .dtype = added.dtype};
  work.read = added.bytes();
  work.written = bytes_of(node.input(0).dtype, added.elements());
  return {.work = work};
}

void infer_paged_attention(Inference& inference) {
  const Tensor& q = inference.input(0);
  const Shape& keys = inference.input(1).shape;
  inference.require(q.shape.rank() == 4 && keys.rank() == 4 && keys[3] == q.shape[3],
                    "needs queries [batch, heads, length, width] and blocks of keys and values");
  inference.require(q.shape[1] % keys[2] == 0,
                    "the query heads are not a multiple of the key heads");
  const Tensor like = q;
  inference.create(like.shape, like.dtype, dense_strides(like.shape, like.strides));
}

// The arithmetic of attention over the tokens that there are: a prompt attends to half of its own.
ForwardKernel forward_paged_attention(const NodeView& node) {
  const Tensor& q = node.input(0);
  const Tensor& keys = node.input(1);
  const std::int64_t tokens = node.attributes().integer("tokens");
  const std::int64_t length = q.shape[kLength];
  const std::int64_t width = q.shape[3];
  const Elements cached(q.shape[0] * tokens * keys.shape[2] * width);
  const double scores = static_cast<double>(q.elements().count) * static_cast<double>(tokens);
  Work work{.op_class = OperatorClass::kAttention, .dtype = q.dtype};
  work.flops = Flops(4.0 * scores * (length > 1 ? 0.5 : 1.0));
  work.read = q.bytes() + bytes_of(keys.dtype, cached) * 2;
  work.written = node.output().bytes();
  work.extent = {length, tokens, width, length > 1 ? kAttentionCausal : 0};
  return {.work = work};
}

constexpr OperatorFamily kNextTokenFamily{
    .name = "next_token",
    .summary = "the next token of each sequence; the host waits for it",
    .infer = infer_next_token,
    .forward = forward_next_token,
    .save = save_nothing,
    .backward = no_backward};
constexpr OperatorFamily kAppend{.name = "append_cache",
                                 .summary = "a longer copy of a cache",
                                 .infer = infer_append,
                                 .forward = forward_append,
                                 .save = save_nothing,
                                 .backward = no_backward};
constexpr OperatorFamily kNew{.name = "new_cache",
                              .summary = "room for the keys or values of all tokens",
                              .infer = infer_new,
                              .forward = forward_new,
                              .save = save_nothing,
                              .backward = no_backward};
constexpr OperatorFamily kWrite{.name = "write_cache",
                                .summary = "writes keys or values into a cache",
                                .infer = infer_write,
                                .forward = forward_write,
                                .save = save_nothing,
                                .backward = no_backward};
constexpr OperatorFamily kPagedAttention{.name = "paged_attention",
                                         .summary = "attention over the blocks of a paged cache",
                                         .infer = infer_paged_attention,
                                         .forward = forward_paged_attention,
                                         .save = save_nothing,
                                         .backward = no_backward};

}  // namespace
}  // namespace cache_operators_detail

const OperatorFamily& next_token_family() {
  return cache_operators_detail::kNextTokenFamily;
}
const OperatorFamily& append_cache_family() {
  return cache_operators_detail::kAppend;
}
const OperatorFamily& new_cache_family() {
  return cache_operators_detail::kNew;
}
const OperatorFamily& write_cache_family() {
  return cache_operators_detail::kWrite;
}
const OperatorFamily& paged_attention_family() {
  return cache_operators_detail::kPagedAttention;
}

}  // namespace tidemark
