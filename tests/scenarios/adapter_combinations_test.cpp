// Adapters, precision, smaller models and quantised weights in random combinations with
// checkpointing, offloading and sharding: a step whose program is verified and runs, or a mistake
// at a key of the scenario.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::adapter_combinations_test {
namespace {

using Words = std::vector<std::string_view>;

// Changes to the model and to how it is trained.
const Words kAdapted{"lora: {rank: 4}",
                     "lora: {rank: 4, targets: all-linear, base: nf4_dq, dropout: 0.1}",
                     "lora: {rank: 4, base: int8, dora: true, outliers: 0.02}",
                     "lora: {rank: 4, base: nf4, prepare: true, input_gradients: true}",
                     "lora: {rank: 4, dtype: bf16, bias: all}",
                     "quantise_weights: {dtype: nf4}",
                     "freeze: {layers: ['*'], except: ['*norm*', '*ln_*', '*LayerNorm*']}",
                     "prune: {amount: 0.5}",
                     "prune: {method: structured, when: removed}",
                     "prune: {method: 2:4, when: removed}",
                     "qat: {weights: int8, activations: int8}",
                     "distill: {teacher: {preset: gpt, layers: 1, width: 64, heads: 2, vocab: 256, "
                     "sequence: 32}}",
                     "distill: {kind: features, teacher: {preset: gpt, layers: 1, width: 64, "
                     "heads: 2, vocab: 256, sequence: 32}}",
                     "layer_precision: {layers: ['*0*'], precision: fp8}"};
const Words kMoves{"checkpoint_every: {period: 1}",
                   "checkpoint_every: {period: 1, reentrant: false}",
                   "selective: {save: [linear]}",
                   "megatron_selective",
                   "offload_activations: {min_bytes: 1KiB}",
                   "te_offload: {layers: 1, min_bytes: 1KiB}",
                   "offload_optimizer: {ratio: 0.5}",
                   "offload_parameters: {min_elements: 100}",
                   "optimizer_in_backward",
                   "ema: {decay: 0.999}",
                   "chunked_loss: {chunks: 4}",
                   "chunked_loss: {chunks: 4, kind: kept}",
                   "fused_loss: liger",
                   "fused_loss: cut_cross_entropy",
                   "compress_activations: {bits: 4}",
                   "compress_gradients: {kind: powersgd}",
                   "fsdp: {version: 2}",
                   "fsdp: {version: 1, offload: host}",
                   "zero: {stage: 2}",
                   "zero: {stage: 3}",
                   "tensor_parallel: {size: 2}",
                   "liger_kernels",
                   "keep_all"};
const Words kPrecisions{"fp32",          "bf16",      "fp16",      "bf16_mixed", "bf16_autocast",
                        "fp16_autocast", "fp8_mixed", "fp8_mixed", "fp16_mixed"};
const Words kOptimizers{"adamw", "adamw_8bit", "adafactor", "muon", "galore", "sgd"};
const Words kModels{
    "{preset: gpt, layers: 2, width: 64, heads: 2, vocab: 256, sequence: 32}",
    "{preset: gpt, layers: 2, width: 64, heads: 2, vocab: 256, sequence: 32, tie: false}",
    "{preset: llama, layers: 2, width: 64, heads: 4, kv_heads: 2, head_width: 16, ffn: 128, vocab: "
    "256}",
    "{preset: mixtral-8x7b, layers: 2, width: 64, heads: 4, kv_heads: 2, ffn: 64, vocab: 256}",
    "{preset: bert-base, layers: 2, width: 64, heads: 2, ffn: 128, vocab: 256}"};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  [[nodiscard]] std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }
  [[nodiscard]] std::string_view of(const Words& words) { return words[below(words.size())]; }
  [[nodiscard]] std::string scenario() {
    std::vector<std::string_view> policies{of(kAdapted)};
    if (below(4) == 0) policies.push_back(of(kAdapted));
    for (std::size_t more = below(4); more > 0; --more)
      policies.push_back(of(kMoves));
    std::shuffle(policies.begin(), policies.end(), random_);
    constexpr std::array<std::string_view, 5> kExtra{"", ", loss_scale: dynamic",
                                                     ", clip_grad_norm: 1.0", ", compile: inductor",
                                                     ", attention: math, dropout: 0.1"};
    return fmt::format(
        "{{model: {}, hardware: {{gpu: h100-sxm-80gb, count: {}}}, training: {{micro_batch: 2, "
        "sequence: 32, precision: {}, optimizer: {}, accumulate: {}{}}}, policies: [{}]}}",
        of(kModels), 1 + below(2), of(kPrecisions), of(kOptimizers), 1 + below(5) / 4,
        kExtra[below(kExtra.size())], fmt::join(policies, ", "));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("adapters, precision and policies combine, or the scenario's key is refused") {
    const std::uint64_t rounds = test::runs_long_tests() ? 6000 : 250;
    int ran = 0;
    for (std::uint64_t seed = 0; seed < rounds; ++seed) {
      Draw draw(seed);
      const std::string text = draw.scenario();
      CAPTURE(text);
      std::string fault;
      try {
        const DetailedPoint point = simulate_in_detail(parse_document(text, "s.yaml"), 0,
                                                       environment(), {.convergence_limit = 2});
        const RunResult& run = point.result.run;
        CHECK(run.status == RunStatus::kCompleted);
        CHECK(run.live.bytes <= run.reserved.bytes);
        ++ran;
      } catch (const UserError& error) {
        // A refusal stands at what the user wrote, and is a sentence.
        const bool named =
            error.path().starts_with("policies") || error.path().starts_with("training") ||
            error.path().starts_with("hardware") || error.path().starts_with("model");
        if (!named || error.problem().size() < 20) fault = error.what();
      } catch (const std::exception& error) {
        fault = error.what();
      }
      CHECK(fault == "");
    }
    CHECK(ran > static_cast<int>(rounds) / 4);
    MESSAGE(ran, " of ", rounds, " ran");
  }
}

