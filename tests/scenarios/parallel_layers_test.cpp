// Tensor, context and expert parallelism, from the text of a scenario to programs and figures.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/compile.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/program_fingerprint.hpp"

namespace tidemark::parallel_layers_test {
namespace {

constexpr std::string_view kDense =
    "preset: llama-3-8b, layers: 2, width: 64, heads: 8, kv_heads: 4, ffn: 96, vocab: 512";
constexpr std::string_view kMixture =
    "preset: mixtral-8x7b, layers: 2, width: 64, heads: 8, kv_heads: 4, ffn: 96, vocab: 512";

std::string text_of(std::string_view model, int count, const std::vector<std::string>& policies,
                    const std::string& training = "") {
  return fmt::format(
      "model: {{{}}}\nhardware: {{gpu: h100-sxm-80gb, count: {}}}\n"
      "training: {{micro_batch: 2, sequence: 32{}}}\npolicies: [{}]\n",
      model, count, training, fmt::join(policies, ", "));
}

// The program of a step; compile() verifies it.
std::uint64_t fingerprint_of(const std::string& text) {
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  return test::fingerprint(compile(scenario, model).program);
}

PointResult simulated(const std::string& text) {
  return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                         {.smallest_capacity = false})
      .front();
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("policies that divide a layer compose with others, in any order") {
    const std::vector<std::vector<std::string>> lists = {
        {"tensor_parallel: {size: 2, sequence: true}", "checkpoint_every: {period: 1}"},
        {"tensor_parallel: {size: 2}", "context_parallel: {size: 2, kind: ring}",
         "offload_activations: {prefetch: 1, min_bytes: 1B}"},
        {"tensor_parallel: {size: 2, sequence: true}", "context_parallel: {size: 2, kind: ulysses}",
         "checkpoint: {first: 1}", "offload_activations: {prefetch: 1, min_bytes: 1B}"},
        {"context_parallel: {size: 4, kind: all_gather}", "megatron_selective: {}"},
        {"expert_parallel: {size: 2}", "tensor_parallel: {size: 2}",
         "checkpoint_every: {period: 1}"},
        {"expert_parallel: {size: 4, capacity_factor: 1.5}",
         "context_parallel: {size: 2, kind: ring}", "tensor_parallel: {size: 2, sequence: true}"},
    };
    std::mt19937 random(3);
    for (std::vector<std::string> policies : lists) {
      const bool mixture = policies.front().find("expert") == 0;
      for (const std::string training :
           {"", ", accumulate: 2, gradient_dtype: fp32", ", precision: bf16_autocast"}) {
        const auto program = [&] {
          return fingerprint_of(text_of(mixture ? kMixture : kDense, 16, policies, training));
        };
        CAPTURE(fmt::format("{}; {}", fmt::join(policies, ", "), training));
        const std::uint64_t expected = program();
        std::shuffle(policies.begin(), policies.end(), random);
        CHECK(program() == expected);
      }
    }
  }

