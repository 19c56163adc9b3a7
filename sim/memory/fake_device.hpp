// A device that only counts: how much of its memory is taken, and which addresses were given out.
// Addresses grow and are never used again, so that every replay gives the same ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/core/units.hpp"

namespace tidemark {

class FakeDevice {
 public:
  static constexpr Bytes kFailed{-1};
  static constexpr Bytes kAlignment = 2 * kMiB;  // alignment of addresses

  // `taken` bytes of the capacity belong to others: the context, other processes. If they take more
  // than the capacity, nothing is left.
  explicit FakeDevice(Bytes capacity, Bytes taken = {})
      : capacity_(capacity), available_(std::max(capacity - taken, Bytes(0))) {}

  // Returns an address, as cudaMalloc does, or kFailed when the memory does not suffice.
  Bytes allocate(Bytes bytes) {
    ++mallocs_;
    if (bytes > available_) return kFailed;
    const Bytes address = reserve_addresses(bytes);
    if (address != kFailed) take(bytes);
    return address;
  }
  // Returns memory to the device, as cudaFree does.
  void free(Bytes bytes) {
    ++frees_;
    used_ -= bytes;
    available_ += bytes;
  }
  // Returns addresses without memory, as cuMemAddressReserve does.
  Bytes reserve_addresses(Bytes bytes) {
    const Bytes address = next_address_;
    std::int64_t end = 0;
    std::int64_t padded = 0;
    if (!checked_add(address.count, bytes.count, end) ||
        !checked_add(end, kAlignment.count - 1, padded)) {
      return kFailed;  // 2^63 bytes of addresses are used up
    }
    next_address_ = round_up(Bytes(end), kAlignment);
    return address;
  }
  // Maps the pages of one range, all or none, as cuMemCreate and cuMemMap do.
  bool map(Bytes bytes) {
    ++mallocs_;
    if (bytes > available_) return false;
    take(bytes);
    return true;
  }
  void unmap(Bytes bytes) { free(bytes); }

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  [[nodiscard]] Bytes available() const { return available_; }
  [[nodiscard]] Bytes used() const { return used_; }
  // Number of calls that asked for memory, failed ones included, and of calls that gave memory
  // back.
  [[nodiscard]] std::int64_t mallocs() const { return mallocs_; }
  [[nodiscard]] std::int64_t frees() const { return frees_; }

 private:
  void take(Bytes bytes) {
    used_ += bytes;
    available_ -= bytes;
  }

  Bytes capacity_;
  Bytes available_;
  Bytes used_;
  Bytes next_address_;
  std::int64_t mallocs_ = 0;
  std::int64_t frees_ = 0;
};

}  // namespace tidemark
