#include "scenarios/read/generation.hpp"

#include <array>
#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace generation_detail {
namespace {

constexpr std::string_view kGenerate = "generate";
constexpr std::array<std::string_view, 4> kCacheTypes{"fp32", "bf16", "fp16", "fp8"};
constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8};
// Settings of training that would be thought to have an effect.
constexpr std::array<std::string_view, 7> kOfTraining{
    "accumulate", "global_batch", "loss", "loader", "loss_scale", "ema", "clip_grad_norm"};

GenerationOptions decode_options(const Decoder& d) {
  GenerationOptions options;
  options.prompt = d.optional<std::int64_t>("prompt", options.prompt, up_to(kMaxSequence));
  options.tokens = d.optional<std::int64_t>("tokens", options.tokens, up_to(kMaxGenerated));
  const std::string kind = d.optional_word("cache", kCacheKinds, kCacheKinds.front());
  for (std::size_t i = 0; i < kCacheKinds.size(); ++i) {
    if (kCacheKinds[i] == kind) options.cache = static_cast<CacheKind>(i);
  }
  if (options.cache != CacheKind::kPaged) {
    for (const std::string_view key : {"block", "dtype", "utilization"}) {
      if (d.has(key))
        d.fail_at(key, fmt::format("only a paged cache has it, and this is {}", kind));
    }
  }
  options.block = d.optional<std::int64_t>("block", options.block, between(1, 4096));
  options.utilization = d.optional<double>("utilization", options.utilization, between(0.01, 1));
  if (d.has("dtype")) {
    const std::string word = d.required_word("dtype", kCacheTypes);
    for (std::size_t i = 0; i < kTypes.size(); ++i) {
      if (kCacheTypes[i] == word) options.dtype = kTypes[i];
    }
  }
  d.finish();
  return options;
}

}  // namespace
}  // namespace generation_detail

std::optional<GenerationOptions> decode_generation(const Decoder& training) {
  using generation_detail::decode_options;
  using generation_detail::kGenerate;
  using generation_detail::kOfTraining;
  const Value* mode = training.value().find("mode");
  const bool nested = mode != nullptr && mode->kind == Value::Kind::kMapping;
  const bool generates = nested || (mode != nullptr && mode->scalar == kGenerate);
  if (!generates) {
    if (training.has(kGenerate))
      training.fail_at(kGenerate, "counts with training.mode: generate only");
    return std::nullopt;
  }
  if (nested && training.has(kGenerate))
    training.fail_at(kGenerate, "training.mode has the same options already");
  for (const std::string_view key : kOfTraining) {
    if (training.has(key))
      training.fail_at(key, "has no effect with training.mode: generate, which trains nothing");
  }
  GenerationOptions options;
  if (nested) {
    const Decoder outer = training.required_child("mode");
    options = decode_options(outer.required_child(kGenerate));
    outer.finish();
  } else {
    options = decode_options(training.optional_child(kGenerate));
  }
  const std::int64_t whole = options.prompt + options.tokens;
  options.room = training.optional<std::int64_t>("sequence", whole, up_to(kMaxSequence));
  if (options.room < whole) {
    training.fail_at("sequence", fmt::format("a prompt of {} tokens and {} new ones are {}",
                                             options.prompt, options.tokens, whole));
  }
  return options;
}

}  // namespace tidemark
