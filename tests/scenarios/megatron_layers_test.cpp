// Megatron-LM's layers where they differ from Hugging Face's: norms are one kernel, and weight
// gradients run behind the reduction over tensor ranks.
#include <algorithm>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::megatron_layers_test {
namespace {

constexpr const char* kMain = "precision: bf16_mixed, gradient_dtype: fp32";

Scenario scenario(std::string_view training, std::string_view policies) {
  return decode(fmt::format(
      "model: {{preset: llama-3-8b, layers: 2, width: 1024, heads: 8, kv_heads: 4, ffn: 2048, "
      "vocab: 4096, sequence: 512}}\nhardware: {{gpu: h100-sxm-80gb, count: 4}}\nallocator: ideal\n"
      "training: {{micro_batch: 2, host: cuda_graphs, {}}}\npolicies: [{}]\n",
      training, policies));
}

bool reduces(const Operator& op) {
  const CollectiveKind kind = op.work.collective.kind;
  return op.work.op_class == OperatorClass::kCollective &&
         op.work.collective.group == MeshDimension::kTensor &&
         (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter);
}

// Counts the weight gradients of the blocks' linear layers right behind a reduction over tensor
// ranks.
std::size_t behind_reductions(const TrainingGraph& graph) {
  std::size_t count = 0;
  bool behind = false;
  for (const OperatorId id : graph.part(PartKind::kBackward)) {
    const Operator& op = graph.operators[id];
    if (reduces(op)) {
      behind = true;
    } else if (op.part == OperatorPart::kWeightGradient) {
      const bool product = op.work.op_class == OperatorClass::kMatmul;
      if (behind && product && graph.block_of(id) != kNoBlock) ++count;
    } else if (op.part != OperatorPart::kCopyGradient) {
      behind = false;
    }
  }
  return count;
}

std::size_t products(const TrainingGraph& graph) {
  const std::vector<OperatorId>& backward = graph.part(PartKind::kBackward);
  return static_cast<std::size_t>(std::count_if(
      backward.begin(), backward.end(),
      [&](OperatorId id) { return graph.operators[id].work.op_class == OperatorClass::kMatmul; }));
}

bool has(const TrainingGraph& graph, std::string_view name) {
  return std::any_of(graph.operators.begin(), graph.operators.end(),
                     [&](const Operator& op) { return op.name == name; });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("weight gradients run beside the reduction of the input gradient") {
    for (const char* sequence : {"true", "false"}) {
      CAPTURE(sequence);
      const std::string cut = fmt::format("tensor_parallel: {{size: 4, sequence: {}}}", sequence);
      const TrainingGraph late = build_training(scenario(kMain, cut)).training;
      // q, k, v, gate and up of each layer wait; products that are cut by rows have nothing to wait
      // for.
      CHECK(behind_reductions(late) == 2 * 5);
      // PyTorch reduces when backward of the products is over.
      const TrainingGraph plain =
          build_training(scenario("precision: bf16_mixed", cut + ", data_parallel")).training;
      CHECK(behind_reductions(plain) == 0);
      CHECK(products(late) == products(plain));
    }
  }

  TEST_CASE("what hides behind weight gradients is not exposed") {
    const auto exposed = [](const char* loss_and_system) {
      const Scenario step = scenario(loss_and_system, "tensor_parallel: {size: 4, sequence: true}");
      const PointResult point = simulate(step, build_training(step), {.smallest_capacity = false});
      REQUIRE(point.status == PointStatus::kFits);
      Duration busy{};
      Duration waited{};
      for (const Communication& used : point.communication) {
        busy += used.busy;
        waited += used.exposed;
      }
      return static_cast<double>(waited.count()) / static_cast<double>(busy.count());
    };
    // The same collectives; only Megatron's main gradients are fp32.
    CHECK(exposed(kMain) < exposed("precision: bf16_mixed"));
  }

  TEST_CASE("norms are one kernel where Megatron trains the model") {
    const auto training_of = [](const char* training, const char* policies) {
      return build_training(scenario(training, policies)).training;
    };
    for (const char* policies : {"", "distributed_optimizer", "tensor_parallel: {size: 2}"}) {
      CAPTURE(policies);
      const TrainingGraph graph = training_of(kMain, policies);
      CHECK(has(graph, "rms_norm"));
      CHECK_FALSE(has(graph, "rsqrt"));
    }
    for (const char* policies : {"fsdp: {param_dtype: bf16}", "data_parallel"}) {
      CAPTURE(policies);
      const TrainingGraph graph = training_of("precision: fp32", policies);
      CHECK_FALSE(has(graph, "rms_norm"));
      CHECK(has(graph, "rsqrt"));
    }
  }
}

}  // namespace tidemark::megatron_layers_test
