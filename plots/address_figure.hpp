// Draws where the allocator put memory over one step: time to the right, addresses upwards.
//
//   |   [  segment         ]      What the allocator took of the device is grey; blocks in it have
//   |   [##]     [/////////]      the ink of their role. Grey between blocks is free, but a request
//   |   [####][//////]            that no gap can hold takes another segment: fragmentation.
//   +----------------------- time
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "plots/memory_figure.hpp"
#include "sim/allocators/address_layout.hpp"

namespace tidemark {

// A block in the memory of the allocator, from when to when it was there.
struct AddressBlock {
  std::string_view tensor;  // of the graph
  Role role = Role::kTemporary;
  Duration begin{};  // since the step began
  Duration end{};
  Bytes offset;
  Bytes bytes;
};
struct AddressFigure {
  std::vector<AddressBlock> segments;  // without a tensor
  std::vector<AddressBlock> blocks;    // by their beginning
  Bytes height;                        // end of the highest segment
  Bytes reserved_at_peak;              // when most is live
  Bytes free_at_peak;                  // of that, in no block
};

// Returns the blocks of the step that `figure` shows. None for allocators without addresses.
[[nodiscard]] AddressFigure address_figure(const TrainingGraph& graph, const StepProgram& program,
                                           const MemoryTimeline& timeline,
                                           const AddressLayout& layout, const MemoryFigure& figure);
// `figure` gives the titles and the phases. Of blocks that cover the same pixels one is drawn.
[[nodiscard]] SvgChart address_chart(const AddressFigure& addresses, const MemoryFigure& figure);

// Writes the columns tensor (empty: a segment), role, begin_ns and end_ns since the step began,
// offset_bytes, size_bytes.
void write_address_figure_csv(std::ostream& out, const AddressFigure& addresses);

}  // namespace tidemark
