// Frozen parameters, adapters and quantised weights, from the text of a scenario to figures.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::adapters_test {
namespace {

PointResult simulated(const std::string& text) {
  return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                         {.smallest_capacity = false})
      .front();
}

// The GPT of the recorded steps: 4 layers of width 256, 2 samples of 128 tokens.
PointResult recorded_gpt(const std::string& policies, const std::string& precision = "fp32",
                         bool tie = true) {
  return simulated(fmt::format(
      "model: {{preset: gpt, layers: 4, width: 256, heads: 8, vocab: 4096, sequence: 128, "
      "tie: {}}}\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {{framework: "
      "torch-1.13-cpu, precision: {}, zero_grad: none, steps: 2, micro_batch: 2, sequence: 128, "
      "attention: math, dropout: 0, optimizer: {{name: adamw, implementation: loop}}}}\n"
      "policies: [{}]\n",
      tie, precision, policies));
}

// A GPT of the same blocks with a small vocabulary and 8 samples, whose peak is in backward.
PointResult small_vocabulary(const std::string& policies, const std::string& training = "") {
  return simulated(fmt::format(
      "model: {{preset: gpt, layers: 4, width: 256, heads: 8, vocab: 128, sequence: 128, tie: "
      "false}}\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {{framework: torch-1.13-cpu, "
      "precision: fp32, zero_grad: none, steps: 2, micro_batch: 8, sequence: 128, attention: math, "
      "dropout: 0, optimizer: {{name: sgd, implementation: loop}}{}}}\npolicies: [{}]\n",
      training, policies));
}

void check_recorded(const PointResult& point, std::int64_t trainable, std::int64_t saved,
                    std::int64_t peak) {
  CHECK(point.trainable_parameter_count.count == trainable);
  CHECK(point.gradients.count == 4 * trainable);
  CHECK(point.saved_activations.count == saved);
  CHECK(point.run.live_without_workspace.bytes.count == peak);
}

std::string refusal(const std::string& policies) {
  return error_of([&] {
    static_cast<void>(
        simulated("model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 128}\n"
                  "hardware: h100-sxm-80gb\npolicies: [" +
                  policies + "]\n"));
  });
}

// A small Llama under several policies.
PointResult llama(const std::string& policies, int count = 1, const std::string& training = "",
                  const std::string& precision = "bf16") {
  return simulated(fmt::format(
      "model: {{preset: llama-3-8b, layers: 2, width: 64, heads: 8, kv_heads: 4, ffn: 96, "
      "vocab: 512}}\nhardware: {{gpu: h100-sxm-80gb, count: {}}}\n"
      "training: {{micro_batch: 2, sequence: 32, precision: {}{}}}\npolicies: [{}]\n",
      count, precision, training, policies));
}

}  // namespace

