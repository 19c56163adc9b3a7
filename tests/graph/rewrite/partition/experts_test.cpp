// Experts that lie on several data ranks, and whose features or tokens are cut besides.
#include <doctest/doctest.h>

#include "graph/models/decoders/llama.hpp"
#include "graph/rewrite/partition/divide_experts.hpp"
#include "graph/rewrite/partition/partition_graph.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::partition_experts_test {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kFeatures = 96;
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kExperts = 8;

Graph divided() {
  const LlamaConfig config{.layers = 1,
                           .width = kWidth,
                           .heads = 4,
                           .kv_heads = 4,
                           .ffn = kFeatures,
                           .vocab = 512,
                           .positions = kTokens,
                           .experts = kExperts};
  return divide_experts(build_llama(config, "mixture", {.micro_batch = 1, .sequence = kTokens}),
                        {.ranks = 4, .path = "policies.expert_parallel.size"});
}

std::int64_t of_experts(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Parameter& parameter : graph.parameters)
    elements += parameter.of_expert ? parameter.elements.count : 0;
  return elements;
}

std::int64_t exchanged(const Graph& graph) {
  const TrainingGraph training = probe::train(graph, "torch-2.4-cuda");
  std::int64_t bytes = 0;
  for (const Operator& op : training.operators) {
    const Collective& collective = op.work.collective;
    if (op.work.op_class == OperatorClass::kCollective &&
        collective.kind == CollectiveKind::kAllToAll) {
      bytes += collective.bytes.count;
    }
  }
  return bytes;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("tensor ranks share the features of each expert") {
    const Graph whole = divided();
    const std::int64_t own = kExperts / 4 * 3 * kWidth * kFeatures;
    CHECK(of_experts(whole) == own);
    const std::int64_t permuted = 2 * kTokens * kWidth * 2;  // two choices in 16 bit
    for (int ranks : {2, 4}) {
      for (const bool sequence : {false, true}) {
        const Graph part = partition_graph(whole, {.group = MeshDimension::kTensor,
                                                   .ranks = ranks,
                                                   .sequence = sequence,
                                                   .path = "policies.tensor_parallel.size"});
        CHECK_NOTHROW(check_invariants(part));
        CHECK(of_experts(part) == own / ranks);
        // With cut tokens each tensor rank sends its own.
        CHECK(exchanged(part) == 4 * permuted / (sequence ? ranks : 1));
      }
    }
  }

  TEST_CASE("context ranks send the rows of their positions") {
    const Graph part = partition_graph(
        divided(),
        {.group = MeshDimension::kContext, .ranks = 2, .path = "policies.context_parallel.size"});
    CHECK(exchanged(part) == 4 * 2 * kTokens * kWidth * 2 / 2);
  }
}

}  // namespace tidemark::partition_experts_test
