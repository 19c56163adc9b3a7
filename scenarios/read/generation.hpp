// `training.mode: generate`: text is generated with a key-value cache.
//   training: {mode: generate, generate: {prompt: 512, tokens: 64, cache: paged, block: 16}}
// or, shorter, training: {mode: {generate: {prompt: 512, tokens: 64}}}
#pragma once

#include <optional>

#include "graph/core/decoder.hpp"
#include "graph/models/generation_options.hpp"

namespace tidemark {

// Passes over the whole model in one step; they are simulated one by one.
inline constexpr int kMaxGenerated = 8192;

// Returns the options of generation; none in another mode. Throws UserError for keys of training
// that have no meaning in it, and for a sequence that is too short for prompt and tokens.
[[nodiscard]] std::optional<GenerationOptions> decode_generation(const Decoder& training);

}  // namespace tidemark