TEST_SUITE("unit") {
  TEST_CASE("policies that do not go together are refused by both names") {
    const auto refusal = [](const std::string& precision, const std::string& policies) {
      return error_of([&] {
        static_cast<void>(simulate_in_detail(
            parse_document(
                fmt::format("{{model: {}, hardware: h100-sxm-80gb, training: {{sequence: 32, "
                            "precision: {}}}, policies: [{}]}}",
                            kModels[1], precision, policies),
                "s.yaml"),
            0, environment(), {}));
      });
    };
    struct Pair {
      std::string policies;
      std::string first, second;
    };
    for (const Pair& pair :
         {Pair{"lora: {rank: 4, base: nf4}, qat: {weights: int8}", "policies.lora", "qat"},
          Pair{"quantise_weights: {dtype: nf4}, prune: {amount: 0.5}", "quantise_weights", "prune"},
          Pair{"chunked_loss: {chunks: 4}, fused_loss: liger", "chunked_loss", "fused_loss"},
          Pair{"prune: {method: 2:4, when: removed}, quantise_weights: {dtype: nf4}",
               "quantise_weights", "2:4"},
          Pair{"prune: {amount: 0.5}, prune: {method: structured, when: removed}", "prune.method",
               "masks"},
          Pair{"fused_loss: liger, distill: {teacher: {preset: gpt, layers: 1, width: 64, heads: "
               "2, vocab: 256, sequence: 32}}",
               "fused_loss", "distill"}}) {
      CAPTURE(pair.policies);
      const std::string problem = refusal("bf16", pair.policies);
      CAPTURE(problem);
      CHECK(problem.find(pair.first) != std::string::npos);
      CHECK(problem.find(pair.second) != std::string::npos);
    }
  }

  TEST_CASE("selective's linear means linear layers in any form, and not their full weights") {
    const auto peak = [](const std::string& training, const std::string& policies) {
      const std::string text = fmt::format(
          "{{model: {}, hardware: h100-sxm-80gb, allocator: ideal, training: "
          "{{sequence: 32, micro_batch: 2, {}}}, policies: [{}]}}",
          kModels[2], training, policies);
      return simulate_in_detail(parse_document(text, "s.yaml"), 0, environment(), {})
          .result.run.live.bytes.count;
    };
    for (const auto& [training, adapted] :
         {std::pair{"precision: bf16", "lora: {rank: 4, base: nf4, dtype: bf16}, "},
          std::pair{"precision: fp8_mixed", ""}}) {
      const std::string before = adapted;
      CHECK(peak(training, before + "selective: {save: [linear, attention]}") >
            peak(training, before + "selective: {save: [attention]}"));
    }
    // Names of both forms stay words for them.
    CHECK(peak("precision: bf16",
               "lora: {rank: 4, base: nf4}, selective: {save: [quantised_linear]}") ==
          peak("precision: bf16", "lora: {rank: 4, base: nf4}, selective: {save: [linear]}"));
  }
}

}  // namespace tidemark::adapter_combinations_test
