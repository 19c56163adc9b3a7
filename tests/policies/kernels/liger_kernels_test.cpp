// Liger's kernels: what they find, what they keep, and that they never hold more than the model's
// own code.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/kernels/kernel_sites.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::liger_kernels_test {
namespace {

constexpr std::string_view kSmall =
    "{preset: llama-3.2-1b, layers: 1, width: 64, heads: 4, kv_heads: 4, ffn: 160, vocab: 512, "
    "tie: false}";

Scenario scenario_of(std::string_view model, const std::string& policies,
                     std::string_view training = "precision: fp32") {
  return decode(fmt::format(
      "{{model: {}, hardware: h100-sxm-80gb, allocator: ideal, training: {{micro_batch: 2, "
      "sequence: 32, optimizer: sgd, {}}}, policies: [{}]}}",
      model, training, policies));
}

PointResult simulated(std::string_view model, const std::string& policies,
                      std::string_view training = "precision: fp32") {
  const Scenario scenario = scenario_of(model, policies, training);
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

// Operators of a step by the name of their kernel.
std::map<std::string, int> kernels_of(std::string_view model, const std::string& policies,
                                      std::string_view training = "precision: fp32") {
  const TrainedModel trained = build_training(scenario_of(model, policies, training));
  std::map<std::string, int> count;
  for (const Operator& op : trained.training.operators)
    ++count[op.name];
  return count;
}

std::string error(std::string_view model, const std::string& policies) {
  return error_of([&] { static_cast<void>(build_training(scenario_of(model, policies))); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a block keeps neither normalised rows nor the gate's activation") {
    // fp32, 64 rows of 64 features and 160 in the feed-forward. Each of the three norms keeps its
    // normalised rows beside its input and one number per row, Liger's the last two.
    constexpr std::int64_t kNormalised = std::int64_t{4} * 64 * 64;
    constexpr std::int64_t kActivated = std::int64_t{4} * 64 * 160;
    const std::int64_t eager = simulated(kSmall, "").saved_activations.count;
    CHECK(eager - simulated(kSmall, "liger_kernels").saved_activations.count ==
          3 * kNormalised + kActivated);
    CHECK(
        eager -
            simulated(kSmall, "liger_kernels: {glu: false, rope: false}").saved_activations.count ==
        3 * kNormalised);
    CHECK(eager - simulated(kSmall, "liger_kernels: {rms_norm: false}").saved_activations.count ==
          kActivated);
    // Rotated in place: autograd keeps the same, the step makes less.
    const PointResult plain = simulated(kSmall, "");
    const PointResult rotated = simulated(kSmall, "liger_kernels: {glu: false, rms_norm: false}");
    CHECK(rotated.saved_activations == plain.saved_activations);
    CHECK(rotated.run.live.bytes <= plain.run.live.bytes);
  }

  TEST_CASE("in bf16 the norm's copies in fp32 go as well") {
    // The input in fp32 (which two operators keep), normalised rows in bf16; Liger's keeps the
    // input as it is, which the sum before it has made and nothing else keeps.
    constexpr std::int64_t kElements = 64 * 64;
    const auto saved = [](const char* policies) {
      return simulated(kSmall, policies, "precision: bf16").saved_activations.count;
    };
    CHECK(saved("") - saved("liger_kernels: {glu: false, rope: false}") ==
          3 * (4 + 2 - 2) * kElements);
  }

  TEST_CASE("gradients are written over what they replace") {
    const Scenario scenario = scenario_of(kSmall, "liger_kernels");
    const TrainedModel trained = build_training(scenario);
    std::map<std::string, std::vector<int>> made;  // tensors that each backward kernel creates
    for (const OperatorId id : ids_of(trained.training.operators)) {
      const std::string& name = trained.training.operators[id].name;
      if (!name.starts_with("liger_") || !name.ends_with(".backward")) continue;
      const auto touches = trained.training.touches_of(id);
      made[name].push_back(
          static_cast<int>(std::count_if(touches.begin(), touches.end(), [](const Touch& touch) {
            return touch.access == Access::kCreate;
          })));
    }
    CHECK(made["liger_glu.backward"] == std::vector<int>{0});
    CHECK(made["liger_rope.backward"] == std::vector<int>{0, 0});
    // The weight's gradient and the rows that it is summed from.
    CHECK(made["liger_rms_norm.backward"] == std::vector<int>{2, 2, 2});
  }

  TEST_CASE("parts are found in Llama, Qwen 3, Gemma 2, Phi 3 and Mixtral") {
    struct Row {
      std::string_view model;
      int norms, gates, rotated;
    };
    for (const Row& row : {
             Row{kSmall, 3, 1, 2},
             Row{"{preset: qwen3-0.6b, layers: 2}", 9, 2, 4},   // norms of queries and keys
             Row{"{preset: gemma-2-2b, layers: 2}", 9, 2, 4},   // four norms a block
             Row{"{preset: phi-3-mini, layers: 2}", 5, 2, 4},   // packed projections
             Row{"{preset: mixtral-8x7b, layers: 1}", 3, 8, 2}  // each expert has a gate
         }) {
      CAPTURE(row.model);
      std::map<std::string, int> kernels =
          kernels_of(row.model, "liger_kernels", "precision: bf16");
      CHECK(kernels["liger_rms_norm"] == row.norms);
      CHECK(kernels["liger_glu"] == row.gates);
      CHECK(kernels["liger_rope"] == row.rotated);
      CHECK(kernels["rsqrt"] == 0);
      CHECK(kernels["rotary"] == 0);
    }
  }

  TEST_CASE("no norm of Gemma 2 writes over the incoming gradient") {
    // Behind attention and feed-forward it is the residual stream's, and Liger has one setting for
    // all five.
    const auto gradients_of_norms = [](const char* preset) {
      const std::string model = fmt::format("{{preset: {}, layers: 1}}", preset);
      const TrainedModel trained = build_training(scenario_of(model, "liger_kernels"));
      std::vector<int> made;
      for (const OperatorId id : ids_of(trained.training.operators)) {
        if (trained.training.operators[id].name != "liger_rms_norm.backward") continue;
        const auto touches = trained.training.touches_of(id);
        made.push_back(
            static_cast<int>(std::count_if(touches.begin(), touches.end(), [](const Touch& touch) {
              return touch.access == Access::kCreate;
            })));
      }
      return made;
    };
    CHECK(gradients_of_norms("gemma-2-2b") == std::vector<int>(5, 3));
    CHECK(gradients_of_norms("gemma-2b") == std::vector<int>(3, 2));
  }

  TEST_CASE("norms of queries and keys stay as they are where the policy says so") {
    std::map<std::string, int> kernels =
        kernels_of("{preset: qwen3-0.6b, layers: 2}", "liger_kernels: {head_norms: false}");
    CHECK(kernels["liger_rms_norm"] == 5);
    CHECK(kernels["rsqrt"] == 4);
  }

  TEST_CASE("a gate that something else keeps for its backward is not written over") {
    const auto gates = [](const char* more) {
      const Scenario scenario = decode(fmt::format(
          "{{model: {{layers: {{inputs: {{x: [batch, 16]}}, layers: [{{linear: 16, tap: g}}, "
          "{{silu: {{}}, tap: a}}, {{from: x, linear: 16}}, {{multiply: a}}, {}"
          "{{rms_norm: {{eager: true}}}}, {{linear: 4}}]}}}}, hardware: h100-sxm-80gb, "
          "policies: [liger_kernels]}}",
          more));
      const TrainedModel trained = build_training(scenario);
      return std::count_if(trained.training.operators.begin(), trained.training.operators.end(),
                           [](const Operator& op) { return op.name == "liger_glu"; });
    };
    CHECK(gates("") == 1);
    CHECK(gates("{multiply: g}, ") == 0);
  }

  TEST_CASE("a rotary embedding of a part of a head is not Liger's") {
    // DeepSeek's latent attention rotates 64 of 192 features, and its key's pass an expand first.
    std::map<std::string, int> kernels =
        kernels_of("{preset: deepseek-v2-lite, layers: 2}", "liger_kernels");
    CHECK(kernels["liger_rope"] == 0);
    CHECK(kernels["rotary"] > 0);
    CHECK(kernels["liger_rms_norm"] > 0);
  }

  TEST_CASE("models without such parts are refused by name, and parts that are asked for") {
    const std::string none = error("gpt2", "liger_kernels");
    CHECK(none.find("policies.liger_kernels: 'gpt2' has none of the parts") != std::string::npos);
    const std::string some = error("{preset: phi-2, layers: 1}", "liger_kernels: {rms_norm: true}");
    CHECK(some.find("policies.liger_kernels.rms_norm: 'phi-2' has no RMSNorm") !=
          std::string::npos);
    const std::string twice = error(kSmall, "liger_kernels, liger_kernels");
    CHECK(twice.find("policies.liger_kernels: is listed twice") != std::string::npos);
    CHECK(error_of([] {
            scenario_of(kSmall, "liger_kernels: {rms_norm: false, glu: false, rope: false}");
          }).find("none of its kernels is used") != std::string::npos);
  }
}

TEST_SUITE("property") {
  TEST_CASE("Liger's kernels never keep more, whatever else is done") {
    int fewer = 0;
    for (const std::string_view model :
         {kSmall, std::string_view("{preset: qwen3-0.6b, layers: 2, vocab: 1000}"),
          std::string_view("{preset: gemma-2-2b, layers: 2, vocab: 1000}"),
          std::string_view("{preset: phi-3-mini, layers: 2, vocab: 1000}")}) {
      for (const std::string_view precision : {"fp32", "bf16", "bf16_mixed", "fp16_autocast"}) {
        for (const std::string_view attention : {"flash", "math"}) {
          for (const char* more :
               {"", "checkpoint_every: {period: 1}", "lora: {rank: 4, targets: all-linear}"}) {
            const std::string training =
                fmt::format("precision: {}, attention: {}", precision, attention);
            CAPTURE(model);
            CAPTURE(training);
            CAPTURE(more);
            const std::string listed = *more == '\0' ? "" : fmt::format(", {}", more);
            const PointResult eager = simulated(model, more, training);
            const PointResult liger = simulated(model, "liger_kernels" + listed, training);
            CHECK(liger.saved_activations <= eager.saved_activations);
            CHECK(liger.run.step < eager.run.step);
            // The weight gradient of a norm is summed in 132 rows, which are more than so few
            // tokens leave out.
            constexpr Bytes kRows(std::int64_t{4} * 133 * 3072);
            CHECK(liger.run.live.bytes <= eager.run.live.bytes + kRows);
            fewer += liger.run.live.bytes < eager.run.live.bytes;
          }
        }
      }
    }
    MESSAGE(fewer, " of 96 peaks are lower");
    CHECK(fewer > 48);
  }
}

}  // namespace tidemark::liger_kernels_test
