#include "plots/report/address_columns.hpp"

#include <algorithm>
#include <map>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// Memory that the allocator had from one point of the timeline to another (exclusive).
struct Segment {
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  std::size_t since = 0;
  std::size_t until = 0;
};

// The addresses that the allocator gave out, by points of the timeline.
struct Layout {
  std::vector<std::int64_t> addresses;  // by point that allocates
  std::vector<Segment> segments;
};

// Takes [address, address + bytes) out of the open segments; of an expandable segment any part may
// be released.
void close(std::map<std::int64_t, Segment>& open, std::vector<Segment>& closed,
           std::int64_t address, std::int64_t bytes, std::size_t until) {
  const std::int64_t end = address + bytes;
  auto at = open.upper_bound(address);
  if (at != open.begin()) --at;
  while (at != open.end() && at->first < end) {
    const Segment segment = at->second;
    const std::int64_t segment_end = segment.address + segment.bytes;
    if (segment_end <= address) {
      ++at;
      continue;
    }
    at = open.erase(at);
    if (segment.address < address) {
      Segment before = segment;
      before.bytes = address - segment.address;
      open.emplace(before.address, before);
    }
    Segment released = segment;
    released.address = std::max(segment.address, address);
    released.bytes = std::min(segment_end, end) - released.address;
    released.until = until;
    closed.push_back(released);
    if (segment_end > end) {
      Segment after = segment;
      after.address = end;
      after.bytes = segment_end - end;
      at = open.emplace(after.address, after).first;
      ++at;
    }
  }
}

// Segments that are still open at the end; all of them are sorted by address.
void add_open(Layout& layout, const std::map<std::int64_t, Segment>& open, std::size_t end) {
  for (const auto& [address, segment] : open) {
    layout.segments.push_back(segment);
    layout.segments.back().until = end;
  }
  std::sort(layout.segments.begin(), layout.segments.end(), [](const Segment& a, const Segment& b) {
    return a.address != b.address ? a.address < b.address : a.since < b.since;
  });
}

// Entries about blocks come in the order of the timeline's points; a free that nothing delays is
// two entries and one point. What happens to segments belongs to the call after it.
Layout layout_of(const TorchRecorder& recorder, const MemoryTimeline& timeline) {
  Layout layout;
  std::map<std::int64_t, Segment> open;
  std::size_t point = 0;
  BlockId freed;  // by the entry before
  for (const TorchTraceEntry& entry : recorder.entries()) {
    switch (entry.action) {
      case TorchTraceAction::kSegmentAlloc:
      case TorchTraceAction::kSegmentMap:
        open.insert_or_assign(
            entry.address, Segment{.address = entry.address, .bytes = entry.size, .since = point});
        break;
      case TorchTraceAction::kSegmentFree:
      case TorchTraceAction::kSegmentUnmap:
        close(open, layout.segments, entry.address, entry.size, point);
        break;
      case TorchTraceAction::kOutOfMemory:
        break;
      default: {
        const bool completes =
            entry.action == TorchTraceAction::kFreeCompleted && entry.block == freed;
        if (completes) break;
        while (point < timeline.points.size() && timeline.points[point].block != entry.block)
          ++point;
        if (point == timeline.points.size()) {
          throw InternalError("the allocator's trace and the timeline are not of the same run");
        }
        if (entry.action == TorchTraceAction::kAlloc) layout.addresses.push_back(entry.address);
        ++point;
      }
    }
    freed = entry.action == TorchTraceAction::kFreeRequested ? entry.block : BlockId();
  }
  add_open(layout, open, timeline.points.size());
  return layout;
}

// Regions by address, from their first chunk to their last.
std::map<std::int64_t, std::int64_t> regions_of(const BfcAllocator& allocator) {
  std::map<std::int64_t, std::int64_t> regions;
  allocator.for_each_chunk([&](const BfcChunk& chunk) {
    if (chunk.previous != nullptr) return;
    std::int64_t bytes = 0;
    for (const BfcChunk* part = &chunk; part != nullptr; part = part->next)
      bytes += part->size;
    regions.emplace(chunk.address, bytes);
  });
  return regions;
}

