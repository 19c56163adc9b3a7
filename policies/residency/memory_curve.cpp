#include "policies/residency/memory_curve.hpp"

#include <algorithm>

namespace tidemark {
namespace memory_curve_detail {
namespace {

Position after(Position p) {
  return Position(p.value + 1);
}

// Differences of live bytes from one position to the next: +bytes where memory is allocated, -bytes
// after it is freed.
using Differences = std::vector<Bytes>;

// Counts bytes as live at the positions [first, last).
void count_live(Position first, Position last, Bytes bytes, Differences& differences) {
  if (first >= last) return;
  differences[first.index()] += bytes;
  differences[last.index()] -= bytes;
}

// Whether a storage is freed after its last use before a gap and nothing is copied for its next
// use.
bool freed_in(const Gap& gap, const Decision& decision, bool visits) {
  if (gap.dead || std::holds_alternative<Recompute>(decision)) return true;
  return visits && !gap.held_by_variable && !std::holds_alternative<Offload>(decision) &&
         !std::holds_alternative<Keep>(decision);
}

// Counts a storage from the use that begins a gap until the use that ends it.
void count_gap(const PolicyContext& context, const Gap& gap, const Decision& decision,
               Differences& differences) {
  const Storage& storage = context.graph.storages[gap.storage];
  const Bytes bytes = storage.bytes;
  const auto on_device = [&](Position p) { return context.op_at(p).executor != Executor::kHost; };
  // A storage whose home is off device is on the device while the device touches it.
  const bool visits = storage.home != Tier::kDevice;
  const bool comes = !visits || on_device(gap.from);
  const Position to = gap.to.valid() ? gap.to : Position(context.order.at.size());
  if (freed_in(gap, decision, visits)) {
    if (comes) count_live(gap.from, after(gap.release), bytes, differences);
  } else if (const auto* offload = std::get_if<Offload>(&decision)) {
    const Position issued = offload->copy_at.valid() ? offload->copy_at : after(gap.release);
    const Position released = offload->release_at.valid() ? offload->release_at : issued;
    if (comes) count_live(gap.from, released, bytes, differences);
    if (!visits || on_device(gap.to)) count_live(offload->fetch_at, to, bytes, differences);
  } else if (comes) {
    count_live(gap.from, to, bytes, differences);
  }
}

// Counts the storages that operators touch. Returns which these are.
IdVector<StorageId, char> count_touched(const PolicyContext& context, const ResidencyPlan& plan,
                                        MemoryCurve::Counts counts, Differences& differences) {
  IdVector<StorageId, char> touched(context.graph.storages.size(), 0);
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.from.valid()) continue;
    const Storage& storage = context.graph.storages[gap.storage];
    const bool visits = storage.home != Tier::kDevice;
    if (!visits && counts == MemoryCurve::Counts::kVisitors) continue;
    if (touched[gap.storage] == 0 && storage.initial && !visits) {
      count_live(Position(0U), gap.from, storage.bytes, differences);
    }
    touched[gap.storage] = 1;
    count_gap(context, gap, plan.decision(id), differences);
  }
  return touched;
}

// Counts the storages that are there from the beginning and that no operator touches.
void count_untouched(const PolicyContext& context, const IdVector<StorageId, char>& touched,
                     Differences& differences) {
  const Position end(context.order.at.size());
  for (StorageId s : ids_of(context.graph.storages)) {
    const Storage& storage = context.graph.storages[s];
    if (touched[s] == 0 && storage.initial && storage.home == Tier::kDevice)
      count_live(Position(0U), end, storage.bytes, differences);
  }
}

// Counts the memory of frames, which belongs to no storage.
void count_frames(const PolicyContext& context, Differences& differences) {
  for (const Kept& kept : context.order.kept) {
    if (!kept.storage.valid()) count_live(kept.since, after(kept.until), kept.bytes, differences);
  }
}

// Counts what lives only while an operator runs: its workspace and its scratch storages.
void count_workspaces(const PolicyContext& context, Differences& differences) {
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    count_live(p, after(p), context.graph.operators[occurrence.op].workspace, differences);
    if (occurrence.scratch == 0) continue;
    const std::span<const Touch> touches = context.graph.touches_of(occurrence.op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (!is_scratch(occurrence, i)) continue;
      count_live(p, after(p), context.graph.storages[touches[i].storage].bytes, differences);
    }
  }
}

}  // namespace
}  // namespace memory_curve_detail

