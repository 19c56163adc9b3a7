// Memory-elastic training: each step of a sequence of lengths and capacities has the micro-batch
// with which it is fastest and fits, at one global batch, against one fixed micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/read/elastic_options.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// A step with one setting.
struct ElasticSetting {
  std::int64_t micro_batch = 0;
  std::int64_t accumulate = 0;
  PointResult result;
};

struct ElasticStep {
  std::int64_t length = 0;
  Bytes capacity;
  // The fastest setting that fits; where none does, that with the smallest micro-batch.
  ElasticSetting chosen;
};

// One micro-batch in all steps.
struct FixedSetting {
  std::int64_t micro_batch = 0;
  std::int64_t accumulate = 0;
  bool fits = false;  // whether it fits in every step
  Duration time{};    // time of all steps
  std::vector<PointResult> steps;
};

struct ElasticStudy {
  ElasticOptions options;
  std::int64_t ranks = 1;  // data-parallel ranks that share the global batch
  std::vector<ElasticStep> steps;
  bool fits = false;  // whether every step fits
  Duration time{};    // time of all steps as chosen
  // The fastest of the micro-batches that fit in every step; none where none does.
  std::optional<FixedSetting> fixed;
  // The batch that DeepSpeed's elasticity takes for this number of GPUs, and the numbers that can
  // share the batch.
  std::optional<FixedSetting> deepspeed;
  std::vector<std::int64_t> valid_gpus;
};

// Each step is simulated by itself, in its steady state: what an allocator keeps from a step of
// another length is not part of it. Throws UserError: the policy's parameters, a global batch that
// the ranks cannot share, a number of GPUs that DeepSpeed's elasticity refuses, a sweep.
[[nodiscard]] ElasticStudy study_elastic(const Value& document, const Environment& environment);

}  // namespace tidemark
