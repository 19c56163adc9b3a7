// scaled_dot_product_attention as one kernel: FlashAttention-2 for 16-bit inputs, the
// memory-efficient kernel for fp32, with the same saved set.
#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/products/attention_work.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace attention_family_detail {

constexpr std::size_t kQuery = 0;  // [batch, heads, length, width]
constexpr std::size_t kKey = 1;    // [batch, key heads, key length, width]
constexpr std::size_t kValue = 2;

}  // namespace attention_family_detail

// 4 b h s^2 d, half of it under a causal mask (Dao 2023, section 4.1).
Work attention_work(const NodeView& node, double share, std::int64_t direction) {
  const Tensor& q = node.input(attention_family_detail::kQuery);
  const Tensor& k = node.input(attention_family_detail::kKey);
  const Tensor& v = node.input(attention_family_detail::kValue);
  const bool causal = node.attributes().flag("causal");
  const double scores = static_cast<double>(q.shape[0]) * static_cast<double>(q.shape[1]) *
                        static_cast<double>(q.shape[2]) * static_cast<double>(k.shape[2]);
  const double width = static_cast<double>(q.shape[3] + v.shape[3]);
  return {
      .op_class = OperatorClass::kAttention,
      .dtype = q.dtype,
      .flops = Flops(share * 2.0 * scores * width * (causal ? 0.5 : 1.0)),
      .read = q.bytes() + k.bytes() + v.bytes(),
      .written = node.output().bytes(),
      .extent = {q.shape[2], k.shape[2], q.shape[3], (causal ? kAttentionCausal : 0) | direction}};
}

// mha_bwd of FlashAttention 2.5: dq is summed in fp32 over rows rounded up to 128 and widths
// rounded up to 32, softmax_d is one fp32 per row; shared key heads get a gradient per query head
// first.
Bytes attention_backward_workspace(const NodeView& node) {
  const Shape& q = node.input(attention_family_detail::kQuery).shape;
  const Shape& k = node.input(attention_family_detail::kKey).shape;
  constexpr std::int64_t kRows = 128;
  constexpr std::int64_t kWidths = 32;
  const auto rounded = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const std::int64_t rows = q[0] * q[1] * rounded(q[2], kRows);
  Bytes workspace = bytes_of(DType::kFloat32, Elements(rows));
  if (bits_of(node.input(attention_family_detail::kQuery).dtype) > 16) return workspace;
  workspace += bytes_of(DType::kFloat32, Elements(rows * rounded(q[3], kWidths)));
  if (q[1] != k[1]) {
    workspace += (node.input(attention_family_detail::kKey).bytes() +
                  node.input(attention_family_detail::kValue).bytes()) *
                 (q[1] / k[1]);
  }
  return workspace;
}

namespace attention_family_detail {

void infer(Inference& inference) {
  const Tensor& q = inference.input(kQuery);
  const Tensor& k = inference.input(kKey);
  const Tensor& v = inference.input(kValue);
  inference.require(q.shape.rank() == 4 && k.shape.rank() == 4 && v.shape.rank() == 4,
                    "q, k and v need the axes batch, heads, length, width");
  inference.require(q.shape[0] == k.shape[0] && k.shape[0] == v.shape[0],
                    "the batches of q, k and v differ");
  inference.require(q.shape[3] == k.shape[3], [&] {
    return fmt::format("the head widths of q and k differ: {} and {}", q.shape[3], k.shape[3]);
  });
  inference.require(k.shape[1] == v.shape[1] && k.shape[2] == v.shape[2],
                    "k and v differ in heads or length");
  inference.require(q.shape[1] % k.shape[1] == 0, [&] {
    return fmt::format("{} query heads are not a multiple of {} key heads", q.shape[1], k.shape[1]);
  });
  inference.require(q.dtype == k.dtype && k.dtype == v.dtype, "q, k and v differ in type");
  const Shape result{q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  // empty_like(q): with head-split views the result is contiguous once its heads are merged again.
  inference.create(result, q.dtype, dense_strides(result, q.strides));
}

ForwardKernel forward(const NodeView& node) {
  return {.work = attention_work(node, 1, 0)};
}

void save(SavedSet& saved) {
  const Shape& q = saved.node().input(kQuery).shape;
  saved.input(kQuery);
  saved.input(kKey);
  saved.input(kValue);
  saved.output();
  saved.extra("logsumexp", {q[0], q[1], q[2]}, DType::kFloat32);
  saved.extra("random_state", {2}, DType::kInt64);  // philox seed and offset
}

// Five products where forward has two: S = QK^T again, dV, dP, dQ, dK.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  BackwardBuilder::Kernel kernel{
      .name = "attention.backward",
      .reads = {gradient, node.input(kQuery), node.input(kKey), node.input(kValue), node.output(),
                b.saved("logsumexp"), b.saved("random_state")},
      .work = attention_work(node, 2.5, kAttentionBackward),
      .workspace = attention_backward_workspace(node)};
  constexpr std::string_view kNames[] = {"query_gradient", "key_gradient", "value_gradient"};
  kernel.work.read += gradient.bytes() + node.output().bytes() + b.saved("logsumexp").bytes();
  kernel.work.written = Bytes(0);
  for (std::size_t i : {kQuery, kKey, kValue}) {
    const Tensor result = create_dense(b, kNames[i], node.input(i));
    kernel.creates.push_back(result);
    kernel.work.written += result.bytes();
  }
  b.launch(kernel);
  for (std::size_t i : {kQuery, kKey, kValue})
    b.set_input_gradient(i, kernel.creates[i]);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "attention",
     .summary = "fused softmax(q k^T) v; keeps q, k, v, the result and one fp32 per row",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace attention_family_detail

std::span<const OperatorFamily> attention_families() {
  return attention_family_detail::kFamilies;
}

}  // namespace tidemark
