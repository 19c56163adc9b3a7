// Memory over one step, drawn with block characters:
//
//                                    ▼ peak 37.1 GiB at 412 ms: backward, h.47.mlp: linear
//   80 ┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ capacity 79.2 GiB
//   60 ┤              ░░░░░░░░░░░░░
//   40 ┤      ░░░░░░░░░░░░░░░░░░░░░░░░░░░░
//   20 ┤██████████████████████████████████████████████████
//    0 └──────────────────────────────────────────────────
//       ├──── forward ────┤├─────── backward ──────┤├ opt ┤
#pragma once

#include <string>

#include "plots/memory_samples.hpp"

namespace tidemark {

struct ChartOptions {
  std::size_t width = 100;  // width of the terminal, in characters; at least 40 are used
  std::size_t rows = 16;    // rows of the plotting area, about: the axis has round numbers
  bool colour = false;
  Bytes capacity;             // device memory; drawn as a line where it is near
  Bytes context;              // memory that the framework takes of it
  Duration begin{};           // begin of the time shown; the labels count from here
  Duration end{};             // end of it; not after `begin`: the end of the timeline
  std::string peak_note;      // shown after the peak's size and time
  bool does_not_fit = false;  // the capacity line is drawn across the bands above it
};

// Live bytes by role stacked over time, over the CUDA context and under what the allocator has
// reserved without using it; so the upper edge is what the device holds. Lines end with '\n'.
[[nodiscard]] std::string draw_memory_chart(const StepProgram& program, const Scratch& scratch,
                                            const MemoryTimeline& timeline,
                                            const ChartOptions& options);

}  // namespace tidemark
