// Online rematerialization: a recorded program runs within a budget, tensors are evicted when
// memory runs out and recomputed when they are read again (Dynamic Tensor Rematerialization,
// Kirisame et al., ICLR 2021). Follows the paper's simulator simrd, ties included.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/units.hpp"
#include "policies/eviction/online/eviction_log.hpp"
#include "policies/eviction/online/heuristic.hpp"
#include "policies/plan/eviction.hpp"

namespace tidemark {

struct EvictionOptions {
  EvictionHeuristic heuristic = EvictionHeuristic::kDtr;
  DeallocationMode mode = DeallocationMode::kEager;
  Bytes budget;
  // Recomputation may take up to this many times the program's own time, less one.
  double thrash_factor = 10;
};

enum class EvictionStatus : std::uint8_t { kOk, kOutOfMemory, kThrash };

// The figures of a replay; those of an aborted one end where it was aborted.
struct EvictionResult {
  EvictionStatus status = EvictionStatus::kOk;
  Bytes peak;
  std::int64_t model_compute = 0;  // first executions, in the log's unit of time
  std::int64_t remat_compute = 0;  // repeated executions
  std::int64_t policy_evictions = 0;
  std::int64_t deallocations = 0;
  std::int64_t remat_operators = 0;
  std::int64_t events = 0;   // executions of operators, first and repeated
  std::string victims_sha1;  // first 16 digits, over the victims' names joined by commas
};

[[nodiscard]] EvictionResult replay_eviction(const EvictionLog& log,
                                             const EvictionOptions& options);

}  // namespace tidemark
