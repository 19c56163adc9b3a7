#include "sim/memory/out_of_memory.hpp"

#include <algorithm>
#include <utility>

namespace tidemark {

void SegmentSum::add_free(Bytes bytes) {
  segment_.size += bytes;
  segment_.free += bytes;
  segment_.largest_free = std::max(segment_.largest_free, bytes);
}

void SegmentSum::add_in_use(Bytes bytes, AllocationId allocation) {
  segment_.size += bytes;
  segment_.in_use.push_back(allocation);
}

void SegmentSum::close(OutOfMemory& report) {
  report.free_in_segments += segment_.free;
  if (segment_.free > Bytes(0) && !segment_.in_use.empty()) {
    report.partly_free.push_back(std::move(segment_));
  }
}

void sort_by_free(std::vector<PartlyUsedSegment>& segments) {
  std::stable_sort(
      segments.begin(), segments.end(),
      [](const PartlyUsedSegment& a, const PartlyUsedSegment& b) { return a.free > b.free; });
}

}  // namespace tidemark
