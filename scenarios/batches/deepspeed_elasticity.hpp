// DeepSpeed's elasticity (deepspeed/elasticity/elasticity.py, version 0.1): one global batch that
// as many numbers of GPUs as possible can share, each with one of the allowed micro-batches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tidemark {

struct ElasticityOptions {
  std::vector<std::int64_t> micro_batches{2, 4, 6};  // allowed micro-batches, each >= 1
  std::int64_t max_batch = 2000;                     // largest global batch
  std::int64_t min_gpus = 1;
  std::int64_t max_gpus = 10'000;
  bool prefer_larger = true;  // of equal candidates takes the larger batch and micro-batch
};

struct ElasticBatch {
  std::int64_t global_batch = 0;
  std::vector<std::int64_t> gpus;  // the numbers of GPUs that can share it, ascending
};

// Returns the global batch. Candidates are each micro-batch, and their least common multiple, times
// the largest highly composite number that stays within `max_batch`; the one that most numbers of
// GPUs can share wins. Empty `gpus` where none can. `micro_batches` must not be empty.
[[nodiscard]] ElasticBatch elastic_batch(const ElasticityOptions& options);

// Returns the micro-batch that DeepSpeed takes on `gpus` GPUs: the largest (smallest, unless larger
// ones are preferred) of the allowed ones that divides each GPU's share of the global batch.
[[nodiscard]] std::optional<std::int64_t> elastic_micro_batch(const ElasticityOptions& options,
                                                              std::int64_t global_batch,
                                                              std::int64_t gpus);

// Returns the largest highly composite number (more divisors than any smaller one) up to `limit`,
// at most 720,720, where DeepSpeed's list ends. `limit` >= 1.
[[nodiscard]] std::int64_t highly_composite_up_to(std::int64_t limit);

}  // namespace tidemark
