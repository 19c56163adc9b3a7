// A training loop's variables that outlive their micro-batch, heads that make logits in chunks, and
// adapters on parts of a fused projection: litgpt has all three.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::litgpt_loop_test {
namespace {

constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kVocab = 512;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kKeys = 32;  // 4 heads of 8
constexpr std::int64_t kLayers = 2;

// litgpt's Llama with two samples of 32 tokens.
PointResult litgpt(const std::string& policies, const std::string& training = "",
                   const std::string& hardware = "h100-sxm-80gb") {
  return simulate_points(
             parse_document(
                 fmt::format("model: {{preset: litgpt, layers: 2, width: 64, heads: 8, kv_heads: "
                             "4, head_width: 8, ffn: 96, vocab: 512}}\nhardware: {}\n"
                             "allocator: ideal\ntraining: {{micro_batch: 2, sequence: 32, "
                             "precision: bf16{}}}\npolicies: [{}]\n",
                             hardware, training, policies),
                 "s.yaml"),
             environment(), 1, {.smallest_capacity = false})
      .front();
}

std::string refusal(const std::string& policies, const std::string& training = "",
                    const std::string& hardware = "h100-sxm-80gb") {
  return error_of([&] { static_cast<void>(litgpt(policies, training, hardware)); });
}

constexpr const char* kLoop = ", hold_output: true, hold_output_until: next_output";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a loop's variables keep output and loss until the next micro-batch has its own") {
    const std::string held = ", hold_output: true";
    // The loss is a scalar of the type of the logits.
    constexpr std::int64_t kKept = kTokens * kVocab * 2 + 2;
    for (const char* more : {"", ", accumulate: 3"}) {
      const PointResult until_end = litgpt("", held + more);
      const PointResult until_next = litgpt("", std::string(kLoop) + more);
      CHECK(until_next.run.between_steps.count - until_end.run.between_steps.count == kKept);
    }
    // Logits are the last that an evaluation makes, beside those of the batch before.
    const std::string evaluation = ", mode: forward";
    CHECK(litgpt("", evaluation + kLoop).run.live_without_workspace.bytes.count -
              litgpt("", evaluation + held).run.live_without_workspace.bytes.count ==
          kTokens * kVocab * 2);
    CHECK(refusal("", ", hold_output_until: next_output").find("write hold_output: true") !=
          std::string::npos);
    CHECK(refusal("pipeline: {size: 2}", std::string(kLoop) + ", accumulate: 2",
                  "{gpu: h100-sxm-80gb, count: 2}")
              .find("training.hold_output_until") != std::string::npos);
  }

  TEST_CASE("chunks of logits that are converted to fp32 are the output, and their loss is fp32") {
    const PointResult whole = litgpt("", kLoop);
    const PointResult chunks = litgpt("chunked_loss: {chunks: 4, kind: kept_fp32}", kLoop);
    // Log-probabilities of 4 bytes instead of 2, copies of the targets, which chunks of two samples
    // are not next to each other in, and a total weight for each of four losses: 4 bytes instead of
    // one of 2.
    CHECK(chunks.saved_activations.count - whole.saved_activations.count ==
          kTokens * kVocab * 2 + kTokens * 8 + 4 * 4 - 2);
    CHECK(chunks.run.between_steps.count - whole.run.between_steps.count ==
          kTokens * kVocab * 2 + 2);
    CHECK(chunks.parameters == whole.parameters);
    // The list goes with the loss unless the loop names it.
    CHECK(litgpt("chunked_loss: {chunks: 4, kind: kept_fp32}").run.between_steps.count ==
          litgpt("").run.between_steps.count);
  }

  TEST_CASE("a head with an adapter or of codes makes its logits in chunks, too") {
    for (const char* base : {"", ", base: nf4, quantise_head: true"}) {
      const std::string lora = fmt::format(
          "lora: {{rank: 4, targets: [qkv, lm_head], dtype: bf16, dropout: 0.1{}}}", base);
      const PointResult whole = litgpt(lora);
      const PointResult chunks = litgpt(lora + ", chunked_loss: {chunks: 4, kind: kept}");
      CHECK(chunks.trainable_parameter_count == whole.trainable_parameter_count);
      CHECK(chunks.parameters == whole.parameters);
      // The same is kept in four pieces, with copies of the targets and three more total weights.
      CHECK(chunks.saved_activations.count - whole.saved_activations.count == kTokens * 8 + 3 * 2);
    }
    CHECK(refusal("lora: {rank: 4, targets: [lm_head]}, chunked_loss: {chunks: 4}")
              .find("policies.chunked_loss") != std::string::npos);
  }

  TEST_CASE("parts of a fused projection have matrices of their own") {
    constexpr std::int64_t kRank = 4;
    const auto lora = [](const std::string& parts) {
      return litgpt("lora: {rank: 4, targets: [qkv], dtype: bf16" + parts + "}");
    };
    const PointResult whole = lora("");
    CHECK(whole.trainable_parameter_count.count == kLayers * kRank * (kWidth + kWidth + 2 * kKeys));
    const PointResult some = lora(", parts: [q, v]");
    CHECK(some.trainable_parameter_count.count == kLayers * kRank * (2 * kWidth + kWidth + kKeys));
    // A's results of both, and what index_copy keeps: the deltas and their places.
    CHECK(some.saved_activations.count - whole.saved_activations.count ==
          kLayers * (kTokens * 2 * kRank + kTokens * 2 * (kWidth + kKeys) + 8 * (kWidth + kKeys)));
    const PointResult all = lora(", parts: [v, q, k]");
    CHECK(all.trainable_parameter_count.count ==
          kLayers * kRank * (3 * kWidth + kWidth + 2 * kKeys));
    CHECK(all.saved_activations.count - whole.saved_activations.count ==
          kLayers * kTokens * 2 * 2 * kRank);
    const PointResult one = lora(", parts: [q]");
    CHECK(one.trainable_parameter_count.count == kLayers * kRank * 2 * kWidth);

    const std::string adapters = "lora: {rank: 4, targets: ";
    CHECK(refusal(adapters + "[mlp.proj], parts: [q]}").find("policies.lora.parts") !=
          std::string::npos);
    CHECK(refusal(adapters + "[qkv], parts: [q, o]}").find("a list of q, k and v") !=
          std::string::npos);
    CHECK(refusal(adapters + "[qkv], parts: [q, q]}").find("at most once") != std::string::npos);
    CHECK(refusal(adapters + "[qkv], parts: [q], dora: true}").find("leave one of them out") !=
          std::string::npos);
    CHECK(refusal(adapters + "[qkv], parts: [q]}, tensor_parallel: {size: 2}", "",
                  "{gpu: h100-sxm-80gb, count: 2}")
              .find("policies.lora.parts") != std::string::npos);
  }
}

}  // namespace tidemark::litgpt_loop_test
