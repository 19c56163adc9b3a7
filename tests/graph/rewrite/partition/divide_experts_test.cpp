// One rank of an expert group: parameters, rows that are sent, and messages against formulas.
#include "graph/rewrite/partition/divide_experts.hpp"

#include <cmath>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/models/decoders/llama.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::divide_experts_test {
namespace {

constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kFeatures = 48;
constexpr std::int64_t kTokens = 64;

Graph mixture(std::int64_t experts, std::int64_t choices) {
  const LlamaConfig config{.layers = 1,
                           .width = kWidth,
                           .heads = 4,
                           .kv_heads = 2,
                           .ffn = kFeatures,
                           .vocab = 256,
                           .positions = kTokens,
                           .experts = experts,
                           .experts_per_token = choices};
  return build_llama(config, "mixture", {.micro_batch = 1, .sequence = kTokens});
}

ExpertOptions over(int ranks) {
  return {.ranks = ranks, .path = "policies.expert_parallel.size"};
}

struct Exchanges {
  int forward = 0;
  int backward = 0;
  std::int64_t bytes = 0;
  int waits = 0;  // exchanges before which the host reads their sizes
};
Exchanges exchanges(const TrainingGraph& graph) {
  Exchanges found;
  for (const Operator& op : graph.operators) {
    if (op.work.op_class != OperatorClass::kCollective) continue;
    CHECK(op.work.collective.kind == CollectiveKind::kAllToAll);
    CHECK(op.work.collective.group == MeshDimension::kExpert);
    ++(op.part == OperatorPart::kForward ? found.forward : found.backward);
    found.bytes += op.work.collective.bytes.count;
    found.waits += op.blocks_host ? 1 : 0;
  }
  return found;
}

std::int64_t bytes_of(const TrainingGraph& graph, std::string_view name) {
  std::int64_t bytes = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.name == name) bytes += storage.bytes.count;
  }
  return bytes;
}

std::string problem_of(const Graph& graph, const ExpertOptions& options) {
  try {
    static_cast<void>(divide_experts(graph, options));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a rank has its experts, and everything else whole") {
    for (std::int64_t experts : {4, 8}) {
      const Graph whole = mixture(experts, 2);
      for (int ranks : {2, 4}) {
        const Graph part = divide_experts(whole, over(ranks));
        CHECK_NOTHROW(check_invariants(part));
        const std::int64_t expert = 3 * kWidth * kFeatures;
        CHECK(part.parameter_count().count ==
              whole.parameter_count().count - (experts - experts / ranks) * expert);
        std::int64_t of_experts = 0;
        for (const Parameter& parameter : part.parameters)
          of_experts += parameter.of_expert ? parameter.elements.count : 0;
        CHECK(of_experts == experts / ranks * expert);
      }
    }
  }

  TEST_CASE("every choice of a token is sent and comes back, in both directions") {
    for (std::int64_t choices : {1, 2, 3}) {
      const Graph part = divide_experts(mixture(8, choices), over(4));
      const TrainingGraph graph = probe::train(part, "torch-2.4-cuda");
      const std::int64_t permuted = choices * kTokens * kWidth * 2;  // 16 bit
      CHECK(bytes_of(graph, "permute_rows") == permuted);
      const Exchanges found = exchanges(graph);
      CHECK(found.forward == 2);
      CHECK(found.backward == 2);
      CHECK(found.bytes == 4 * permuted);
      CHECK(found.waits == 2);  // one in each direction
    }
  }

  TEST_CASE("capacity pads what is sent, and the host does not wait") {
    for (double factor : {1.0, 1.25, 2.0}) {
      ExpertOptions options = over(2);
      options.capacity_factor = factor;
      const TrainingGraph graph =
          probe::train(divide_experts(mixture(8, 2), options), "torch-2.4-cuda");
      const auto places = static_cast<std::int64_t>(std::ceil(kTokens * 2 / 8.0 * factor));
      CHECK(bytes_of(graph, "permute_rows") == 8 * places * kWidth * 2);
      CHECK(exchanges(graph).bytes == 4 * 8 * places * kWidth * 2);
      CHECK(exchanges(graph).waits == 0);
    }
  }

  TEST_CASE("the rank with more than the average computes and keeps more") {
    ExpertOptions options = over(4);
    const auto saved = [&] {
      return probe::saved_bytes(
          probe::train(divide_experts(mixture(8, 2), options), "torch-2.4-cuda"));
    };
    const std::int64_t balanced = saved();
    options.imbalance = 0.5;
    // Beside the rows themselves each product's input and what the activation and the product of
    // both halves keep: four of the features.
    const std::int64_t more = kTokens * 2 / 2;
    CHECK(saved() - balanced == more * (kWidth + 4 * kFeatures) * 2);
  }

  TEST_CASE("experts that do not divide, and models without any, are named") {
    CHECK(problem_of(mixture(6, 2), over(4))
              .find("6 experts do not divide over 4 ranks; write a "
                    "size of 3 or 6") != std::string::npos);
    const LlamaConfig dense{.layers = 1, .positions = 32};
    CHECK(problem_of(build_llama(dense, "dense", {.sequence = 32}), over(2))
              .find("dense has no mixture of experts") != std::string::npos);
  }
}

}  // namespace tidemark::divide_experts_test
