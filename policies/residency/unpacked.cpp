#include "policies/residency/unpacked.hpp"

#include <algorithm>
#include <span>

namespace tidemark {
namespace unpacked_detail {
namespace {

// Whether autograd has saved a storage that an operator of backward reads. Codes of a quantised
// weight are attributes of a context (ctx.tensors), which no hook sees.
bool is_saved(const PolicyContext& context, StorageId id) {
  switch (context.graph.storages[id].role) {
    case Role::kParameter:
    case Role::kFrozenParameter:
    case Role::kAdapter:
    case Role::kGatheredParameter:
    case Role::kBuffer:
    case Role::kInput:
    case Role::kSavedActivation:
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace unpacked_detail

std::vector<Position> unpacked_in_backward(const PolicyContext& context,
                                           const BlockRegion& segment) {
  std::vector<Position> found;
  if (context.graph.compiled) return found;  // a kernel is no node
  for (const Position p : segment.backward) {
    if (!context.op_at(p).node.valid()) continue;
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    const bool unpacks = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
      return touch.access == Access::kRead && unpacked_detail::is_saved(context, touch.storage);
    });
    if (unpacks) found.push_back(p);
  }
  return found;
}

}  // namespace tidemark
