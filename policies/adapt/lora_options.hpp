// Settings of low-rank adapters, by the names of peft's LoraConfig.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/ir/dtype.hpp"
#include "policies/adapt/quantise.hpp"

namespace tidemark {

enum class LoraBias { kNone, kAll, kLoraOnly };

struct LoraOptions {
  std::int64_t rank = 8;
  std::vector<std::string> targets;  // empty: peft's default for the architecture
  // Parts of fused projections that are adapted, by their places among queries, keys and values; a
  // matrix A and B for each. Empty: one adapter for the whole projection.
  std::vector<std::size_t> parts;
  double alpha = 8;
  bool rank_stabilised = false;  // scaled by alpha / sqrt(rank): a number of another value
  double dropout = 0;
  bool dora = false;
  DType dtype = DType::kFloat32;  // type of the adapters
  std::optional<DType> base;      // the type that the frozen weights are said to have
  std::optional<QuantiseOptions> quantised;
  std::vector<std::string> modules_to_save;
  LoraBias bias = LoraBias::kNone;
  bool input_gradients = false;  // enable_input_require_grads
  bool merged = false;           // the adapters are added to the weights and do not run
};

[[nodiscard]] LoraOptions decode_lora(const Decoder& d);

}  // namespace tidemark
