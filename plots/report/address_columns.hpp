// Columns of allocations' addresses, and of the segments that they were cut from.
#pragma once

#include "plots/report/column_file.hpp"
#include "plots/report/reported_run.hpp"

namespace tidemark {

// Adds address.offset and segment.*; empty columns where the allocator has no addresses. Offsets
// leave out addresses that never had memory, so that a map shows no holes between ranges.
void add_addresses(ColumnFile& file, const ReportedRun& run);

}  // namespace tidemark