  TEST_CASE("sizes of 1 change nothing, to the byte and the nanosecond") {
    const std::vector<std::string> policies = {"tensor_parallel: {size: 1, sequence: true}",
                                               "context_parallel: {size: 1}",
                                               "expert_parallel: {size: 1}"};
    CHECK(fingerprint_of(text_of(kMixture, 1, policies)) ==
          fingerprint_of(text_of(kMixture, 1, {})));
    const PointResult plain = simulated(text_of(kMixture, 1, {}));
    const PointResult same = simulated(text_of(kMixture, 1, policies));
    CHECK(same.run.step == plain.run.step);
    CHECK(same.run.live.bytes == plain.run.live.bytes);
    CHECK(same.run.reserved.bytes == plain.run.reserved.bytes);
    CHECK(same.communication.empty());
  }
}

TEST_SUITE("unit") {
  TEST_CASE("groups that communicate at one time on PCIe wait for each other, one group never") {
    const auto shared = [](const char* policies) {
      const PointResult point = simulated(fmt::format(
          "model: {{preset: llama-3.2-1b, layers: 4}}\nhardware: {{gpu: l40s, count: 4}}\n"
          "training: {{micro_batch: 1, sequence: 1024, accumulate: 2}}\npolicies: [{}]\n",
          policies));
      Duration sum{};
      for (const Communication& used : point.communication) {
        CHECK(used.shared >= Duration(0));
        CHECK(used.shared < used.busy);
        sum += used.shared;
      }
      return sum;
    };
    constexpr const char* kOptimizer =
        "distributed_optimizer: {overlap_grad_reduce: true, overlap_param_gather: true}";
    const std::string both = fmt::format("tensor_parallel: {{size: 2}}, {}", kOptimizer);
    CHECK(shared(both.c_str()) > Duration(0));
    CHECK(shared("tensor_parallel: {size: 4}") == Duration(0));
    CHECK(shared(kOptimizer) == Duration(0));
    // Copies to the host are on the same link.
    CHECK(shared("fsdp, offload_activations") > Duration(0));
  }

  TEST_CASE("gradients of norms are summed once per step, whatever the micro-batches") {
    for (const std::string training : {"", ", accumulate: 3"}) {
      const PointResult point =
          simulated(text_of(kDense, 2, {"tensor_parallel: {size: 2, sequence: true}"}, training));
      for (const Communication& used : point.communication) {
        if (used.kind != CollectiveKind::kAllReduce) continue;
        // Two norms per layer and the last one, 64 elements each, in 16 bit; three all-reduces of
        // the loss per micro-batch, 4 bytes for each of 64 tokens.
        const std::int64_t batches = training.empty() ? 1 : 3;
        CHECK(used.bytes.count == 5 * 64 * 2 + batches * 3 * 64 * 4);
        CHECK(used.count == 1 + batches * 3);
      }
    }
  }

  TEST_CASE("experts without replicas are not reduced over data ranks") {
    const auto reduced = [](int count) {
      const PointResult point = simulated(text_of(kMixture, count, {"expert_parallel: {size: 4}"}));
      std::int64_t bytes = 0;
      for (const Communication& used : point.communication) {
        if (used.group == MeshDimension::kData) bytes += used.bytes.count;
      }
      return bytes;
    };
    const PointResult point = simulated(text_of(kMixture, 4, {"expert_parallel: {size: 4}"}));
    const std::int64_t experts = 2 * (8 / 4) * 3 * 64 * 96;
    CHECK(reduced(4) == point.parameters.count - 2 * experts);
  }

  TEST_CASE("experts with replicas are reduced over the ranks that have them") {
    // Eight ranks in expert groups of four: two of them have the same experts.
    const PointResult point = simulated(text_of(kMixture, 8, {"expert_parallel: {size: 4}"}));
    std::int64_t bytes = 0;
    for (const Communication& used : point.communication) {
      if (used.group == MeshDimension::kData && used.ranks == 2) bytes += used.bytes.count;
    }
    CHECK(bytes == 2 * std::int64_t{2 * (8 / 4) * 3 * 64 * 96});
  }

  TEST_CASE("a rank keeps its experts whole where no other rank has them") {
    const std::int64_t experts = 2 * (8 / 4) * 3 * 64 * 96;  // elements
    for (const std::string policy : {"fsdp: {}", "fsdp: {version: 1}", "zero: {stage: 3}"}) {
      const auto held = [&](int count) {
        const PointResult point =
            simulated(text_of(kMixture, count, {"expert_parallel: {size: 4}", policy}));
        return point.optimizer_state.count;
      };
      CAPTURE(policy);
      CHECK(held(4) >= 12 * experts);  // master and two moments
      CHECK(held(8) < 12 * experts);
    }
  }

  TEST_CASE("a loss of log-probabilities that a model makes leaves the vocabulary whole") {
    const auto reduced = [](std::string_view loss) {
      const PointResult point = simulated(
          text_of("preset: gpt2, layers: 1, vocab: 512", 2, {"tensor_parallel: {size: 2}"},
                  fmt::format(", precision: fp32, loss: {}", loss)));
      REQUIRE(point.communication.size() == 1);
      return point.communication.front().bytes.count;
    };
    // Attention and MLP, forward and backward: 2 samples of 32 tokens, 768 features in 4 bytes.
    CHECK(reduced("nll") == 4 * 2 * 32 * 768 * 4);
    CHECK(reduced("cross_entropy") > reduced("nll"));
  }

  TEST_CASE("the errors of decoding name the key") {
    CHECK(refusal_with("policies: [tensor_parallel: {}]").find("size") != std::string::npos);
    CHECK(refusal(text_of(kDense, 2, {"context_parallel: {size: 2, kind: circle}"})).find("ring") !=
          std::string::npos);
    CHECK(refusal(text_of(kDense, 4, {"tensor_parallel: {size: 2}", "tensor_parallel: {size: 2}"}))
              .find("divides the ranks already") != std::string::npos);
    CHECK(refusal_with("policies: [tensor_parallel: {size: 3}]").find("count") !=
          std::string::npos);
    CHECK(refusal(text_of(kMixture, 2,
                          {"expert_parallel: {size: 2, capacity_factor: 1, "
                           "imbalance: 1}"}))
              .find("leave one of them out") != std::string::npos);
  }
}

}  // namespace tidemark::parallel_layers_test
