#include "plots/report/address_columns.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/allocators/address_layout.hpp"

namespace tidemark {
namespace address_columns_detail {
namespace {

// Maps addresses to offsets without the holes between ranges that have ever had memory.
class Offsets {
 public:
  explicit Offsets(const std::vector<AddressSegment>& segments) {  // sorted by address
    for (const AddressSegment& segment : segments) {
      const Bytes end = segment.address + segment.bytes;
      if (!ranges_.empty() && segment.address <= ranges_.back().end) {
        ranges_.back().end = std::max(ranges_.back().end, end);
      } else {
        const Bytes offset =
            ranges_.empty() ? Bytes(0)
                            : ranges_.back().offset + ranges_.back().end - ranges_.back().address;
        ranges_.push_back({segment.address, end, offset});
      }
    }
  }
  // Returns the offset of an address, -1 of one outside all ranges.
  [[nodiscard]] Bytes of(Bytes address) const {
    auto range = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                  [](Bytes a, const Range& r) { return a < r.address; });
    if (range == ranges_.begin()) return Bytes(-1);
    --range;
    return address < range->end ? range->offset + address - range->address : Bytes(-1);
  }

 private:
  struct Range {
    Bytes address;
    Bytes end;
    Bytes offset;
  };
  std::vector<Range> ranges_;
};

}  // namespace
}  // namespace address_columns_detail

void add_addresses(ColumnFile& file, const ReportedRun& run) {
  const AddressLayout layout = run.layout == nullptr ? AddressLayout() : *run.layout;
  const address_columns_detail::Offsets offsets(layout.segments);
  ColumnWriter offset(true);
  for (const Bytes address : layout.addresses)
    offset.add(offsets.of(address).count);
  file.add("address.offset", offset);
  ColumnWriter place(true);
  ColumnWriter bytes;
  ColumnWriter since(true);
  ColumnWriter until(true);
  for (const AddressSegment& segment : layout.segments) {
    place.add(offsets.of(segment.address).count);
    bytes.add(segment.bytes.count);
    since.add(static_cast<std::int64_t>(segment.since));
    until.add(static_cast<std::int64_t>(segment.until));
  }
  file.add("segment.offset", place);
  file.add("segment.bytes", bytes);
  file.add("segment.since", since);
  file.add("segment.until", until);
}

}  // namespace tidemark
