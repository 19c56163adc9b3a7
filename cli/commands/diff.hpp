// tidemark diff: two peaks side by side.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "scenarios/results/peak_difference.hpp"
#include "sim/memory/trace/peak_allocations.hpp"

namespace tidemark {

struct DiffCommand {
  static constexpr const char* kName = "diff";
  CLI::App* app = nullptr;
  ScenarioInput input;                   // one name or two; overrides for both
  std::vector<std::string> overrides_a;  // KEY=VALUE
  std::vector<std::string> overrides_b;
  int device = -1;  // of a snapshot; -1: the only one with entries
  std::size_t top = 20;
  bool all = false;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct DiffView {
  std::size_t top = 20;  // rows of a table at most
  bool colour = false;
  std::size_t width = 0;  // of the terminal; 0: none
};
// Two simulated points, term by term.
[[nodiscard]] std::string difference_text(const DetailedPoint& a, const DetailedPoint& b,
                                          const DiffView& view);
[[nodiscard]] nlohmann::ordered_json difference_json(const DetailedPoint& a,
                                                     const DetailedPoint& b);

// A recording: a snapshot, or a run as its allocator saw it.
struct RecordedSide {
  std::string name;
  bool simulated = false;
  std::int64_t context = 0;  // of the framework, which no snapshot shows
  RecordedPeak peak;
};
[[nodiscard]] std::string recorded_difference_text(const RecordedSide& a, const RecordedSide& b,
                                                   const DiffView& view);
[[nodiscard]] nlohmann::ordered_json recorded_difference_json(const RecordedSide& a,
                                                              const RecordedSide& b);

}  // namespace tidemark
