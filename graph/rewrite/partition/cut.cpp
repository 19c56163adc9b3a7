#include "graph/rewrite/partition/cut.hpp"

namespace tidemark {

Shape local_shape(const Shape& shape, const Layout& layout) {
  Shape local = shape;
  if (!layout) return local;
  local[layout->axis] = shape[layout->axis] / layout->whole * layout->part;
  if (layout->spread) local[layout->axis + 1] /= layout->sharing;
  return local;
}

// The number of elements before the factor stays the same: it says in which axis it is now.
Followed follow_view(const Shape& from, const Cut& cut, const Shape& to) {
  std::int64_t before = cut.outer;
  for (int axis = 0; axis < cut.axis; ++axis)
    before *= from[axis];
  int axis = 0;
  std::int64_t passed = 1;
  while (axis < to.rank() && passed * to[axis] <= before)
    passed *= to[axis++];
  if (axis == to.rank() || before % passed != 0) return {};
  Cut result = cut;
  result.axis = axis;
  result.outer = before / passed;
  if (to[axis] % result.outer != 0) return {};
  result.whole = to[axis] / result.outer;
  if (result.whole == cut.whole) return {.cut = result};
  if (cut.classes) return {};  // its padding belongs to no other factor
  if (result.whole % cut.whole == 0) {
    result.part = cut.part * (result.whole / cut.whole);
    if (cut.spread) {
      result.part /= cut.sharing;
      result.sharing = 1;
      result.spread = false;
    }
    return {.cut = result};
  }
  if (cut.whole % result.whole != 0 || cut.spread) return {};
  const std::int64_t inner = cut.whole / result.whole;
  if (cut.part % inner != 0) return {.indivisible = result.whole};
  result.part = cut.part / inner;
  return {.cut = result};
}

}  // namespace tidemark
