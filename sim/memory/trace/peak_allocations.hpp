// The allocations that are live when a recording of an allocator is at its peak, and matches
// between two such peaks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "sim/memory/trace/stack_names.hpp"

namespace tidemark {

// PyTorch's allocator rounds requests to this many bytes, options aside.
inline constexpr Bytes kTorchBlockMultiple{512};  // CUDACachingAllocator, kMinBlockSize
[[nodiscard]] constexpr Bytes rounded_request(Bytes bytes) {
  return round_up(bytes, kTorchBlockMultiple);
}

struct LiveAllocation {
  Bytes bytes;        // bytes as requested
  std::string label;  // names the tensor, as far as the recording says
  RecordedNames names;
};

// The first moment at which the most bytes are live: allocated, and not yet freed by the program.
struct RecordedPeak {
  std::vector<LiveAllocation> live;  // allocations in the order in which they were made
  std::size_t unordered = 0;    // how many of the first ones were live when the recording began
  Bytes bytes;                  // bytes of `live`
  Bytes reserved;               // bytes in segments at that moment
  Bytes most_reserved;          // bytes in segments at any moment
  std::size_t allocations = 0;  // number in the whole recording
  bool out_of_memory = false;   // the recording has a request that failed

  [[nodiscard]] Bytes rounding() const;  // bytes added by rounding `live` to blocks
};

// Reads a PyTorch snapshot (SnapshotReader). Throws UserError.
[[nodiscard]] RecordedPeak peak_of_snapshot(const std::string& path, std::optional<int> device);

// Rules by which two allocations are found to be the same, in the order in which they are tried.
// Sizes are equal when the allocator rounds them to the same; of equal keys the k-th of one peak
// goes with the k-th of the other, in the order of allocation.
enum class MatchedBy : std::uint8_t {
  kTensor,        // layer, name, operator and size: snapshots that Tidemark wrote
  kTensorOnly,    // the same, of another size
  kLayer,         // layer (user_metadata) and size
  kLine,          // the same line of code and size: two snapshots
  kOperator,      // operator, phase and size
  kLayerOnly,     // layer, operator and phase, equally many left in both, of another size
  kLineOnly,      // line of code, likewise
  kOperatorOnly,  // operator and phase, likewise
  kOrder,         // size; in a longest common subsequence of the sizes that are left
  kSize,          // size, in another order
};
inline constexpr std::size_t kMatchedBys = 10;
// Returns for example "the same operator and size".
[[nodiscard]] std::string_view name_of(MatchedBy how);
[[nodiscard]] constexpr bool same_size(MatchedBy how) {
  return how != MatchedBy::kTensorOnly && how != MatchedBy::kLayerOnly &&
         how != MatchedBy::kLineOnly && how != MatchedBy::kOperatorOnly;
}

struct AllocationPair {
  std::size_t a = 0;  // index among the live allocations
  std::size_t b = 0;
  MatchedBy how = MatchedBy::kSize;
};

// A pair of the same allocations. One that was live before a recording began has no order and no
// part in kOrder.
struct AllocationMatch {
  std::vector<AllocationPair> pairs;
  std::vector<std::size_t> only_a;
  std::vector<std::size_t> only_b;
};
[[nodiscard]] AllocationMatch match_allocations(const RecordedPeak& a, const RecordedPeak& b);

// Returns a longest common subsequence as pairs of indices, ascending. Time grows with the product
// of the lengths that are left without common beginning and end; beyond kMostCells of it, equal
// values are looked for only near each other and the result may be shorter.
inline constexpr std::size_t kMostCells = std::size_t{400'000'000};
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> common_subsequence(
    std::span<const Bytes> a, std::span<const Bytes> b);

}  // namespace tidemark
