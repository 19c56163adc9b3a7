// Trained parameters among frozen ones under FSDP: their order, their units and their types.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/build_training.hpp"
#include "tests/scenarios/linear_chains.hpp"

namespace tidemark::trained_units_test {
namespace {

constexpr const char* kLora = "lora: {rank: 8, targets: [q_proj, v_proj, down_proj]}";

// A Llama whose logits are the peak of a recomputed step.
std::string llama_text(int count, const std::string& policies,
                       const std::string& training = "precision: fp32") {
  return fmt::format(
      "{{model: {{preset: llama, layers: 3, width: 64, heads: 4, kv_heads: 4, ffn: 128, "
      "vocab: 4096}}, hardware: {{gpu: h100-sxm-80gb, count: {}, node: 1024}}, allocator: ideal, "
      "training: {{sequence: 64, micro_batch: 2, optimizer: adamw, {}}}, policies: [{}]}}",
      count, training, policies);
}

PointResult llama(int count, const std::string& policies,
                  const std::string& training = "precision: fp32") {
  return test::simulate_fitting(llama_text(count, policies, training));
}

TrainingGraph graph_of(const std::string& policies) {
  const Scenario scenario = decode(llama_text(2, policies));
  return build_training(scenario).training;
}

std::string refusal(const std::string& policies, const std::string& training) {
  try {
    static_cast<void>(llama(2, policies, training));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Whether a parameter is freed behind all that backward computes, with marks and reductions alone
// behind it.
bool leaves_at_end(const TrainingGraph& graph, const std::string& name) {
  const auto parameter = std::find_if(graph.parameters.begin(), graph.parameters.end(),
                                      [&](const Parameter& p) { return p.name == name; });
  REQUIRE(parameter != graph.parameters.end());
  const std::vector<OperatorId>& backward = graph.part(PartKind::kBackward);
  const auto touches_it = [&](OperatorId id) {
    const auto touches = graph.touches_of(id);
    return std::any_of(touches.begin(), touches.end(),
                       [&](const Touch& touch) { return touch.storage == parameter->storage; });
  };
  const auto last = std::find_if(backward.rbegin(), backward.rend(), touches_it);
  REQUIRE(last != backward.rend());
  CHECK(graph.operators[*last].part == OperatorPart::kRelease);
  return std::all_of(backward.rbegin(), last,
                     [&](OperatorId id) { return !graph.operators[id].node.valid(); });
}

std::int64_t gathers(const PointResult& point) {
  std::int64_t count = 0;
  for (const Communication& used : point.communication)
    count += used.kind == CollectiveKind::kAllGather ? used.count : 0;
  return count;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("adapters are registered behind the weight that they stand beside, as in peft") {
    std::vector<std::string> names;
    for (const Parameter& parameter : graph_of(kLora).parameters) {
      if (parameter.name.find("layers.1.") == 0) names.push_back(parameter.name);
    }
    const std::vector<std::string> expected{"layers.1.input_layernorm.weight",
                                            "layers.1.self_attn.q_proj.weight",
                                            "layers.1.self_attn.q_proj.lora_A.default.weight",
                                            "layers.1.self_attn.q_proj.lora_B.default.weight",
                                            "layers.1.self_attn.k_proj.weight",
                                            "layers.1.self_attn.v_proj.weight",
                                            "layers.1.self_attn.v_proj.lora_A.default.weight",
                                            "layers.1.self_attn.v_proj.lora_B.default.weight",
                                            "layers.1.self_attn.o_proj.weight",
                                            "layers.1.post_attention_layernorm.weight",
                                            "layers.1.mlp.gate_proj.weight",
                                            "layers.1.mlp.up_proj.weight",
                                            "layers.1.mlp.down_proj.weight",
                                            "layers.1.mlp.down_proj.lora_A.default.weight",
                                            "layers.1.mlp.down_proj.lora_B.default.weight"};
    CHECK(names == expected);
  }

  TEST_CASE("a frozen root is resharded when all of backward is over") {
    // The head is read at the start of backward, and nothing of the root afterwards; PyTorch's
    // hooks wait for gradients that the model's inputs do not have.
    for (const char* version : {"version: 1", "version: 2"}) {
      CAPTURE(version);
      const TrainingGraph graph = graph_of(fmt::format("{}, fsdp: {{{}}}", kLora, version));
      CHECK(leaves_at_end(graph, "lm_head.weight"));
    }
  }

  TEST_CASE("a root with trained parameters leaves at the end of backward in version 2 alone") {
    // Version 1 waits for the gradient of the flat parameter, which the head's copy ends here.
    for (const auto& [version, at_end] : {std::pair{1, false}, std::pair{2, true}}) {
      CAPTURE(version);
      const TrainingGraph graph = graph_of(fmt::format(
          "lora: {{targets: [q_proj], modules_to_save: [lm_head]}}, fsdp: {{version: {}}}",
          version));
      CHECK(leaves_at_end(graph, "lm_head.modules_to_save.default.weight") == at_end);
    }
  }

  TEST_CASE("a flat parameter has two codes of NF4 in a byte") {
    // 4 projections of 64 x 64 and 3 of 64 x 128 in each of 3 layers, with a scale per 64
    // and a table of 16 values for each weight.
    const std::int64_t codes = 3 * (4 * 64 * 64 + 3 * 64 * 128);
    const std::int64_t scales = 4 * (codes / 64 + 3 * 7 * 16);
    for (const auto& [type, bytes] : {std::pair{"bf16", 2}, std::pair{"fp32", 4}}) {
      const std::string lora = fmt::format(
          "lora: {{rank: 8, base: nf4, dtype: {}, targets: [q_proj, v_proj, down_proj]}}", type);
      const std::string precision = fmt::format("precision: {}", type);
      // Units of blocks, and of a layer whose weights are codes alone.
      for (const char* units : {"trained_units: each", "trained_units: one",
                                "trained_units: each, units: [layers.1.mlp, blocks]"}) {
        CAPTURE(type);
        CAPTURE(units);
        const PointResult point =
            llama(2, fmt::format("{}, fsdp: {{version: 1, {}}}", lora, units), precision);
        const std::int64_t others = point.parameter_count.count - codes;
        CHECK(point.parameters.count == (bytes * others + codes / 2) / 2 + scales);
        const PointResult rows =
            llama(2, fmt::format("{}, fsdp: {{version: 2, {}}}", lora, units), precision);
        CHECK(point.parameters == rows.parameters);
        // A type of compute converts what is kept of the rest, and no codes.
        const PointResult computes =
            llama(2, fmt::format("{}, fsdp: {{version: 2, param_dtype: bf16, {}}}", lora, units),
                  precision);
        CHECK(computes.parameters == rows.parameters);
      }
      // Among codes the adapters lie where packed codes leave them: no rank has all of them.
      const PointResult mixed = llama(2, fmt::format("{}, fsdp: {{version: 1}}", lora), precision);
      const std::int64_t states = 2 * bytes * mixed.trainable_parameter_count.count;
      CHECK(mixed.optimizer_state.count >= states / 2);
      CHECK(mixed.optimizer_state.count < states);
    }
  }

  TEST_CASE("fully_shard gathers codes packed, two of NF4 in a byte") {
    const auto gathered = [](const std::string& base) {
      const PointResult point =
          llama(2, "lora: {rank: 8, targets: [q_proj]" + base + "}, fsdp: {version: 2}");
      Bytes bytes;
      for (const Communication& used : point.communication) {
        if (used.kind == CollectiveKind::kAllGather) bytes += used.bytes;
      }
      return bytes.count;
    };
    // The blocks, in which alone are codes, are gathered in forward and in backward; half a byte
    // stands for 4 of fp32, and one for 4.
    const std::int64_t codes = 3 * (4 * 64 * 64 + 3 * 64 * 128);
    CHECK(2 * (gathered("") - gathered(", base: nf4")) == 2 * codes * (8 - 1));
    CHECK(gathered("") - gathered(", base: int8") == 2 * codes * (4 - 1));
  }

  TEST_CASE("a flat parameter takes codes that it neither converts nor has as integers") {
    const auto fsdp = [](const std::string& base, const std::string& keys) {
      return fmt::format("lora: {{rank: 8, base: {}, targets: [q_proj]}}, fsdp: {{{}}}", base,
                         keys);
    };
    const std::string whole = "precision: fp32";
    const std::string half = "precision: bf16";
    // fp32 elements that hold codes cannot become bf16, and bf16 ones stay as they are.
    for (const char* units : {"", ", trained_units: each"}) {
      CAPTURE(units);
      const std::string casts = std::string("version: 1, param_dtype: bf16") + units;
      CHECK(refusal(fsdp("nf4", casts), whole).find("policies.fsdp.param_dtype: ") !=
            std::string::npos);
      CHECK(refusal(fsdp("nf4", std::string("version: 1") + units), whole).empty());
      CHECK(refusal(fsdp("nf4", std::string("version: 2, param_dtype: bf16") + units), whole)
                .empty());
      CHECK(refusal(
                "lora: {rank: 8, base: nf4, dtype: bf16, targets: [q_proj]}, fsdp: {" + casts + "}",
                half)
                .empty());
      // "Cannot flatten integer dtype tensors", and bitsandbytes stores 8 bits as int8 alone.
      CHECK(refusal(fsdp("int8", std::string("version: 1") + units), whole)
                .find("policies.fsdp.version: ") != std::string::npos);
      CHECK(refusal(fsdp("int8", std::string("version: 2") + units), whole).empty());
    }
  }

  TEST_CASE("a copy of modules_to_save is a module, and a unit with trained_units: each") {
    for (const char* module : {"embed_tokens", "norm", "lm_head"}) {
      for (const char* version : {"version: 1", "version: 2"}) {
        CAPTURE(module);
        CAPTURE(version);
        const PointResult point =
            llama(4, fmt::format("lora: {{rank: 8, targets: [q_proj], modules_to_save: [{}]}}, "
                                 "fsdp: {{{}, trained_units: each}}",
                                 module, version));
        CHECK(point.gradients.count == 4 * point.trainable_parameter_count.count / 4);
        CHECK(point.optimizer_state.count == 2 * point.gradients.count);
      }
    }
    // A layer norm's copy has a weight and a bias, which are gathered once in forward and once in
    // backward.
    const auto gathered = [](const std::string& saved) {
      return gathers(test::simulate_fitting(
          "{model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 256}, "
          "hardware: {gpu: h100-sxm-80gb, count: 2}, training: {sequence: 64, micro_batch: 2, "
          "optimizer: adamw}, policies: [lora: {rank: 8, targets: [c_proj]" +
          saved + "}, fsdp: {version: 1, trained_units: each}]}"));
    };
    CHECK(gathered(", modules_to_save: [ln_f]") == gathered("") + 2);
  }

  TEST_CASE("one flat parameter has one type, whatever the units") {
    const std::string bf16 = "precision: bf16";
    CHECK(refusal(fmt::format("{}, fsdp: {{version: 1}}", kLora), bf16)
              .find("flatten tensors with uniform dtype") != std::string::npos);
    CHECK(refusal(fmt::format("{}, fsdp: {{version: 1, use_orig_params: false}}", kLora),
                  "precision: fp32")
              .find("frozen and trained parameters") != std::string::npos);
    // Adapters of their own units keep their type, with the states of that: 12 bytes each on two
    // ranks, and 2 of a frozen weight.
    for (const char* units : {"each", "one"}) {
      CAPTURE(units);
      const PointResult point =
          llama(2, fmt::format("{}, fsdp: {{version: 1, trained_units: {}}}", kLora, units), bf16);
      const std::int64_t adapters = point.trainable_parameter_count.count;
      const std::int64_t frozen = point.parameter_count.count - adapters;
      CHECK(point.parameters.count == (2 * frozen + 4 * adapters) / 2);
      CHECK(point.gradients.count == 4 * adapters / 2);
      CHECK(point.optimizer_state.count == 8 * adapters / 2);
    }
  }

  TEST_CASE("a frozen base is kept in its own type") {
    const PointResult point =
        llama(2, "lora: {rank: 8, base: bf16, targets: [q_proj]}, fsdp: {version: 2}",
              "precision: bf16_autocast");
    const std::int64_t adapters = point.trainable_parameter_count.count;
    const std::int64_t frozen = point.parameter_count.count - adapters;
    CHECK(point.parameters.count == (2 * frozen + 4 * adapters) / 2);
  }
}

TEST_SUITE("paper") {
  // dlrover/atorch, examples/llama2: peaks of LoRA on 8 to 64 GPUs differ by (4 P + 12 P_lora)
  // (1/N1 - 1/N2), P being the frozen parameters: at the peak, the logits, there are no gradients.
  TEST_CASE("the states of adapters that are units of their own are shared evenly by the ranks") {
    for (const char* units : {"each", "one"}) {
      CAPTURE(units);
      const auto on = [&](int ranks) {
        return llama(ranks, fmt::format("{}, checkpoint_every: {{period: 1, reentrant: false}}, "
                                        "fsdp: {{version: 1, trained_units: {}}}",
                                        kLora, units));
      };
      const PointResult eight = on(8);
      const std::int64_t adapters = eight.trainable_parameter_count.count;
      const std::int64_t frozen = eight.parameter_count.count - adapters;
      for (const int ranks : {2, 4, 16}) {
        CAPTURE(ranks);
        const std::int64_t all = 4 * frozen + 12 * adapters;
        CHECK(on(ranks).run.live.bytes.count - eight.run.live.bytes.count == all / ranks - all / 8);
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("one rank of a flat parameter with adapters does not hold all of their states") {
    const auto states = [](int ranks) {
      return llama(ranks, fmt::format("{}, fsdp: {{version: 1}}", kLora)).optimizer_state.count;
    };
    // The fullest of two ranks has less than all, and of four less than of two.
    CHECK(states(2) < states(1));
    CHECK(states(4) < states(2));
  }

  TEST_CASE("units within a checkpointed block are gathered before it is recomputed, no earlier") {
    // A unit for each adapter changes what is gathered beside the root by no more than the
    // adapters of two blocks; were they kept from forward on it would be those of all.
    const std::string checkpoint = "checkpoint_every: {period: 1, reentrant: false}";
    for (const char* version : {"version: 1", "version: 2"}) {
      for (const char* order : {"{0}, {1}, fsdp: {{{2}, trained_units: each}}",
                                "fsdp: {{{2}, trained_units: each}}, {0}, {1}"}) {
        CAPTURE(version);
        CAPTURE(order);
        const PointResult point =
            llama(2, fmt::format(fmt::runtime(order), kLora, checkpoint, version));
        const PointResult whole =
            llama(2, fmt::format("{}, {}, fsdp: {{{}}}", kLora, checkpoint, version));
        const auto gathered = [](const PointResult& of) {
          return of.peak.by_role[static_cast<std::size_t>(Role::kGatheredParameter)].count;
        };
        CHECK(gathered(point) <= gathered(whole));
        // Each unit but a root that stays is gathered once in forward and once in backward.
        CHECK(gathers(point) == gathers(whole) + 2 * 3 * 6);
      }
    }
  }
}

}  // namespace tidemark::trained_units_test
