#include "graph/rewrite/partition/cut.hpp"

namespace tidemark {

Shape local_shape(const Shape& shape, const Layout& layout) {
  Shape local = shape;
  if (!layout) return local;
  local[layout->axis] = shape[layout->axis] / layout->whole * layout->part;
  if (layout->spread) local[layout->axis + 1] /= layout->sharing;
  return local;
}

namespace cut_detail {
namespace {

// Whether the axis of one head, which has no extent to find it by, stays where it is.
bool keeps_one_head(const Shape& from, const Cut& cut, const Shape& to) {
  if (cut.whole != 1 || cut.outer != 1 || cut.axis >= to.rank() || to[cut.axis] != 1) return false;
  for (int axis = 0; axis < cut.axis; ++axis) {
    if (from[axis] != to[axis]) return false;
  }
  return true;
}

}  // namespace
}  // namespace cut_detail

// The number of elements before the factor stays the same: it says in which axis it is now.
Followed follow_view(const Shape& from, const Cut& cut, const Shape& to) {
  if (cut_detail::keeps_one_head(from, cut, to)) return {.cut = cut};
  std::int64_t before = cut.outer;
  for (int axis = 0; axis < cut.axis; ++axis)
    before *= from[axis];
  int axis = 0;
  std::int64_t passed = 1;
  while (axis < to.rank() && passed * to[axis] <= before)
    passed *= to[axis++];
  // All features become those of one head.
  const bool last = cut.axis == from.rank() - 1 && axis == to.rank() - 1 && axis > cut.axis;
  const bool one_head = last && to[axis - 1] == 1 && passed == before && to[axis] == cut.whole &&
                        !cut.tokens && !cut.classes;
  if (one_head && cut.part < cut.whole) return {.indivisible = 1};
  if (one_head) {  // every rank has it
    Cut head = cut;
    head.axis = axis - 1;
    head.outer = head.whole = head.part = 1;
    return {.cut = head};
  }
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
