// Draws where the allocator put memory over one step: time to the right, addresses upwards.
//
//   |   [  segment         ]      Segments that the allocator took of the device are grey; the
//   |   [##]     [/////////]      allocations have the ink of their role. Grey is free, but a
//   |   [####][//////]            request that no gap can hold takes another segment, which is
//   +----------------------- time          fragmentation.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "plots/memory_figure.hpp"
#include "sim/allocators/address_layout.hpp"

namespace tidemark {

// A segment or an allocation: the addresses that it has, and the time for which it has them.
struct AddressSpan {
  std::string_view tensor;  // name in the graph; empty for a segment
  Role role = Role::kTemporary;
  Duration begin{};  // time since the step began
  Duration end{};
  Bytes offset;
  Bytes bytes;
};
struct AddressFigure {
  std::vector<AddressSpan> segments;
  std::vector<AddressSpan> allocations;  // sorted by their beginning
  Bytes height;                          // end of the highest segment
  Bytes reserved_at_peak;                // bytes reserved when most is live
  Bytes free_at_peak;                    // part of them that no allocation takes
};

// Returns the allocations of the step that `figure` shows. None for allocators without addresses.
[[nodiscard]] AddressFigure address_figure(const TrainingGraph& graph, const StepProgram& program,
                                           const MemoryTimeline& timeline,
                                           const AddressLayout& layout, const MemoryFigure& figure);
// `figure` gives the titles and the phases. Of allocations that cover the same pixels one is drawn.
[[nodiscard]] SvgChart address_chart(const AddressFigure& addresses, const MemoryFigure& figure);

// Writes the columns tensor (empty: a segment), role, begin_ns and end_ns since the step began,
// offset_bytes, size_bytes.
void write_address_figure_csv(std::ostream& out, const AddressFigure& addresses);

}  // namespace tidemark
