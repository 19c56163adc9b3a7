// Generated text: sizes of caches, what is live in the prompt's pass and in those of one token.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "graph/models/generation/kv_cache.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/results/generation_json.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::generation_test {
namespace {

constexpr std::string_view kLlama =
    "{preset: llama, layers: 4, width: 256, heads: 8, kv_heads: 2, ffn: 688, vocab: 4096}";

PointResult generated(std::string_view model, std::string_view training,
                      std::string_view policies = "") {
  const Scenario step = decode(fmt::format(
      "model: {}\nhardware: {{gpu: a100-sxm-80gb, host: {{dispatch: 1us}}}}\nallocator: ideal\n"
      "training: {{mode: generate, {}}}\npolicies: [{}]\n",
      model, training, policies));
  return simulate(step, build_training(step), {.smallest_capacity = false});
}

std::string problem(std::string_view model, std::string_view training,
                    std::string_view policies = "") {
  try {
    static_cast<void>(generated(model, training, policies));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// 8 layers with 2 heads of 16 for keys and values, in two bytes: 1,024 bytes per token.
constexpr std::string_view kSmall =
    "{preset: llama, layers: 8, width: 128, heads: 8, kv_heads: 2, ffn: 256, vocab: 512}";
constexpr KeyValueCache kSmallCache{.layers = 8, .kv_heads = 2, .head_width = 16};

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("recorded generations peak where these do, one hidden state lower") {
    // PyTorch 1.13.1 on a CPU, prompts of 32 and 64 tokens, 2 sequences: 20,362,752 and 21,153,792
    // bytes. The recorded loop computes its blocks in place; a module's caller holds the block's
    // input meanwhile, as transformers' models do: 2 x tokens x 256 x 4 bytes.
    for (const auto& [prompt, tokens, recorded] :
         {std::tuple{32, 16, 20362752}, std::tuple{64, 32, 21153792}}) {
      const PointResult point =
          generated(kLlama, fmt::format("generate: {{prompt: {}, tokens: {}}}, micro_batch: 2, "
                                        "precision: fp32, attention: math, framework: "
                                        "torch-1.13-cpu, sequence: 128",
                                        prompt, tokens));
      CHECK(point.parameters == Bytes(19473408));
      CHECK(point.buffers == Bytes(98304));
      CHECK(point.run.live_without_workspace.bytes.count - 2 * prompt * 256 * 4 == recorded);
      CHECK(point.peak.op == "mul");
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a cache holds the keys and values of all tokens but the last") {
    const auto cache = [](std::string_view kind) {
      const PointResult point = generated(
          kSmall, fmt::format("precision: bf16, micro_batch: 3, generate: {{prompt: 20, tokens: 9, "
                              "cache: {}}}",
                              kind));
      REQUIRE(point.generation);
      return point.generation->cache;
    };
    CHECK(cache("dynamic") == kSmallCache.whole(3, 28));
    CHECK(cache("static") == kSmallCache.whole(3, 29));  // room for all 29 tokens
    CHECK(cache("paged, block: 16") == kSmallCache.paged(3, 29, 16));
    CHECK(cache("paged, block: 8, dtype: fp8") == Bytes(kSmallCache.paged(3, 29, 8).count / 2));
  }

  TEST_CASE("a longer copy of a layer lives beside the old one") {
    // With long prompts the cache is the peak of decoding: all layers' keys and values, and while
    // the keys of one are replaced, the old ones too. Heads are not repeated here.
    const auto peak = [](std::string_view cache) {
      return generated(
                 "{preset: llama, layers: 8, width: 128, heads: 8, kv_heads: 8, ffn: 256, "
                 "vocab: 512}",
                 fmt::format("precision: bf16, generate: {{prompt: 4000, tokens: 2, cache: "
                             "{}}}",
                             cache))
          .generation->decode_peak.count;
    };
    const KeyValueCache cache{.layers = 8, .kv_heads = 8, .head_width = 16};
    const std::int64_t keys = cache.replaced(1, 4000).count / 2;
    const std::int64_t more = peak("dynamic") - peak("static");
    // A static cache has room for the last token, and its peak is an operator later.
    CHECK(more >= keys - cache.whole(1, 2).count);
    CHECK(more <= keys);
  }

  TEST_CASE("a token takes at least the time to read weights and cache") {
    for (const std::string_view cache : {"dynamic", "static", "paged"}) {
      const PointResult point = generated(
          "{preset: llama-3-8b, layers: 2}",
          fmt::format("precision: bf16, micro_batch: 4, generate: {{prompt: 512, tokens: 3, cache: "
                      "{}}}",
                      cache));
      const GenerationFigures& g = *point.generation;
      CHECK(g.last_step >= g.memory_bound);
      CHECK(g.decode >= g.last_step);
      CHECK(g.prefill + g.decode <= point.run.step);
      CHECK(point.tokens == 12);
      // The document says the same when it is read again.
      CHECK(to_json(generation_from_json(to_json(g))) == to_json(g));
    }
  }

  TEST_CASE("blocks of a paged cache fill what weights and activations leave") {
    const PointResult point = generated(
        kSmall,
        "precision: bf16, generate: {prompt: 16, tokens: 16, cache: paged, utilization: 0.5}");
    const GenerationFigures& g = *point.generation;
    const Bytes rest = std::max(g.prefill_peak, g.decode_peak) - g.cache + point.context;
    const std::int64_t block = 1024 * 16;  // bytes of 16 tokens in all layers
    CHECK(g.blocks_that_fit == (point.capacity.count / 2 - rest.count) / block);
  }

  TEST_CASE("few rows are multiplied with the codes of a quantised weight") {
    const auto token = [](std::string_view policies, int sequences) {
      return generated("{preset: llama-3-8b, layers: 2}",
                       fmt::format("precision: bf16, micro_batch: {}, generate: {{prompt: 16, "
                                   "tokens: 3}}",
                                   sequences),
                       policies)
          .generation->last_step;
    };
    CHECK(token("quantise_weights: {dtype: nf4}", 4) < token("", 4));
    CHECK(token("quantise_weights: {dtype: nf4}", 5) > token("", 5));  // dequantised
  }

  TEST_CASE("what cannot generate says so") {
    CHECK(mentions(problem("{preset: bert, layers: 1}", "generate: {prompt: 8, tokens: 8}"),
                   "no text with a key-value cache"));
    CHECK(mentions(problem("{preset: gpt2, layers: 1}", "generate: {prompt: 1000, tokens: 100}"),
                   "1024"));
    CHECK(mentions(problem("{preset: gpt2, layers: 1}", "sequence: 64"), "576"));
    CHECK(mentions(problem("{preset: gpt2, layers: 1}", "generate: {cache: static, block: 8}"),
                   "only a paged cache has it"));
    CHECK(mentions(problem("{preset: gpt2, layers: 1}", "accumulate: 2"), "trains nothing"));
    CHECK(mentions(problem("{preset: gpt2, layers: 1}", "generate: {tokens: 2}, generate2: 1"),
                   "unknown key"));
  }
}

TEST_SUITE("property") {
  TEST_CASE("every decoder generates with every cache, under precisions and policies") {
    for (const std::string_view model :
         {"{preset: gpt2, layers: 2}", "{preset: gpt, layers: 2}",
          "{preset: mixtral-8x7b, layers: 1, width: 128, ffn: 64, vocab: 512}"}) {
      for (const std::string_view cache : {"dynamic", "static", "paged"}) {
        for (const std::string_view more :
             {"attention: math, precision: fp32", "precision: bf16_autocast", "precision: bf16"}) {
          const PointResult point = generated(
              model, fmt::format("{}, generate: {{prompt: 8, tokens: 4, cache: {}}}", more, cache),
              "lora: {rank: 4}");
          CHECK(point.status == PointStatus::kFits);
          CHECK(point.generation->decode > Duration(0));
        }
      }
    }
  }
}

}  // namespace tidemark::generation_test
