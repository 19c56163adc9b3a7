// One rank of an expert group: parameters, rows that are sent, and messages against formulas.
#include "graph/rewrite/partition/divide_experts.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/models/decoders/deepseek.hpp"
#include "graph/models/decoders/llama.hpp"
#include "graph/rewrite/partition/partition_graph.hpp"
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

// The experts' weights are one parameter for each product, as in DeepSeek's; so is what is shared.
Graph stacked(std::int64_t experts, std::int64_t choices, std::int64_t shared = 1) {
  const DeepseekConfig config{.layers = 2,
                              .width = kWidth,
                              .heads = 4,
                              .kv_rank = 16,
                              .plain_width = 8,
                              .rotary_width = 8,
                              .value_width = 8,
                              .ffn = 64,
                              .expert_ffn = kFeatures,
                              .experts = experts,
                              .experts_per_token = choices,
                              .shared_experts = shared,
                              .vocab = 256,
                              .positions = kTokens};
  return build_deepseek(config, "stacked", {.micro_batch = 1, .sequence = kTokens});
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
    int round = 0;
    for (const std::int64_t experts : {4, 8, 4, 8}) {
      const bool in_one = ++round > 2;
      const Graph whole = in_one ? stacked(experts, 3) : mixture(experts, 2);
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
    for (std::int64_t choices : {1, 2, 3, -1, -3}) {
      const bool in_one = choices < 0;
      choices = std::abs(choices);
      const Graph part =
          divide_experts(in_one ? stacked(8, choices) : mixture(8, choices), over(4));
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

  TEST_CASE("weights in one parameter keep as many bytes as a weight for each expert") {
    const auto saved = [](const Graph& graph) {
      std::map<std::string, std::int64_t> bytes;
      for (const auto& [name, each] :
           probe::saved_by_name(probe::train(divide_experts(graph, over(4)), "torch-2.4-cuda")))
        bytes[name] += each;
      return bytes;
    };
    const auto one = saved(stacked(8, 2, 0));
    const auto each = saved(mixture(8, 2));
    for (const char* name : {"all_to_all", "places", "sort_rows", "top_k"}) {
      CAPTURE(name);
      CHECK(one.at(name) == each.at(name));
    }
    CHECK(one.at("grouped_linear") == each.at("grouped_linear"));
  }

  TEST_CASE("tensor ranks divide the features of the experts that expert ranks leave") {
    const std::int64_t expert = 3 * kWidth * kFeatures;
    for (const Graph& whole : {stacked(8, 2), divide_experts(stacked(8, 2), over(4))}) {
      std::int64_t experts = 0;
      for (const Parameter& parameter : whole.parameters) {
        if (parameter.shape.rank() == 3) experts = parameter.shape[0];
      }
      for (const bool sequence : {false, true}) {
        const Graph part = partition_graph(
            whole, {.ranks = 2, .sequence = sequence, .path = "policies.tensor_parallel.size"});
        CHECK_NOTHROW(check_invariants(part));
        std::int64_t stacked_weights = 0;
        for (const Parameter& parameter : part.parameters)
          stacked_weights += parameter.shape.rank() == 3 ? parameter.elements.count : 0;
        CHECK(stacked_weights == experts * expert / 2);
        CHECK_NOTHROW(static_cast<void>(probe::train(part, "torch-2.4-cuda")));
      }
    }
  }

  TEST_CASE("experts that do not divide, and models without any, are named") {
    CHECK(problem_of(stacked(6, 2), over(4)).find("6 experts do not divide over 4 ranks") !=
          std::string::npos);
    CHECK(problem_of(mixture(6, 2), over(4))
              .find("6 experts do not divide over 4 ranks; write a "
                    "size of 3 or 6") != std::string::npos);
    const LlamaConfig dense{.layers = 1, .positions = 32};
    CHECK(problem_of(build_llama(dense, "dense", {.sequence = 32}), over(2))
              .find("dense has no mixture of experts") != std::string::npos);
  }
}

}  // namespace tidemark::divide_experts_test
