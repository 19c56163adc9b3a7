// training.precision: fp8_mixed, matrix products of linear layers in fp8.
#pragma once

#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

// The recipes of TransformerEngine (transformer_engine/common/recipe) and of torchao.float8:
//   delayed      one scale per tensor from a history of 1,024 magnitudes: 20,500 bytes per layer
//   current      one scale per tensor, found by a pass over the tensor first
//   blockwise    fp32 scales of 1 x 128 activations and 128 x 128 weights
//   mxfp8        a scale of one byte per 32 elements
//   tensorwise, rowwise   torchao: dynamic scales; x and the weight are kept as they are
enum class Fp8Recipe { kDelayed, kCurrent, kBlockwise, kMxfp8, kTensorwise, kRowwise };

// Reads `precision: fp8_mixed` or {fp8_mixed: {recipe: ...}}. Throws UserError.
[[nodiscard]] Fp8Recipe decode_fp8(const Decoder& training);

// Replaces linear layers, but for the one that makes the model's output and those with features
// that are no multiples of 16, which stay in the model's type. Both copies of a weight are kept, as
// below compute capability 10.0; Blackwell's products read one copy in either order, so that a byte
// per weight less is kept there.
class Fp8Products final : public ForwardRewrite {
 public:
  explicit Fp8Products(Fp8Recipe recipe) : recipe_(recipe) {}
  [[nodiscard]] std::string_view name() const override { return "fp8"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kPrecision; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

 private:
  Fp8Recipe recipe_;
};

}  // namespace tidemark
