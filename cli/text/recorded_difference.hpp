// Compares two recordings of an allocator at their peaks: the simulation's and a GPU's.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/text/difference_text.hpp"
#include "sim/memory/trace/peak_allocations.hpp"

namespace tidemark {

// A recording: a snapshot, or a run as its allocator saw it.
struct RecordedSide {
  std::string name;
  bool simulated = false;
  Bytes context;  // process overhead, which no snapshot shows
  RecordedPeak peak;
};
[[nodiscard]] std::string recorded_difference_text(const RecordedSide& a, const RecordedSide& b,
                                                   const DiffView& view);
[[nodiscard]] nlohmann::ordered_json recorded_difference_json(const RecordedSide& a,
                                                              const RecordedSide& b);

}  // namespace tidemark
