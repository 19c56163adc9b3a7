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

// What the recorder saw, in points of the timeline.
struct Layout {
  std::vector<std::int64_t> addresses;  // by point that allocates
  std::vector<Segment> segments;
};

// Takes [address, address + bytes) out of the open segments; of an expandable segment any part may
// go.
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
    Segment gone = segment;
    gone.address = std::max(segment.address, address);
    gone.bytes = std::min(segment_end, end) - gone.address;
    gone.until = until;
    closed.push_back(gone);
    if (segment_end > end) {
      Segment after = segment;
      after.address = end;
      after.bytes = segment_end - end;
      at = open.emplace(after.address, after).first;
      ++at;
    }
  }
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
  for (const auto& [address, segment] : open) {
    layout.segments.push_back(segment);
    layout.segments.back().until = timeline.points.size();
  }
  std::sort(layout.segments.begin(), layout.segments.end(), [](const Segment& a, const Segment& b) {
    return a.address != b.address ? a.address < b.address : a.since < b.since;
  });
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
