#include "plots/address_offsets.hpp"

#include <algorithm>

namespace tidemark {

AddressOffsets::AddressOffsets(const std::vector<AddressSegment>& segments) {
  for (const AddressSegment& segment : segments) {
    const Bytes last = segment.address + segment.bytes;
    if (!ranges_.empty() && segment.address <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, last);
    } else {
      ranges_.push_back({segment.address, last, end()});
    }
  }
}

Bytes AddressOffsets::of(Bytes address) const {
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](Bytes a, const Range& r) { return a < r.address; });
  if (range == ranges_.begin()) return Bytes(-1);
  --range;
  return address < range->end ? range->offset + address - range->address : Bytes(-1);
}

Bytes AddressOffsets::end() const {
  if (ranges_.empty()) return Bytes(0);
  const Range& last = ranges_.back();
  return last.offset + last.end - last.address;
}

}  // namespace tidemark