// Recorded on a CPU with PyTorch 1.13.1: shared/cases/adapters/torch.
TEST_SUITE("golden") {
  TEST_CASE("frozen layers keep what PyTorch keeps") {
    check_recorded(recorded_gpt("freeze: {layers: ['*'], except: ['h.*.ln_1', 'h.*.ln_2', ln_f]}",
                                "fp32", false),
                   4608, 18171940, 48021616);
    check_recorded(recorded_gpt("freeze: {layers: ['*'], except: ['h.*.attn']}", "fp32", false),
                   1052672, 20004900, 58239080);
  }

  // Measured with PyTorch 1.13.1 on a CPU: without reentrant checkpoints the frozen weight of a
  // block's last layer is unpacked first, which recomputes the block before the layer's gradient.
  TEST_CASE("a block is recomputed before the gradient of its last layer, though that is frozen") {
    const auto peak = [](const std::string& frozen, bool reentrant) {
      return small_vocabulary(fmt::format("freeze: {{{}}}, checkpoint_every: {{reentrant: {}}}",
                                          frozen, reentrant))
          .run.live_without_workspace.bytes.count;
    };
    CHECK(peak("layers: ['h.*.mlp.c_proj']", false) == 46024656);
    CHECK(peak("layers: ['h.*.mlp.c_proj']", true) == 47088400);
    CHECK(peak("layers: ['h.*.mlp']", false) == 41818064);
    CHECK(peak("layers: ['h.*.mlp', wte, wpe]", false) == 41817040);
    CHECK(peak("layers: ['*'], except: ['h.*.attn']", false) == 41674512);
  }

  // Measured likewise: the embedding's output and its gradient, 8 x 128 x 256 numbers of 4 bytes
  // each, go with the loss: before the next micro-batch, and before the optimizer.
  TEST_CASE("an input that asks for a gradient goes with the loss of its micro-batch") {
    const auto in_optimizer = [](const std::string& more, const std::string& training) {
      const PointResult point =
          small_vocabulary("lora: {rank: 8, targets: [c_attn]" + more + "}", training);
      return point.run.phase_live[static_cast<std::size_t>(Phase::kOptimizer)].bytes.count;
    };
    constexpr std::int64_t kOutput = std::int64_t{8} * 128 * 256 * 4;
    const std::string leaf = ", input_gradients: true";
    CHECK(in_optimizer(leaf, "") - in_optimizer("", "") == 2 * kOutput);
    CHECK(in_optimizer(leaf, ", accumulate: 3") == in_optimizer("", ", accumulate: 3"));
  }

  // resnet18_b2_all_eval, resnet18_b2_from_layer3_eval: the peak of the latter is in a batch norm's
  // backward, of which the CPU kernel's second buffer is a part.
  TEST_CASE("batch norms in eval keep what PyTorch keeps") {
    const auto resnet = [](const std::string& frozen) {
      return simulated(
          "model: resnet18\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {framework: "
          "torch-1.13-cpu, precision: fp32, zero_grad: none, steps: 2, micro_batch: 2, optimizer: "
          "{name: momentum, implementation: loop}}\npolicies: [freeze: {layers: [" +
          frozen + "], eval: model}]\n");
    };
    const PointResult all = resnet("");
    CHECK(all.saved_activations.count == 43163460);
    CHECK(all.run.live_without_workspace.bytes.count == 178925464);
    const PointResult some = resnet("conv1, bn1, layer1, layer2");
    CHECK(some.saved_activations.count == 6233924);
    CHECK(some.run.live_without_workspace.bytes.count == 137281176);
  }

  TEST_CASE("adapters keep their inputs, products and scalars") {
    check_recorded(recorded_gpt("lora: {rank: 8, targets: [c_attn]}"), 32768, 18989124, 45000808);
    check_recorded(recorded_gpt("lora: {rank: 8, targets: [c_attn, c_proj, c_fc], dropout: 0.05}"),
                   131072, 32456868, 59648296);
    check_recorded(recorded_gpt("lora: {rank: 8, targets: [c_attn], dora: true}"), 35840, 25314372,
                   51362936);
  }

  TEST_CASE("types and checkpoints of adapters are PyTorch's") {
    const std::string all = "lora: {rank: 8, targets: [c_attn, c_proj, c_fc]";
    check_recorded(recorded_gpt(all + "}", "bf16_autocast"), 131072, 24129700, 51321128);
    check_recorded(recorded_gpt(all + "}", "bf16"), 131072, 16457890, 30842148);
    check_recorded(recorded_gpt(all + "}, checkpoint_every: {reentrant: false}"), 131072, 4458500,
                   32718728);
    check_recorded(
        recorded_gpt(all + ", input_gradients: true}, checkpoint_every: {reentrant: true}"), 131072,
        5507076, 32980872);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a quantised base has codes, scales and tables of every product but the head") {
    const PointResult point = llama("lora: {rank: 4, targets: all-linear, base: nf4}");
    // Per layer: q 64x64, k and v 32x64, o 64x64, gate, up and down 96x64.
    const std::int64_t weights = 2 * (2 * 4096 + 2 * 2048 + 3 * 6144);
    const std::int64_t quantised = weights / 2 + 4 * weights / 64 + 2 * 7 * 64;
    const std::int64_t rest = 2 * (2 * 512 * 64 + 5 * 64);  // embedding, head and norms in bf16
    const std::int64_t features = 2 * (2 * 128 + 2 * 96 + 3 * 160);
    CHECK(point.trainable_parameter_count.count == 4 * features);
    CHECK(point.parameters.count == quantised + rest + 4 * 4 * features);
    CHECK(point.dequantise > Duration{});
  }

  TEST_CASE("bitsandbytes 0.42 keeps the inputs of its products and dequantises in fp16") {
    const std::string lora = "lora: {rank: 4, targets: all-linear, base: nf4";
    const PointResult today = llama(lora + "}");
    const PointResult early = llama(lora + ", implementation: bitsandbytes-0.42}");
    CHECK(early.parameters == today.parameters);
    // Of 64 tokens in bf16: the results of the norms of width 64 and the products of gate and up of
    // width 96. Attention keeps the input of o_proj in both, and that of the first q_proj needs no
    // gradient.
    CHECK(early.saved_activations.count - today.saved_activations.count ==
          64 * 2 * (3 * 64 + 2 * 96));
    CHECK(early.dequantise > today.dequantise);
    // In fp16 there is nothing to convert, and the adapters' inputs of fp32 stay what they are.
    CHECK(llama(lora + ", implementation: bitsandbytes-0.42}", 1, "", "fp16").dequantise ==
          llama(lora + "}", 1, "", "fp16").dequantise);
  }

  TEST_CASE("a loop that names its loss keeps what 0.42's contexts hold until the next one") {
    const auto after_step = [](const std::string& more) {
      return llama("lora: {rank: 4, targets: all-linear, base: nf4" + more + "}", 1,
                   ", hold_output: true, hold_output_until: next_output")
          .run.between_steps.count;
    };
    // In each of two layers the results of both norms, of attention and the product of gate and up;
    // the first norm's leads to no gradient.
    CHECK(after_step(", implementation: bitsandbytes-0.42") - after_step("") ==
          64 * 2 * (2 * (3 * 64 + 96) - 64));
    // Without the variable, or in a function that returns, the graph goes with the step.
    CHECK(
        llama("lora: {rank: 4, targets: all-linear, base: nf4, implementation: bitsandbytes-0.42}")
            .run.between_steps.count ==
        llama("lora: {rank: 4, targets: all-linear, base: nf4}").run.between_steps.count);
  }

  TEST_CASE("the head is quantised where it is asked for") {
    const std::string lora = "lora: {rank: 4, targets: [q_proj], base: nf4";
    const PointResult kept = llama(lora + "}");
    const PointResult quantised = llama(lora + ", quantise_head: true}");
    // 512 x 64 weights: 2 bytes each, or half a byte, 4 bytes per block of 64, and a table.
    const std::int64_t weights = 512 * 64;
    CHECK(kept.parameters.count - quantised.parameters.count ==
          2 * weights - (weights / 2 + 4 * weights / 64 + 64));
    CHECK(refusal("lora: {quantise_head: true}").find("is for quantised bases") !=
          std::string::npos);
  }

  TEST_CASE("adapters name the modules of litgpt's Llama as litgpt does") {
    const auto trained = [](const std::string& targets) {
      return simulated(
                 "model: {preset: litgpt, layers: 2, width: 64, heads: 8, kv_heads: 8, "
                 "head_width: 8, ffn: 96, vocab: 512}\nhardware: h100-sxm-80gb\n"
                 "training: {micro_batch: 2, sequence: 32, precision: bf16}\n"
                 "policies: [lora: {rank: 4, targets: [" +
                 targets + "]}]\n")
          .trainable_parameter_count.count;
    };
    // Per layer: qkv 192 x 64, the projections of attention 64 x 64 and of the MLP 64 x 96, fc_1
    // and fc_2 96 x 64; the head 512 x 64.
    CHECK(trained("qkv, attn.proj, fc_1, fc_2, mlp.proj, lm_head") ==
          4 * (2 * (256 + 128 + 3 * 160) + 576));
    CHECK(trained("proj") == 4 * 2 * (128 + 160));
  }

  TEST_CASE("what trains nothing by mistake is a warning") {
    const std::string ckpt = ", checkpoint_every: {period: 1}";
    REQUIRE(llama("lora: {rank: 4}" + ckpt).warnings.size() == 1);
    CHECK(llama("lora: {rank: 4}" + ckpt).warnings[0].find("reentrant") != std::string::npos);
    CHECK(llama("lora: {rank: 4, input_gradients: true}" + ckpt).warnings.empty());
    CHECK(llama("lora: {rank: 4}, checkpoint_every: {reentrant: false}").warnings.empty());
    CHECK(llama("freeze: {layers: [layers.0]}" + ckpt).warnings.empty());
    REQUIRE(llama("lora: {rank: 4, merged: true}").warnings.size() == 1);
  }

  // The usual LoRA of the Trainer: the model is loaded in bf16, adapters are fp32, autocast
  // computes.
  TEST_CASE("a frozen base in bf16 under autocast keeps the adapters' inputs in bf16") {
    // Returns the bytes that one more adapted layer of each of two blocks keeps.
    const auto kept = [](const std::string& precision, const std::string& base) {
      const auto saved = [&](const std::string& targets) {
        return llama(
                   "lora: {rank: 4, input_gradients: true, targets: [" + targets + "]" + base + "}",
                   1, "", precision)
            .saved_activations.count;
      };
      return saved("gate_proj, up_proj") - saved("gate_proj");
    };
    // Inputs of A [64, 64] and B [64, 4]; under autocast both weights in 16 bit as well.
    constexpr std::int64_t kInputs = 64 * (64 + 4);
    constexpr std::int64_t kWeights = 4 * (64 + 96);
    CHECK(kept("bf16", "") == 2 * 4 * kInputs);
    CHECK(kept("bf16_autocast", ", base: bf16") == 2 * 2 * (kInputs + kWeights));
    const auto parameters = [](const std::string& precision, const std::string& base) {
      return llama("lora: {rank: 4" + base + "}", 1, "", precision).parameters;
    };
    CHECK(parameters("bf16_autocast", ", base: bf16") == parameters("bf16", ""));
    // So has what is left beside codes of 4 bits, unless prepare casts it to fp32.
    CHECK(parameters("bf16_autocast", ", base: nf4") == parameters("bf16", ", base: nf4"));
    CHECK(parameters("bf16_autocast", ", base: nf4, prepare: true") ==
          parameters("bf16", ", base: nf4, prepare: true"));
    CHECK(parameters("bf16", ", base: nf4, prepare: true") > parameters("bf16", ", base: nf4"));
    CHECK(parameters("bf16_autocast", "") > parameters("bf16", ""));
  }

  TEST_CASE("4-bit layers multiply in their compute_dtype, whatever their input has") {
    const PointResult given = llama("lora: {rank: 4, base: nf4, prepare: true}");
    const PointResult fp32 =
        llama("lora: {rank: 4, base: nf4, prepare: true, compute_dtype: fp32}");
    const PointResult bf16 =
        llama("lora: {rank: 4, base: nf4, prepare: true, compute_dtype: bf16}");
    // The rest is in fp32, and so is what the layers take in.
    CHECK(given.run.step == fp32.run.step);
    CHECK(given.saved_activations == fp32.saved_activations);
    CHECK(bf16.parameters == given.parameters);
    // Codes and not the converted input are kept.
    CHECK(bf16.saved_activations == given.saved_activations);
    CHECK(llama("lora: {rank: 4, base: nf4, compute_dtype: bf16}").run.step ==
          llama("lora: {rank: 4, base: nf4}").run.step);
    const auto step = [](const std::string& compute) {
      return simulated(
                 "model: {preset: llama-3-8b, layers: 2}\nhardware: h100-sxm-80gb\n"
                 "training: {micro_batch: 1, sequence: 2048, precision: bf16}\n"
                 "policies: [lora: {rank: 4, base: nf4, prepare: true, compute_dtype: " +
                 compute + "}]\n")
          .run.step;
    };
    // The head, which stays, multiplies in fp32 in both.
    CHECK(step("bf16") * 4 < step("input") * 3);
    CHECK(refusal("lora: {base: int8, compute_dtype: bf16}").find("4 bits") != std::string::npos);
    CHECK(refusal("lora: {compute_dtype: bf16}").find("is for quantised bases") !=
          std::string::npos);
  }

  TEST_CASE("an adapter of an embedding leaves a head that is tied to it alone") {
    for (const char* tie : {"true", "false"}) {
      const PointResult point = simulated(fmt::format(
          "model: {{preset: gpt, layers: 1, width: 64, heads: 4, vocab: 256, sequence: 32, tie: "
          "{}}}\nhardware: h100-sxm-80gb\ntraining: {{micro_batch: 2, sequence: 32}}\n"
          "policies: [lora: {{rank: 4, targets: [wte]}}]\n",
          tie));
      CHECK(point.trainable_parameter_count.count == 4 * (256 + 64));
    }
  }

  TEST_CASE("a module in eval keeps no statistics and no masks") {
    const auto resnet = [](const std::string& policies) {
      return simulated(
          "model: {preset: resnet18}\nhardware: h100-sxm-80gb\nallocator: ideal\n"
          "training: {framework: torch-1.13-cpu, precision: fp32, micro_batch: 2}\n"
          "policies: [" +
          policies + "]\n");
    };
    // mean and invstd of all channels: 4,800 of them, 8 bytes each.
    const PointResult trained = resnet("");
    const PointResult evaluated = resnet("freeze: {layers: [], eval: model}");
    CHECK(trained.saved_activations.count - evaluated.saved_activations.count == 8 * 4800);
    CHECK(trained.trainable_parameter_count == evaluated.trainable_parameter_count);
    // PyTorch 1.13.1 keeps the input of fc and the loss: resnet18_b2_fc_only_eval.
    const PointResult head = resnet("freeze: {layers: ['*'], except: [fc], eval: true}");
    CHECK(head.saved_activations.count == 12100);
  }

  TEST_CASE(
      "columns of LLM.int8's outliers are kept once more, and the host waits for their list") {
    const PointResult none = llama("lora: {rank: 4, base: int8}");
    const PointResult some = llama("lora: {rank: 4, base: int8, outliers: 0.05}");
    // Each product keeps its outliers, but for those whose input needs no gradient: the first
    // block's queries, keys and values. 64 tokens in bf16; 4 of 64 columns and 5 of 96.
    constexpr std::int64_t kWide = 4;
    constexpr std::int64_t kDown = 5;
    const std::int64_t columns = 2 * (6 * kWide + kDown) - 3 * kWide;
    CHECK(some.saved_activations.count - none.saved_activations.count == 64 * 2 * columns);
    CHECK(some.run.step > none.run.step);
    CHECK(some.parameters == none.parameters);
    CHECK(refusal("lora: {base: nf4, outliers: 0.1}").find("is for int8") != std::string::npos);
    CHECK(refusal("lora: {outliers: 0.1}").find("is for a base of int8") != std::string::npos);
    CHECK(refusal("quantise_weights: {dtype: int8, outliers: 2}").find("outliers") !=
          std::string::npos);
  }

  TEST_CASE("names that match nothing are errors with the nearest ones") {
    CHECK(refusal("lora: {targets: [c_atn]}").find("did you mean 'c_attn'") != std::string::npos);
    CHECK(refusal("freeze: {layers: [wtee]}").find("did you mean 'wte'") != std::string::npos);
    CHECK(refusal("freeze: {}").find("nothing to train") != std::string::npos);
    CHECK(refusal("lora: {base: fp32}").find("contradicts training.precision") !=
          std::string::npos);
    CHECK(refusal("quantise_weights: {implementation: torchao, dtype: int8}")
              .find("torchao has no int8") != std::string::npos);
  }
}

TEST_SUITE("property") {
  TEST_CASE("adapters compose with what shards, cuts and offloads, in any order") {
    const std::vector<std::string> beside = {"checkpoint_every: {period: 1}",
                                             "offload_activations: {min_bytes: 1B}",
                                             "fsdp: {version: 2}",
                                             "zero: {stage: 2}",
                                             "tensor_parallel: {size: 2}",
                                             "pipeline: {size: 2}"};
    for (const std::string& other : beside) {
      for (const std::string adapter :
           {"lora: {rank: 4, base: nf4}", "lora: {rank: 4, targets: [o_proj, down_proj]}",
            "freeze: {layers: [layers.0]}"}) {
        CAPTURE(other);
        CAPTURE(adapter);
        const PointResult a = llama(adapter + ", " + other, 4, ", accumulate: 2");
        const PointResult b = llama(other + ", " + adapter, 4, ", accumulate: 2");
        CHECK(a.status == PointStatus::kFits);
        CHECK(a.run.live.bytes == b.run.live.bytes);
        CHECK(a.run.step == b.run.step);
        CHECK(a.trainable_parameter_count == llama(adapter).trainable_parameter_count);
      }
    }
  }
}

}  // namespace tidemark::adapters_test
