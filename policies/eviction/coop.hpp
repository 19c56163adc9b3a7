// The address-aware variants of online rematerialization.
#pragma once

#include <cstdint>
#include <memory>

#include "policies/eviction/tracked_eviction.hpp"

namespace tidemark {

// Parameters of MegEngine's DTR (megengine.dtr).
struct MegEngineSettings {
  Bytes smallest;              // allocations below are left alone (evictee_minimum_size)
  bool sqrt_sampling = false;  // of N candidates only about sqrt(N), drawn at random, are scored
  std::uint64_t seed = 0;      // of the draws
};

// MegEngine (imperative/src/impl/interpreter, 47952c0): DTR with the free memory beside an
// allocation counted to its size.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_megengine(const EvictionSettings& settings,
                                                             const MegEngineSettings& own);

// OneFlow Coop (Zhang et al. 2023; core/vm/remat/allocator.cpp, 25c8978): evicts a run of
// neighbouring allocations at once, so that what it frees can be handed out as one. Of the paper's
// three parts this is the first, the sliding window; cheap tensor partitioning and recomputable
// in-place operations change where the framework's allocator puts tensors and are not modelled.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_coop(const EvictionSettings& settings);

}  // namespace tidemark
