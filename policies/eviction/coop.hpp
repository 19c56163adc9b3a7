// The address-aware variants of online rematerialization.
#pragma once

#include <cstdint>
#include <memory>

#include "policies/eviction/tracked_eviction.hpp"

namespace tidemark {

// Parameters of MegEngine's DTR (megengine.dtr).
struct MegEngineSettings {
  Bytes smallest;              // smaller allocations are left alone (evictee_minimum_size)
  bool sqrt_sampling = false;  // scores only about sqrt(N) of N candidates, drawn at random
  std::uint64_t seed = 0;      // seed of the draws
};

// Makes MegEngine's policy (imperative/src/impl/interpreter, 47952c0): DTR with the free memory
// beside an allocation counted to its size.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_megengine(const EvictionSettings& settings,
                                                             const MegEngineSettings& own);

// Makes OneFlow Coop (Zhang et al. 2023; core/vm/remat/allocator.cpp, 25c8978), which evicts a run
// of neighbouring allocations at once, so that the freed memory can be handed out as one. It is the
// first of the paper's three parts, the sliding window; cheap tensor partitioning and recomputable
// in-place operations change where the framework's allocator puts tensors and are not modelled.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_coop(const EvictionSettings& settings);

}  // namespace tidemark
