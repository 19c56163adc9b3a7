// Offsets of addresses in a picture: without the holes between ranges that never had memory.
#pragma once

#include <vector>

#include "sim/allocators/address_layout.hpp"

namespace tidemark {

class AddressOffsets {
 public:
  explicit AddressOffsets(const std::vector<AddressSegment>& segments);  // sorted by address
  // Returns the offset of an address, -1 of one outside all ranges.
  [[nodiscard]] Bytes of(Bytes address) const;
  // Returns the end of the last range.
  [[nodiscard]] Bytes end() const;

 private:
  struct Range {
    Bytes address;
    Bytes end;
    Bytes offset;
  };
  std::vector<Range> ranges_;
};

}  // namespace tidemark
