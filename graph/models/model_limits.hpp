// The largest models that are built, so that a slip of the keyboard ("layers: 1000000000") is an
// error message rather than a full memory, and no product of sizes leaves 63 bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Limits far above what has been trained: 126 layers of width 16384 (Llama 3.1 405B), 256k
// vocabularies.
inline constexpr std::int64_t kMaxLayers = 4096;
// Width of hidden states and feed-forward layers.
inline constexpr std::int64_t kMaxWidth = 1 << 20;
inline constexpr std::int64_t kMaxHeads = 1 << 16;
inline constexpr std::int64_t kMaxExperts = 1 << 10;
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxSequence = 1 << 27;
inline constexpr std::int64_t kMaxImage = 1 << 16;  // pixels per side
inline constexpr std::int64_t kMaxSamples = 1 << 24;
// Limit of all tensors of one forward pass together, 64 PiB. A step needs only a small multiple of
// it, which still fits into 63 bits.
inline constexpr Bytes kMaxModelBytes{std::int64_t{1} << 56};

[[nodiscard]] constexpr Range up_to(std::int64_t limit) {
  return between(1, static_cast<double>(limit));
}

// Sequence length when neither the scenario nor a shorter model says otherwise.
inline constexpr std::int64_t kDefaultSequence = 2048;

// Throws UserError when micro_batch, sequence, image or dropout are out of range.
void check_options(const ModelOptions& options);
// Returns the sequence length to build for. `fixed_table`: the model has a learned position table
// and cannot run longer sequences; asking for one throws UserError.
[[nodiscard]] std::int64_t sequence_of(const ModelOptions& options, std::int64_t positions,
                                       bool fixed_table);
// Throws UserError when a transformer's largest tensors (logits, attention scores, hidden layer)
// could not be addressed by any device.
struct TransformerSize {
  std::int64_t batch = 1;
  std::int64_t sequence = 1;
  std::int64_t heads = 1;
  std::int64_t ffn = 1;
  std::int64_t vocab = 1;
};
void check_transformer_size(const TransformerSize& size);
// Throws UserError when the graph's tensors exceed kMaxModelBytes; returns it unchanged otherwise.
[[nodiscard]] Graph checked(Graph graph);

// Throws at `key` unless `part` divides `whole`, and names the nearest values that do:
//   "n_head: 7 heads do not divide a width of 768; the nearest that do are 6 and 8"
// `parts` is the noun, `whole_phrase` says what `whole` is: "a width of 768", "32 attention heads".
void require_divides(const Decoder& config, std::string_view key, std::int64_t part,
                     std::string_view parts, std::int64_t whole, const std::string& whole_phrase);

}  // namespace tidemark
