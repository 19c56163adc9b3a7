// A device that only counts: how much of its memory is taken, and which addresses were given out.
// Addresses grow and are never used again, so that every replay gives the same ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/core/units.hpp"

namespace tidemark {

class FakeDevice {
 public:
  static constexpr std::int64_t kFailed = -1;
  static constexpr std::int64_t kAlignment = std::int64_t{2} << 20;  // alignment of addresses

  // `taken` bytes of the capacity belong to others: the context, other processes. If they take more
  // than the capacity, nothing is left.
  explicit FakeDevice(Bytes capacity, Bytes taken = {})
      : capacity_(capacity.count),
        available_(std::max<std::int64_t>(capacity.count - taken.count, 0)) {}

  // Returns an address, as cudaMalloc does, or kFailed when the memory does not suffice.
  std::int64_t allocate(std::int64_t bytes) {
    ++mallocs_;
    if (bytes > available_) return kFailed;
    const std::int64_t address = reserve_addresses(bytes);
    if (address != kFailed) take(bytes);
    return address;
  }
  // Returns memory to the device, as cudaFree does.
  void free(std::int64_t bytes) {
    ++frees_;
    used_ -= bytes;
    available_ += bytes;
  }
  // Returns addresses without memory, as cuMemAddressReserve does.
  std::int64_t reserve_addresses(std::int64_t bytes) {
    const std::int64_t address = next_address_;
    std::int64_t next = 0;
    if (!checked_add(address, bytes, next) || !checked_add(next, kAlignment - 1, next)) {
      return kFailed;  // 2^63 bytes of addresses are used up
    }
    next_address_ = next / kAlignment * kAlignment;
    return address;
  }
  // Maps the pages of one range, all or none, as cuMemCreate and cuMemMap do.
  bool map(std::int64_t bytes) {
    ++mallocs_;
    if (bytes > available_) return false;
    take(bytes);
    return true;
  }
  void unmap(std::int64_t bytes) { free(bytes); }

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t available() const { return available_; }
  [[nodiscard]] std::int64_t used() const { return used_; }
  // Number of calls that asked for memory, failed ones included, and of calls that gave memory
  // back.
  [[nodiscard]] std::int64_t mallocs() const { return mallocs_; }
  [[nodiscard]] std::int64_t frees() const { return frees_; }

 private:
  void take(std::int64_t bytes) {
    used_ += bytes;
    available_ -= bytes;
  }

  std::int64_t capacity_;
  std::int64_t available_;
  std::int64_t used_ = 0;
  std::int64_t next_address_ = 0;
  std::int64_t mallocs_ = 0;
  std::int64_t frees_ = 0;
};

}  // namespace tidemark
