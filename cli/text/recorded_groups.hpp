// Groups allocations of recorded peaks that are alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "sim/memory/trace/peak_allocations.hpp"

namespace tidemark {

// Allocations of one label and one size.
struct Alike {
  std::string label;
  Bytes bytes;  // size of each allocation
  std::int64_t count = 0;
  [[nodiscard]] Bytes sum() const { return bytes * count; }
};

// Groups the live allocations `which` of a peak, repeated layers together; the largest first.
[[nodiscard]] std::vector<Alike> group_alike(const RecordedPeak& peak,
                                             const std::vector<std::size_t>& which);

// Pairs of allocations with the same labels, sizes and rule.
struct MatchedAlike {
  MatchedBy how = MatchedBy::kSize;
  std::string label_a;
  std::string label_b;
  Bytes bytes_a;  // size of each allocation
  Bytes bytes_b;
  std::int64_t count = 0;
  [[nodiscard]] Bytes difference() const { return (bytes_b - bytes_a) * count; }
};

// Groups the pairs of a match; the largest difference first, then the largest.
[[nodiscard]] std::vector<MatchedAlike> group_matched(const RecordedPeak& a, const RecordedPeak& b,
                                                      const AllocationMatch& match);

// Groups of both sides without a match that have equally many allocations, where one size is a
// whole multiple of the other: perhaps the same tensors in another type or shape.
struct Multiple {
  Alike a;
  Alike b;
  [[nodiscard]] std::string ratio() const;  // for example "4 times", "1/2"
};

// Pairs groups from the largest on, each once. Small single allocations are left out: they are
// multiples by chance. `peak` is the live bytes of the larger side.
[[nodiscard]] std::vector<Multiple> multiples_of(const std::vector<Alike>& of_a,
                                                 const std::vector<Alike>& of_b, Bytes peak);

}  // namespace tidemark
