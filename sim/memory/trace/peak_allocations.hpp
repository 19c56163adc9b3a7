// What is live when a recording of an allocator is at its peak, and which allocations of two such
// peaks are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tidemark {

// What PyTorch's allocator rounds requests to, options aside.
inline constexpr std::int64_t kTorchBlockMultiple = 512;  // CUDACachingAllocator, kMinBlockSize
[[nodiscard]] std::int64_t rounded_request(std::int64_t bytes);

struct LiveAllocation {
  std::int64_t bytes = 0;  // as requested
  std::string label;       // what it is, as far as the recording says
};

// The first moment at which the most bytes are live: allocated, and not yet freed by the program.
struct RecordedPeak {
  std::vector<LiveAllocation> live;  // in the order of their allocation
  std::size_t unordered = 0;         // the first ones, live when the recording began
  std::int64_t bytes = 0;            // of `live`
  std::int64_t reserved = 0;         // in segments at that moment
  std::int64_t most_reserved = 0;    // in segments at any moment
  std::size_t allocations = 0;       // in the whole recording
  bool out_of_memory = false;        // the recording has a request that failed

  [[nodiscard]] std::int64_t rounding() const;  // of `live` to blocks
};

// Of a PyTorch snapshot (SnapshotReader). Throws UserError.
[[nodiscard]] RecordedPeak peak_of_snapshot(const std::string& path, std::optional<int> device);

// The rule: allocations are the same when the allocator rounds them to the same size and either
// they are part of a longest common subsequence of both peaks in the order of allocation, or, of
// those left, they come in the same order among all of that size. What was live before a recording
// began has no order and takes part in the second way only.
struct AllocationMatch {
  std::vector<std::pair<std::size_t, std::size_t>> in_order;  // index in a, in b
  std::vector<std::pair<std::size_t, std::size_t>> elsewhere;
  std::vector<std::size_t> only_a;
  std::vector<std::size_t> only_b;
};
[[nodiscard]] AllocationMatch match_allocations(const RecordedPeak& a, const RecordedPeak& b);

// A longest common subsequence as pairs of indices, ascending. Time grows with the product of the
// lengths that are left without common beginning and end; beyond kMostCells of it, equal values are
// looked for only near each other and the result may be shorter.
inline constexpr std::size_t kMostCells = std::size_t{400'000'000};
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> common_subsequence(
    std::span<const std::int64_t> a, std::span<const std::int64_t> b);

}  // namespace tidemark
