// The result document: what `tidemark run --json` prints and scripts read.
#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Returns {"tidemark": version, "points": [...]} with one entry per point. Bytes and counts are
// integers, times seconds, rates per second. model.parameters counts the whole model, its FLOPs are
// those of one GPU: of one rank, or of the average stage. The same points give the same text: no
// times of day, no paths, nothing that is not a finite number.
//
// A point that does not fit has two runs. `memory` (peaks, fragmentation, convergence) and `time`
// are those of the same program with unlimited memory: what it would need. `failure` is the run on
// the device up to the request that failed, with its retries; memory.allocator.retries and ooms
// count there, since only a limit causes them. `throughput` is 0.
[[nodiscard]] nlohmann::ordered_json result_document(std::span<const PointResult> points);
// Returns the entry of one point.
[[nodiscard]] nlohmann::ordered_json result_entry(const PointResult& point);

// The kinds of a `failure`, by RunStatus; a point whose policy has no plan runs to its end.
inline constexpr std::string_view kRunStatuses[] = {
    "infeasible",  "out_of_memory", "out_of_host_memory", "out_of_nvme", "deadlock",
    "peer_failed", "thrash"};

// Returns a time as the documents have it.
[[nodiscard]] double seconds(Duration duration);

// Returns what the allocator holds beyond what is in use, as a share of what it holds, each at its
// peak.
[[nodiscard]] double fragmentation(const RunResult& run);

}  // namespace tidemark
