#include "plots/report/address_columns.hpp"

#include <cstdint>

#include "plots/address_offsets.hpp"
#include "sim/allocators/address_layout.hpp"

namespace tidemark {
void add_addresses(ColumnFile& file, const ReportedRun& run) {
  const AddressLayout layout = run.layout == nullptr ? AddressLayout() : *run.layout;
  const AddressOffsets offsets(layout.segments);
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
