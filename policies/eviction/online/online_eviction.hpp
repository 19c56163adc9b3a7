// Online rematerialization: a recorded program runs within a budget, tensors are evicted when
// memory runs out and recomputed when they are read again (Dynamic Tensor Rematerialization,
// Kirisame et al., ICLR 2021). Follows the paper's simulator simrd, ties included.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policies/eviction/online/eviction_log.hpp"

namespace tidemark {

// The least score is evicted. stale = clock - last access; A, D = cost of the evicted ancestors and
// descendants that are reached through evicted storages.
enum class EvictionHeuristic : std::uint8_t {
  kLru,       // last access
  kSize,      // 1 / size
  kDtrLocal,  // cost / (size * stale)
  kMsps,      // (cost + A) / size
  kDtr,       // (cost + A + D) / (size * stale)
  kDtrEq,     // as dtr, over equivalence classes instead of A and D
  kDtrFull,   // as dtr, over the union of A and D, stale since its latest access
  kRandom,    // any, by a fixed seed
};
[[nodiscard]] std::span<const std::string_view> eviction_heuristic_names();  // in this order

// What happens when the program drops its last reference.
enum class DeallocationMode : std::uint8_t {
  kEager,   // evicted at once; recomputed if an evicted storage needs it
  kIgnore,  // nothing: the heuristic finds out
  kBanish,  // freed for ever as soon as nothing evicted depends on it
};
[[nodiscard]] std::span<const std::string_view> deallocation_mode_names();

struct EvictionOptions {
  EvictionHeuristic heuristic = EvictionHeuristic::kDtr;
  DeallocationMode mode = DeallocationMode::kEager;
  std::int64_t budget = 0;  // bytes
  // Recomputation may take up to this many times the program's own time, less one.
  double thrash_factor = 10;
};

enum class EvictionStatus : std::uint8_t { kOk, kOutOfMemory, kThrash };

// Where the replay was aborted, the figures are those up to there.
struct EvictionResult {
  EvictionStatus status = EvictionStatus::kOk;
  std::int64_t peak = 0;           // bytes
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
