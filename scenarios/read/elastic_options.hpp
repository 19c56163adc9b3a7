// `memory_elastic`: training in which each step has its own micro-batch, at one global batch.
//   policies:
//     - memory_elastic: {global_batch: 64, lengths: [512, 2048, 8192], capacity: [80GiB, 80GiB,
//     60GiB]}
// or, with the global batch and the micro-batches of DeepSpeed's elasticity,
//     - memory_elastic: {lengths: [2048], deepspeed: {micro_batches: [2, 4, 6], max_batch: 2000}}
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "scenarios/batches/deepspeed_elasticity.hpp"

namespace tidemark {

inline constexpr std::string_view kMemoryElastic = "memory_elastic";

struct ElasticOptions {
  std::int64_t global_batch = 0;      // samples of a step on all GPUs
  std::vector<std::int64_t> lengths;  // sequence length of each step
  // Memory of the device in each step; empty: that of the hardware.
  std::vector<Bytes> capacities;
  std::optional<ElasticityOptions> deepspeed;
};

// Throws UserError: no lengths, another number of capacities, no global batch or two.
[[nodiscard]] ElasticOptions decode_elastic(const Decoder& parameters);

// Returns its parameters, as `tidemark describe` shows them.
[[nodiscard]] std::vector<ParameterNote> elastic_parameters();

// Returns the parameters of `memory_elastic` in the policies of a document; null where it is not
// listed.
[[nodiscard]] const Value* elastic_policy(const Value& document);
// Returns the document without it.
[[nodiscard]] Value without_elastic(Value document);

}  // namespace tidemark
