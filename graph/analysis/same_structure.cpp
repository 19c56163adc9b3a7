#include "graph/analysis/same_structure.hpp"

#include <algorithm>

namespace tidemark {
namespace same_structure_detail {
namespace {

template <class Table, class Same>
bool same_items(const Table& a, const Table& b, const Same& same) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
}

bool same_touch(const Touch& a, const Touch& b) {
  return a.storage == b.storage && a.access == b.access;
}

bool same_storage(const Storage& a, const Storage& b) {
  return a.dtype == b.dtype && a.role == b.role && a.layer == b.layer && a.initial == b.initial &&
         a.persistent == b.persistent && a.one_per_rank == b.one_per_rank &&
         a.rank_buffer == b.rank_buffer && a.home == b.home;
}

bool same_collective(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.group == b.group && a.peer == b.peer && a.tag == b.tag &&
         a.ranks == b.ranks && a.blocks_compute == b.blocks_compute;
}

bool same_operator(const Operator& a, const Operator& b) {
  return a.family == b.family && a.part == b.part && a.phase == b.phase &&
         a.executor == b.executor && a.node == b.node && a.layer == b.layer &&
         a.first_touch == b.first_touch && a.touch_count == b.touch_count &&
         (a.workspace > Bytes(0)) == (b.workspace > Bytes(0)) &&
         a.work.op_class == b.work.op_class && a.work.dtype == b.work.dtype &&
         same_collective(a.work.collective, b.work.collective) && a.blocks_host == b.blocks_host;
}

bool same_layer(const Layer& a, const Layer& b) {
  return a.block == b.block;
}

bool same_hold(const Hold& a, const Hold& b) {
  return a.storage == b.storage && a.since == b.since && a.until == b.until && a.kind == b.kind;
}

bool same_part(const StepPart& a, const StepPart& b) {
  return a.kind == b.kind && a.chunk == b.chunk && a.operators == b.operators;
}

bool same_rules(const TrainingGraph& a, const TrainingGraph& b) {
  return a.loss == b.loss && a.module_state == b.module_state && a.blocks == b.blocks &&
         a.has_frames == b.has_frames && a.compiled == b.compiled && a.turns == b.turns &&
         a.checkpoint_random_state == b.checkpoint_random_state &&
         a.checkpoint_stops_early == b.checkpoint_stops_early &&
         a.micro_batches == b.micro_batches && a.gradients_persist == b.gradients_persist &&
         a.updates_in_backward == b.updates_in_backward && a.skipped_updates == b.skipped_updates;
}

}  // namespace
}  // namespace same_structure_detail

bool same_structure(const TrainingGraph& a, const TrainingGraph& b) {
  namespace detail = same_structure_detail;
  return detail::same_rules(a, b) && detail::same_items(a.touches, b.touches, detail::same_touch) &&
         detail::same_items(a.storages, b.storages, detail::same_storage) &&
         detail::same_items(a.operators, b.operators, detail::same_operator) &&
         detail::same_items(a.layers, b.layers, detail::same_layer) &&
         detail::same_items(a.holds, b.holds, detail::same_hold) &&
         detail::same_items(a.parts.all(), b.parts.all(), detail::same_part);
}

}  // namespace tidemark
