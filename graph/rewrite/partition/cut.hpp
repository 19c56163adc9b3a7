// Describes how a tensor is cut among the ranks of a group.
//
// One axis is cut, or a factor of it: heads remain recognisable where they are merged with other
// axes into one.
//
//   [batch, length, 3 width]     axis 2, outer 1, whole 3 width
//   [batch, length, heads, 64]   axis 2, outer 1, whole heads
//   [batch * heads, length, 64]  axis 0, outer batch, whole heads
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/tensor.hpp"

namespace tidemark {

struct Cut {
  int axis = 0;
  std::int64_t outer = 1;  // extent of the factors of the axis that lie outside the one that is cut
  std::int64_t whole = 1;  // extent of the factor that is cut
  std::int64_t part = 1;   // extent that one rank has of it, padding included; at least 1
  // Ranks that have the same part: those of one key-value head where there are fewer heads than
  // ranks.
  int sharing = 1;
  // Among those ranks the next axis is cut: the repeats of a key-value head.
  bool spread = false;
  bool tokens = false;   // samples or positions are cut; features otherwise
  bool classes = false;  // the classes of a vocabulary are cut, perhaps with padding

  friend bool operator==(const Cut&, const Cut&) = default;
};

// Nothing: every rank has the whole tensor.
using Layout = std::optional<Cut>;

// Returns the shape that one rank has of a tensor of `shape`.
[[nodiscard]] Shape local_shape(const Shape& shape, const Layout& layout);

// The place of a cut after a change of shape that keeps the order of elements.
struct Followed {
  Layout cut;  // none: the cut is no factor of an axis any more
  // The factor that cannot be divided among the ranks; 0 where it can.
  std::int64_t indivisible = 0;
};
[[nodiscard]] Followed follow_view(const Shape& from, const Cut& cut, const Shape& to);

}  // namespace tidemark
