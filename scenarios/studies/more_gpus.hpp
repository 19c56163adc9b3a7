// The terms of a point's peak that more GPUs would change: those that data ranks share, and others
// where the peak lies at another moment.
#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/core/units.hpp"
#include "graph/ir/storage.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

struct Environment;  // scenarios/read/environment.hpp

struct SharedTerm {
  Role role = Role::kParameter;
  Bytes here;   // bytes of the term at the peak
  Bytes there;  // bytes at the peak on twice the GPUs
};
struct MoreGpus {
  int count = 0;  // twice the GPUs of the point
  Bytes peak;     // peak of live bytes there
  // In the order of Role: the terms that differ there, and those that do not, without terms of 0
  // bytes. Both together add up to the peak.
  std::vector<SharedTerm> terms;
  std::vector<SharedTerm> unchanged;
};

// Simulates the point on twice its GPUs, as more data ranks. Returns nothing for a point on one GPU
// and where the step cannot be built for so many.
[[nodiscard]] std::optional<MoreGpus> on_twice_the_gpus(const DetailedPoint& point,
                                                        const Environment& environment);

// Returns {"count", "peak_live", "terms": [{"role", "bytes", "bytes_there"}], "unchanged":
// [{"role", "bytes"}]}; null for nothing.
[[nodiscard]] nlohmann::ordered_json more_gpus_json(const std::optional<MoreGpus>& more);

}  // namespace tidemark
