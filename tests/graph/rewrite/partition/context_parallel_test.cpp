// One rank of a context group: buffers and messages of attention against formulas.
#include <string>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/models/decoders/llama.hpp"
#include "graph/rewrite/partition/partition_graph.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::context_parallel_test {
namespace {

PartitionOptions context(int ranks, ContextKind kind = ContextKind::kRing) {
  return {.group = MeshDimension::kContext,
          .ranks = ranks,
          .kind = kind,
          .path = "policies.context_parallel.size"};
}

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKeyHeads = 4;
constexpr std::int64_t kHead = kWidth / kHeads;
constexpr std::int64_t kLength = 64;

Graph llama(std::int64_t layers, AttentionKind attention = AttentionKind::kFlash) {
  const LlamaConfig config{.layers = layers,
                           .width = kWidth,
                           .heads = kHeads,
                           .kv_heads = kKeyHeads,
                           .ffn = 96,
                           .vocab = 512,
                           .positions = kLength};
  return build_llama(config, "llama",
                     {.micro_batch = kBatch, .sequence = kLength, .attention = attention});
}

TrainingGraph train(std::int64_t layers, const PartitionOptions& options) {
  return probe::train(partition_graph(llama(layers), options), "torch-2.4-cuda");
}

std::int64_t sent(const TrainingGraph& graph, CollectiveKind kind, OperatorPart part) {
  std::int64_t bytes = 0;
  for (const Operator& op : graph.operators) {
    const bool counts = op.work.op_class == OperatorClass::kCollective &&
                        op.work.collective.kind == kind &&
                        (op.part == OperatorPart::kForward) == (part == OperatorPart::kForward);
    if (counts) bytes += op.work.collective.bytes.count;
  }
  return bytes;
}

// Bytes of the keys and values of one rank, in 16 bit.
std::int64_t pair_bytes(std::int64_t ranks) {
  return 2 * kBatch * (kLength / ranks) * kKeyHeads * kHead * 2;
}

std::string problem_of(const Graph& graph, const PartitionOptions& options) {
  try {
    static_cast<void>(partition_graph(graph, options));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a ring passes keys and values on, and back with their gradients") {
    for (int ranks : {2, 4, 8}) {
      const TrainingGraph graph = train(1, context(ranks));
      const std::int64_t pair = pair_bytes(ranks);
      CHECK(sent(graph, CollectiveKind::kSend, OperatorPart::kForward) == (ranks - 1) * pair);
      CHECK(sent(graph, CollectiveKind::kSend, OperatorPart::kBackward) == 2 * (ranks - 1) * pair);
      // Forward holds the keys and values of the whole sequence, the last of which are kept;
      // backward has two buffers of both and their gradients.
      std::int64_t forward = 0;
      std::int64_t backward = 0;
      std::int64_t kept = 0;
      for (const Storage& storage : graph.storages) {
        const bool is_kept = storage.name == "keys_and_values";
        if (is_kept) kept += storage.bytes.count;
        if (storage.name != "ring_buffer" && !is_kept) continue;
        (storage.role == Role::kActivationGradient ? backward : forward) += storage.bytes.count;
      }
      CHECK(forward == ranks * pair);
      CHECK(backward == 2 * 2 * pair);
      CHECK(kept == pair);
    }
  }

  TEST_CASE("buffers of forward live until all steps are done") {
    constexpr int kRanks = 4;
    const TrainingGraph graph = train(1, context(kRanks));
    for (const Operator& op : graph.operators) {
      if (op.name != "attention.correct") continue;
      int buffers = 0;
      for (const Touch& touch : std::span(graph.touches).subspan(op.first_touch, op.touch_count)) {
        const std::string& name = graph.storages[touch.storage].name;
        buffers += name == "ring_buffer" || name == "keys_and_values" ? 1 : 0;
      }
      CHECK(buffers == kRanks);
    }
  }

  TEST_CASE("everything but the ring is a part of the tokens, parameters are whole") {
    for (const ContextKind kind :
         {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kAllToAll}) {
      const Graph whole = llama(2);
      const Graph part = partition_graph(whole, context(4, kind));
      CHECK(part.parameter_count() == whole.parameter_count());
      CHECK(part.tensors[part.logits].elements().count * 4 ==
            whole.tensors[whole.logits].elements().count);
      CHECK_NOTHROW(check_invariants(part));
    }
  }

  TEST_CASE("gathered keys and values are gathered again, their gradients scattered") {
    for (int ranks : {2, 4}) {
      const TrainingGraph graph = train(1, context(ranks, ContextKind::kAllGather));
      const std::int64_t whole = ranks * pair_bytes(ranks);
      CHECK(sent(graph, CollectiveKind::kAllGather, OperatorPart::kForward) == whole);
      CHECK(sent(graph, CollectiveKind::kAllGather, OperatorPart::kBackward) == whole);
      CHECK(sent(graph, CollectiveKind::kReduceScatter, OperatorPart::kBackward) == whole);
    }
  }

  TEST_CASE("positions are exchanged for heads four times, and back four times") {
    for (int ranks : {2, 4}) {
      const TrainingGraph graph = train(1, context(ranks, ContextKind::kAllToAll));
      // q, the result, and k and v with their fewer heads.
      const std::int64_t all = 2 * kBatch * (kLength / ranks) * kWidth * 2 + pair_bytes(ranks);
      CHECK(sent(graph, CollectiveKind::kAllToAll, OperatorPart::kForward) == all);
      CHECK(sent(graph, CollectiveKind::kAllToAll, OperatorPart::kBackward) == all);
    }
  }

  TEST_CASE("the flops of attention are divided by the ranks") {
    const auto attention_flops = [](const TrainingGraph& graph) {
      double flops = 0;
      for (const Operator& op : graph.operators) {
        if (op.work.op_class == OperatorClass::kAttention) flops += op.work.flops.count;
      }
      return flops;
    };
    const double alone = attention_flops(probe::train(llama(1), "torch-2.4-cuda"));
    for (const ContextKind kind :
         {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kAllToAll}) {
      CHECK(attention_flops(train(1, context(4, kind))) == doctest::Approx(alone / 4));
    }
  }

  TEST_CASE("tensor and context ranks divide the same layer") {
    const Graph first = partition_graph(llama(1), context(2));
    const PartitionOptions tensor{.group = MeshDimension::kTensor,
                                  .ranks = 2,
                                  .sequence = true,
                                  .path = "policies.tensor_parallel.size"};
    const TrainingGraph graph = probe::train(partition_graph(first, tensor), "torch-2.4-cuda");
    CHECK(sent(graph, CollectiveKind::kSend, OperatorPart::kForward) == pair_bytes(2) / 2);
    CHECK(sent(graph, CollectiveKind::kSend, OperatorPart::kBackward) == pair_bytes(2));
  }

  TEST_CASE("positions and heads that do not divide are named") {
    CHECK(problem_of(llama(1), context(6))
              .find("a sequence of 64 does not divide into 2 x 6 "
                    "pieces; write a sequence of 60 or 72, or a size "
                    "of 4 or 8") != std::string::npos);
    CHECK(problem_of(llama(1), context(16, ContextKind::kAllToAll))
              .find("8 heads do not divide over 16 ranks; write a size of 4") != std::string::npos);
    CHECK(problem_of(llama(1, AttentionKind::kMath), context(2)).find("attention: flash") !=
          std::string::npos);
  }
}

}  // namespace tidemark::context_parallel_test
