// The forward passes of a decoder: one over whole sequences, or, where text is generated, one over
// the prompt and one for each further token, over the keys and values of the tokens before it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

class DecoderPasses {
 public:
  // `sequence`: tokens of a whole sequence, prompt and generated ones. All outlive this.
  DecoderPasses(ModelBuilder& builder, const ModelOptions& options, std::int64_t sequence);

  [[nodiscard]] bool generates() const { return generation_ != nullptr; }
  // Tokens that a pass reads, and tokens before them.
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t past() const { return past_; }
  // Tokens of all samples that a step learns from, or generates.
  [[nodiscard]] std::int64_t tokens() const;

  // Returns the logits of the last pass. `forward` makes the logits of a pass from its int64
  // tokens [batch, length()].
  TensorId run(const std::function<TensorId(TensorId)>& forward);

  // Cuts a table of all positions [sequence, ...] to those of the pass.
  [[nodiscard]] TensorId positions(TensorId table) const;
  // Cuts a mask [1, 1, sequence, sequence] to queries of the pass and the keys that they read.
  [[nodiscard]] TensorId mask(TensorId whole) const;
  // Keeps keys and values [batch, heads, length, width] of the next layer of this pass, and makes
  // them what attention reads.
  void remember(TensorId& k, TensorId& v);
  // Whether a query sees later tokens unless they are masked.
  [[nodiscard]] bool causal() const { return length_ > 1; }
  // Attention reads blocks of a pool; heads are not repeated for it.
  [[nodiscard]] bool paged() const;
  [[nodiscard]] TensorId attend_paged(TensorId q, TensorId k, TensorId v) const;
  // Cuts hidden states [batch, length, width] to those whose logits are wanted: the last token's
  // where text is generated.
  [[nodiscard]] TensorId wanted(TensorId hidden) const;

 private:
  struct Layer {
    TensorId keys;
    TensorId values;
  };
  [[nodiscard]] TensorId extended(TensorId cache, TensorId added) const;
  [[nodiscard]] TensorId room_for(TensorId added) const;
  [[nodiscard]] TensorId narrowed(TensorId x, int axis, std::int64_t length) const;

  ModelBuilder& b_;
  const GenerationOptions* generation_;
  std::int64_t batch_;
  std::int64_t sequence_;
  std::int64_t length_;
  std::int64_t past_ = 0;
  std::vector<Layer> layers_;
  std::size_t layer_ = 0;  // the next layer of this pass
};

}  // namespace tidemark
