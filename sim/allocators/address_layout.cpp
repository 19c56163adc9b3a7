#include "sim/allocators/address_layout.hpp"

#include <algorithm>

namespace tidemark {

void SegmentHistory::open(Bytes address, Bytes bytes, std::size_t since) {
  open_.insert_or_assign(address,
                         AddressSegment{.address = address, .bytes = bytes, .since = since});
}

void SegmentHistory::close(Bytes address, Bytes bytes, std::size_t until) {
  const Bytes end = address + bytes;
  auto at = open_.upper_bound(address);
  if (at != open_.begin()) --at;
  while (at != open_.end() && at->first < end) {
    const AddressSegment segment = at->second;
    const Bytes segment_end = segment.address + segment.bytes;
    if (segment_end <= address) {
      ++at;
      continue;
    }
    at = open_.erase(at);
    if (segment.address < address) {
      AddressSegment before = segment;
      before.bytes = address - segment.address;
      open_.emplace(before.address, before);
    }
    AddressSegment closed = segment;
    closed.address = std::max(segment.address, address);
    closed.bytes = std::min(segment_end, end) - closed.address;
    closed.until = until;
    layout_.segments.push_back(closed);
    if (segment_end > end) {
      AddressSegment after = segment;
      after.address = end;
      after.bytes = segment_end - end;
      at = open_.emplace(after.address, after).first;
      ++at;
    }
  }
}

void SegmentHistory::finish(std::size_t end) {
  for (const auto& [address, segment] : open_) {
    layout_.segments.push_back(segment);
    layout_.segments.back().until = end;
  }
  open_.clear();
  std::sort(layout_.segments.begin(), layout_.segments.end(),
            [](const AddressSegment& a, const AddressSegment& b) {
              return a.address != b.address ? a.address < b.address : a.since < b.since;
            });
}

}  // namespace tidemark
