// The addresses at which an allocator put allocations over a run, and the segments that it cut them
// from.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "graph/core/units.hpp"

namespace tidemark {

// Memory that the allocator had from one point of a MemoryTimeline to another (exclusive).
struct AddressSegment {
  Bytes address;
  Bytes bytes;
  std::size_t since = 0;
  std::size_t until = 0;
};

struct AddressLayout {
  std::vector<Bytes> addresses;          // address of each timeline point that allocates
  std::vector<AddressSegment> segments;  // sorted by address, then by time
};

// Collects segments that open and close in the order of the timeline; the layout receives those
// that are closed.
class SegmentHistory {
 public:
  explicit SegmentHistory(AddressLayout& layout) : layout_(layout) {}

  void open(Bytes address, Bytes bytes, std::size_t since);
  // Closes a range of what is open; of an expandable segment it may be any part.
  void close(Bytes address, Bytes bytes, std::size_t until);
  // Closes what is still open at the end.
  void finish(std::size_t end);
  [[nodiscard]] const std::map<Bytes, AddressSegment>& open_segments() const { return open_; }

 private:
  AddressLayout& layout_;
  std::map<Bytes, AddressSegment> open_;  // open segments by address
};

}  // namespace tidemark
