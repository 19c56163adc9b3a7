// Draws memory over one step as a picture: live bytes by role stacked over true time, over the CUDA
// context and under what the allocator has reserved.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "plots/memory_samples.hpp"
#include "plots/svg_chart.hpp"

namespace tidemark {

struct MemoryFigureOptions {
  std::string title;
  std::string subtitle;
  Bytes capacity;  // device memory; its line is drawn where it is near
  Bytes context;   // memory that the framework takes of it
  Duration begin{};
  Duration end{};             // not after `begin`: the end of the timeline
  std::string peak_note;      // the operator that runs at the peak
  std::string reproduce;      // how to make the picture again
  bool does_not_fit = false;  // drawn as if there were enough memory
  std::size_t columns = 600;  // samples: pixels of the plot's width
};

// The states to draw: in each column the one with the most live bytes, so that the peak is among
// them.
struct MemoryFigure {
  MemoryFigureOptions options;
  std::vector<MemorySample> samples;
  std::vector<Phase> phases;                                      // phase of each column
  [[nodiscard]] Duration column_begin(std::size_t column) const;  // time since `begin`
};

[[nodiscard]] MemoryFigure memory_figure(const StepProgram& program, const Scratch& scratch,
                                         const MemoryTimeline& timeline,
                                         MemoryFigureOptions options);
// Returns the phases of a figure, named.
[[nodiscard]] std::vector<SvgBand> phase_bands(const MemoryFigure& figure);
[[nodiscard]] SvgChart memory_chart(const MemoryFigure& figure);

// Writes the columns begin_ns of the column since the step began, time_ns of the state shown,
// phase, live_bytes, reserved_bytes, device_bytes (reserved and the context), then live bytes by
// role.
void write_memory_figure_csv(std::ostream& out, const MemoryFigure& figure);

// A run among others, with its name.
struct NamedFigure {
  std::string name;
  MemoryFigure figure;
};
// Returns the parts between "; " that the subtitles of all runs have in common.
[[nodiscard]] std::string common_setting(const std::vector<NamedFigure>& runs);
// Whether some run exceeds its device by what its allocator reserves, and not by what is live.
[[nodiscard]] bool reserved_decides(const std::vector<NamedFigure>& runs);
// Draws live bytes and the context of several runs over each other, as lines from the beginning of
// each one's step; where reserved_decides(), also what is reserved, as thin lines. The subtitle is
// their common setting.
[[nodiscard]] SvgChart overlaid_memory_chart(const std::string& title,
                                             const std::vector<NamedFigure>& runs);
// Writes the columns run, begin_ns, time_ns, live_bytes, in_use_bytes (the lines), device_bytes
// (the thin lines).
void write_overlaid_memory_csv(std::ostream& out, const std::vector<NamedFigure>& runs);

}  // namespace tidemark