// The points of a timeline are the calls that the allocator got, in their order, so one that starts
// anew and gets the same calls places blocks where the run's own did.
Layout layout_of(const BfcLimits& limits, const ReportedRun& run) {
  Layout layout;
  const std::vector<TimelinePoint>& points = run.timeline.points;
  // Whether a free waits for streams: then a point of sign 0 follows.
  std::vector<bool> waits(points.size());
  IdVector<BlockId, bool> returns(run.program.blocks.size());
  for (std::size_t i = points.size(); i-- > 0;) {
    if (points[i].sign < 0) waits[i] = returns[points[i].block];
    returns[points[i].block] = points[i].sign == 0;
  }
  BfcAllocator allocator(limits.capacity, limits.options);
  allocator.reserve(run.program.blocks.size());
  std::map<std::int64_t, Segment> open;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const BlockId block = points[i].block;
    const std::int64_t reserved = allocator.reserved();
    if (points[i].sign < 0 && waits[i]) {
      allocator.defer_free(block);
    } else if (points[i].sign <= 0) {
      allocator.free(block);
    } else if (!allocator.allocate(block, run.program.blocks[block].bytes.count).ok) {
      throw InternalError("the timeline is not of a run with this allocator");
    } else {
      layout.addresses.push_back(allocator.address(block));
    }
    if (allocator.reserved() == reserved) continue;
    const std::map<std::int64_t, std::int64_t> regions = regions_of(allocator);
    for (const auto& [address, segment] : std::map<std::int64_t, Segment>(open)) {
      if (!regions.contains(address)) close(open, layout.segments, address, segment.bytes, i);
    }
    for (const auto& [address, bytes] : regions)
      open.try_emplace(address, Segment{.address = address, .bytes = bytes, .since = i});
  }
  add_open(layout, open, points.size());
  return layout;
}

// A planned placement is one region, as high as the plan.
Layout layout_of(const PackedPlacement& placement, const MemoryTimeline& timeline) {
  Layout layout;
  for (const TimelinePoint& point : timeline.points) {
    if (point.sign > 0) layout.addresses.push_back(placement.address[point.block]);
  }
  layout.segments.push_back(
      {.address = 0, .bytes = placement.height, .since = 0, .until = timeline.points.size()});
  return layout;
}

// Maps addresses to offsets without the holes between ranges that have ever had memory.
class Offsets {
 public:
  explicit Offsets(const std::vector<Segment>& segments) {  // sorted by address
    for (const Segment& segment : segments) {
      const std::int64_t end = segment.address + segment.bytes;
      if (!ranges_.empty() && segment.address <= ranges_.back().end) {
        ranges_.back().end = std::max(ranges_.back().end, end);
      } else {
        const std::int64_t offset =
            ranges_.empty() ? 0
                            : ranges_.back().offset + ranges_.back().end - ranges_.back().address;
        ranges_.push_back({segment.address, end, offset});
      }
    }
  }
  // -1 of an address outside.
  [[nodiscard]] std::int64_t of(std::int64_t address) const {
    auto range = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                  [](std::int64_t a, const Range& r) { return a < r.address; });
    if (range == ranges_.begin()) return -1;
    --range;
    return address < range->end ? range->offset + address - range->address : -1;
  }

 private:
  struct Range {
    std::int64_t address = 0;
    std::int64_t end = 0;
    std::int64_t offset = 0;
  };
  std::vector<Range> ranges_;
};

}  // namespace

void add_addresses(ColumnFile& file, const ReportedRun& run) {
  Layout layout;
  if (run.recorder != nullptr) layout = layout_of(*run.recorder, run.timeline);
  if (run.bfc != nullptr) layout = layout_of(*run.bfc, run);
  if (run.placement != nullptr) layout = layout_of(*run.placement, run.timeline);
  const Offsets offsets(layout.segments);
  ColumnWriter offset(true);
  for (const std::int64_t address : layout.addresses)
    offset.add(offsets.of(address));
  file.add("address.offset", offset);
  ColumnWriter place(true);
  ColumnWriter bytes;
  ColumnWriter since(true);
  ColumnWriter until(true);
  for (const Segment& segment : layout.segments) {
    place.add(offsets.of(segment.address));
    bytes.add(segment.bytes);
    since.add(static_cast<std::int64_t>(segment.since));
    until.add(static_cast<std::int64_t>(segment.until));
  }
  file.add("segment.offset", place);
  file.add("segment.bytes", bytes);
  file.add("segment.since", since);
  file.add("segment.until", until);
}

}  // namespace tidemark
