#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::attention_test {
namespace {

using probe::saved_bytes;

// q, k and v as head-split views of one fused projection, heads merged again afterwards.
TrainingGraph fused_attention(DType dtype) {
  ModelBuilder b("probe", dtype);
  const TensorId x = b.parameter("x", {2, 100, 192});
  std::vector<TensorId> parts = b.split(b.scale(x), 64, 2);
  for (TensorId& part : parts)
    part = b.transpose(b.view(part, {2, 100, 4, 16}), 1, 2);
  const TensorId y = b.attention(parts[0], parts[1], parts[2], AttentionKind::kFlash, true, 0, {});
  b.set_output(b.view(b.contiguous(b.transpose(y, 1, 2)), {2, 100, 64}));
  return probe::train(b.finish(), "torch-2.4-cuda");
}

TEST_SUITE("unit") {
  TEST_CASE("flash attention keeps the fused projection whole, its result and one fp32 per row") {
    const TrainingGraph graph = fused_attention(DType::kBFloat16);
    // qkv 2 * 100 * 192 * 2, result 2 * 100 * 64 * 2, logsumexp 2 * 4 * 100 * 4, random state 16.
    CHECK(saved_bytes(graph) == 76800 + 25600 + 3200 + 16);
  }

  TEST_CASE("heads of flash attention's result merge without a copy, in backward too") {
    const TrainingGraph graph = fused_attention(DType::kBFloat16);
    CHECK(graph.part(PartKind::kForward).size() == 2);  // scale, attention
    // dq, dk, dv; their concatenation; the gradient of x.
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) ==
          probe::Sizes{25600, 25600, 25600, 76800, 76800});
  }

  TEST_CASE("flash attention's backward needs an fp32 dq and one fp32 per row, rounded up") {
    const TrainingGraph graph = fused_attention(DType::kBFloat16);
    const auto workspace = [&](const TrainingGraph& g) {
      for (OperatorId id : g.part(PartKind::kBackward)) {
        if (g.operators[id].name == "attention.backward") return g.operators[id].workspace.count;
      }
      return std::int64_t{-1};
    };
    // 100 rows become 128, width 16 becomes 32: 2 * 4 * 128 * (32 + 1) * 4.
    CHECK(workspace(graph) == 135168);
    CHECK(workspace(fused_attention(DType::kFloat32)) == 2 * 4 * 128 * 4);
  }

  TEST_CASE("attention counts half of the products under a causal mask, 2.5 times in backward") {
    const TrainingGraph graph = fused_attention(DType::kBFloat16);
    const double forward = 4.0 * 2 * 4 * 100 * 100 * 16 / 2;
    CHECK(graph.operators[graph.part(PartKind::kForward)[1]].work.flops.count == forward);
    CHECK(graph.operators[graph.part(PartKind::kForward)[1]].work.extent ==
          std::array<std::int64_t, 4>{100, 100, 16, 1});
    double backward = 0;
    for (OperatorId id : graph.part(PartKind::kBackward)) {
      if (graph.operators[id].name == "attention.backward") {
        backward = graph.operators[id].work.flops.count;
      }
    }
    CHECK(backward == 2.5 * forward);
  }

  TEST_CASE("query heads must be a multiple of key heads") {
    ModelBuilder b("probe", DType::kFloat16);
    const TensorId q = b.parameter("q", {1, 6, 8, 16});
    const TensorId k = b.parameter("k", {1, 4, 8, 16});
    CHECK(probe::problem_of([&] { b.attention(q, k, k, AttentionKind::kFlash, true, 0, {}); }) ==
          "probe: attention: 6 query heads are not a multiple of 4 key heads (inputs have shapes "
          "[1, 6, 8, 16], [1, 4, 8, 16], [1, 4, 8, 16])");
  }

  TEST_CASE("rotary positions keep cos and sin only, which are buffers, and the memory order") {
    ModelBuilder b("probe", DType::kBFloat16);
    const TensorId x = b.transpose(b.parameter("x", {2, 100, 4, 16}), 1, 2);
    const TensorId cos = b.buffer("cos", {100, 16}, DType::kBFloat16);
    const TensorId y = b.rotary(x, cos, b.buffer("sin", {100, 16}, DType::kBFloat16));
    CHECK(b.tensor(y).strides == b.tensor(x).strides);
    b.set_output(y);
    CHECK(saved_bytes(probe::train(b.finish(), "torch-2.4-cuda")) == 0);
  }
}

}  // namespace
}  // namespace tidemark::attention_test
