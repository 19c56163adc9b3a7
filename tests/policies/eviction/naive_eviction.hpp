// The rules of online eviction as they are stated, with sets and scans: every score is computed
// anew for every entry of the pool at every eviction. Slow, and independent of the fast replay.
#pragma once

#include "policies/eviction/online/online_eviction.hpp"

namespace tidemark::test {

EvictionResult naive_eviction(const EvictionLog& log, const EvictionOptions& options);

}  // namespace tidemark::test