MemoryCurve::MemoryCurve(const PolicyContext& context, const ResidencyPlan& plan, Counts counts)
    : bytes_(context.order.at.size() + 1) {
  const IdVector<StorageId, char> touched =
      memory_curve_detail::count_touched(context, plan, counts, bytes_);
  if (counts == Counts::kAll) {
    memory_curve_detail::count_untouched(context, touched, bytes_);
    memory_curve_detail::count_frames(context, bytes_);
    memory_curve_detail::count_workspaces(context, bytes_);
  }
  // The differences become the bytes themselves.
  for (std::size_t i = 1; i < bytes_.size(); ++i)
    bytes_[i] += bytes_[i - 1];
  bytes_.pop_back();
  most_.resize((bytes_.size() + kStretch - 1) / kStretch);
  for (std::size_t stretch = 0; stretch < most_.size(); ++stretch)
    note_peak(stretch);
}

void MemoryCurve::note_peak(std::size_t stretch) {
  const std::size_t end = std::min((stretch + 1) * kStretch, bytes_.size());
  most_[stretch] =
      *std::max_element(bytes_.begin() + static_cast<std::ptrdiff_t>(stretch * kStretch),
                        bytes_.begin() + static_cast<std::ptrdiff_t>(end));
}

Bytes MemoryCurve::peak() const {
  return *std::max_element(most_.begin(), most_.end());
}

Position MemoryCurve::peak_at() const {
  const auto stretch = std::max_element(most_.begin(), most_.end());
  const std::ptrdiff_t begin = (stretch - most_.begin()) * static_cast<std::ptrdiff_t>(kStretch);
  return Position(static_cast<std::size_t>(
      std::find(bytes_.begin() + begin, bytes_.end(), *stretch) - bytes_.begin()));
}

void MemoryCurve::add(Position first, Position end, Bytes bytes) {
  if (first >= end) return;
  for (std::size_t i = first.index(); i < end.index(); ++i)
    bytes_[i] += bytes;
  const std::size_t last = (end.index() - 1) / kStretch;
  for (std::size_t stretch = first.index() / kStretch; stretch <= last; ++stretch) {
    const bool whole =
        stretch * kStretch >= first.index() && (stretch + 1) * kStretch <= end.index();
    if (whole) {
      most_[stretch] += bytes;
    } else {
      note_peak(stretch);
    }
  }
}

Position MemoryCurve::first_above(Position first, Position end, Bytes budget) const {
  Position at = first;
  while (at < end && bytes_[at.index()] <= budget)
    at = memory_curve_detail::after(at);
  return at;
}

Position MemoryCurve::earliest_fit(Position first, Position end, Bytes bytes, Bytes budget) const {
  Position at = end;
  while (at > first && bytes_[at.index() - 1] + bytes <= budget)
    at = Position(at.value - 1);
  return at;
}

Bytes device_budget(const PolicyContext& context) {
  return std::max(context.device.hbm.capacity - context.process_overhead - context.held_back,
                  Bytes(0));
}

Bytes curve_budget(const PolicyContext& context, const ResidencyPlan& plan,
                   const std::optional<Bytes>& budget) {
  const Bytes whole = budget.value_or(device_budget(context));
  if (context.trial == nullptr) return whole;
  const TrialFigures figures = context.trial->run(plan);
  const Bytes beyond =
      (budget ? figures.peak_live : figures.peak_reserved) - MemoryCurve(context, plan).peak();
  return std::max(whole - std::max(beyond, Bytes(0)), Bytes(0));
}

}  // namespace tidemark
