// Replaces the weights of linear layers by codes and scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/operators/adapters/quantised_formats.hpp"
#include "policies/adapt/name_patterns.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

struct QuantiseOptions {
  const QuantisedFormat* format = nullptr;
  std::int64_t block = 64;  // weights that share a scale
  NamePatterns patterns;    // names of the weights that are quantised
  // The product that makes the model's output stays as it is, unless it is the only one.
  bool keeps_head = true;
  // LLM.int8: the share of a product's input columns with a value beyond its threshold of 6, which
  // are multiplied in the type of the input. About 0.001 from 6.7 billion parameters on (Dettmers
  // et al. 2022, section 4.2: 7 columns of 4,096).
  double outliers = 0;
  std::string library;  // the word of `implementation`, for the operators
  // The type that layers of 4 bits multiply in, which they convert their input to and their result
  // from (bnb_4bit_compute_dtype); none: that of the input.
  std::optional<DType> compute;
  // Casts all other weights of 16 bits to fp32 (peft's prepare_model_for_kbit_training).
  bool upcasts_rest = false;
  std::string policy;  // the policy that asks for it, for messages
};

// Reads `block`, `implementation`, `quantise_head` and `outliers` beside the name of a format.
// Throws UserError for a name that the implementation does not have.
[[nodiscard]] QuantiseOptions decode_quantise(const Decoder& d, const std::string& name);

// Quantised weights are frozen. Tied weights, those of trained layers and bare parameters stay.
class QuantiseLinears final : public ForwardRewrite {
 public:
  explicit QuantiseLinears(QuantiseOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return options_.policy; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kQuantise; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;
  [[nodiscard]] const QuantiseOptions& options() const { return options_; }

 private:
  QuantiseOptions options_;
};

// Returns the product that makes the model's output; invalid where the only product of the model
// does, or none.
[[nodiscard]] NodeId head_of(const Graph& graph);

}  // namespace tidemark
