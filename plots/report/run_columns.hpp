// The columns of one run: memory over time, the work of each stream, addresses of allocations.
#pragma once

#include <string>

#include "plots/report/reported_run.hpp"

namespace tidemark {

// Columns, in bytes and nanoseconds since the run began. A reference to a table is its index plus
// one, 0 for none. "names" is a list of distinct texts; "layers" go on with names for what lies
// outside of every layer (module_names.hpp).
//   operator.name, .layer, .phase          by operator
//   position.operator, .step, .recompute   by place in the program order
//   block.name, .bytes, .role, .layer, .operator
//   point.time, .block, .sign, .active, .reserved, .position   as in TimelinePoint
//   work.start, .duration, .stream, .kind, .position, .block, .enqueued, .dispatch,
//     .restored (with eviction: part of the duration, recomputing evicted values)
//                                          launches and copies, in issue order
//   wait.begin, .duration, .cause, .position
//                                          stretches in which compute stood still, the stream that
//                                          they were for (kStreams where nothing was issued), and
//                                          the place of what came next
//   address.offset                         by point that allocates; -1 where unknown
//   segment.offset, .bytes, .since, .until in points; memory that the allocator took of the device
[[nodiscard]] std::string run_columns(const ReportedRun& run);

}  // namespace tidemark
