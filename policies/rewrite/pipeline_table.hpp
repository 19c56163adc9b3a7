// A schedule of a pipeline as a table: a CSV file with a row for each rank.
//
//   rank,order
//   0,F0 F1 B0 F2 B1 B2
//   1,F0 B0 F1 B1 F2 B2
//
// F, B and W are forward, backward and weight gradients of a micro-batch, F0.1 those of chunk 1.
// Further columns are ignored.
#pragma once

#include <string>
#include <vector>

#include "graph/analysis/schedule.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {

struct PipelineTable {
  std::vector<std::vector<ScheduledPart>> by_rank;
  int chunks = 1;
};

// Reads the table of `ranks` ranks. `named_at` and `path` are where the file is named. Throws
// UserError for rows that are missing or that no schedule has.
[[nodiscard]] PipelineTable read_pipeline_table(const std::string& file, int ranks,
                                                const Location& named_at, const std::string& path);

}  // namespace tidemark
