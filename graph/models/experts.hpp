// A mixture of experts in place of a feed-forward layer: a router gives every token to `per_token`
// of `experts` gated layers and sums what they return.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/models/builder.hpp"

namespace tidemark {

struct MixtureOfExperts {
  std::int64_t experts = 8;
  std::int64_t per_token = 2;
  std::int64_t ffn = 688;  // hidden width of each expert
  std::string activation = "silu";
  // With a capacity factor every expert works on exactly expert_capacity() places: tokens beyond
  // are dropped, empty places are padding.
  std::optional<double> capacity_factor = {};
  // All experts are one parameter each of [experts, 2 ffn, width] and [experts, width, ffn], and
  // compute as batched products, each on as many rows as the most loaded one.
  bool grouped = false;
  bool normalises = true;  // the weights of a token's experts add up to 1
  // Names of the modules of an expert, which patterns of policies match.
  std::string_view gate = "w1";
  std::string_view up = "w3";
  std::string_view down = "w2";
};

// Returns the places of one expert (Lepikhin et al. 2020, GShard): ceil(factor * tokens * per_token
// / experts), and at most all tokens.
[[nodiscard]] std::int64_t expert_capacity(const MixtureOfExperts& mixture, std::int64_t tokens);

// Adds a MixtralSparseMoeBlock on [batch, length, width]: softmax of the router in fp32, top-k,
// then expert by expert gather, w2(act(w1(x)) * w3(x)), weight, index_add_. Assumed: the router is
// balanced, so each expert gets batch * length * per_token / experts tokens, the first ones one
// more where that is no integer. With a capacity factor the tokens are dispatched into one buffer
// [experts * capacity, width] and combined from another, as Megatron's padded token dispatcher
// does.
[[nodiscard]] TensorId mixture_of_experts(ModelBuilder& builder, std::string_view module,
                                          TensorId x, const MixtureOfExperts& mixture);

}  // namespace tidemark
