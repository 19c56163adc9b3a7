// The address-aware variants of online rematerialization.
#pragma once

#include <memory>

#include "policies/eviction/tracked_eviction.hpp"

namespace tidemark {

// MegEngine (imperative/src/impl/interpreter, 47952c0): DTR with the free memory beside a block
// counted to its size. `smallest`: blocks below are left alone (evictee_minimum_size).
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_megengine(const EvictionSettings& settings,
                                                             Bytes smallest);

// OneFlow Coop (Zhang et al. 2023; core/vm/remat/allocator.cpp, 25c8978): evicts a run of
// neighbouring blocks at once, so that what it frees can be handed out as one.
[[nodiscard]] std::unique_ptr<EvictionPolicy> make_coop(const EvictionSettings& settings);

}  // namespace tidemark
