#include "policies/residency/memory_curve.hpp"

#include <algorithm>

namespace tidemark {
namespace memory_curve_detail {
namespace {

Position after(Position p) {
  return Position(p.value + 1);
}

}  // namespace
}  // namespace memory_curve_detail

MemoryCurve::MemoryCurve(const PolicyContext& context, const ResidencyPlan& plan, Counts counts)
    : bytes_(context.order.at.size() + 1, 0) {
  const Position end(context.order.at.size());
  // Differences first: +bytes where memory is allocated, -bytes after it is freed.
  const auto differ = [&](Position first, Position last, std::int64_t bytes) {
    if (first >= last) return;
    bytes_[first.index()] += bytes;
    bytes_[last.index()] -= bytes;
  };
  const auto on_device = [&](Position p) { return context.op_at(p).executor == Executor::kDevice; };
  IdVector<StorageId, char> touched(context.graph.storages.size(), 0);
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.from.valid()) continue;
    const Storage& storage = context.graph.storages[gap.storage];
    const std::int64_t bytes = storage.bytes.count;
    // A storage whose home is off device is on the device while the device touches it.
    const bool visits = storage.home != Tier::kDevice;
    if (!visits && counts == Counts::kVisitors) continue;
    const bool comes = !visits || on_device(gap.from);
    if (touched[gap.storage] == 0 && storage.initial && !visits) {
      differ(Position(0U), gap.from, bytes);
    }
    touched[gap.storage] = 1;
    const Decision& decision = plan.decision(id);
    const Position to = gap.to.valid() ? gap.to : end;
    if (gap.dead || std::holds_alternative<Recompute>(decision)) {
      if (comes) differ(gap.from, memory_curve_detail::after(gap.release), bytes);
    } else if (const auto* offload = std::get_if<Offload>(&decision)) {
      const Position issued =
          offload->copy_at.valid() ? offload->copy_at : memory_curve_detail::after(gap.release);
      const Position gone = offload->release_at.valid() ? offload->release_at : issued;
      if (comes) differ(gap.from, gone, bytes);
      if (!visits || on_device(gap.to)) differ(offload->fetch_at, to, bytes);
    } else if (visits && !gap.pinned && !std::holds_alternative<Pin>(decision)) {
      if (comes) differ(gap.from, memory_curve_detail::after(gap.release), bytes);
    } else if (comes) {
      differ(gap.from, to, bytes);
    }
  }
  if (counts == Counts::kAll) {
    for (StorageId s : ids_of(context.graph.storages)) {
      const Storage& storage = context.graph.storages[s];
      if (touched[s] == 0 && storage.initial && storage.home == Tier::kDevice)
        differ(Position(0U), end, storage.bytes.count);
    }
    for (const Kept& kept : context.order.kept) {
      if (!kept.storage.valid())
        differ(kept.since, memory_curve_detail::after(kept.until), kept.bytes.count);
    }
    for (Position p : ids_of(context.order.at)) {
      const Occurrence& occurrence = context.order.at[p];
      differ(p, memory_curve_detail::after(p),
             context.graph.operators[occurrence.op].workspace.count);
      if (occurrence.scratch == 0) continue;
      const std::span<const Touch> touches = context.graph.touches_of(occurrence.op);
      for (std::size_t i = 0; i < touches.size(); ++i) {
        if (!is_scratch(occurrence, i)) continue;
        differ(p, memory_curve_detail::after(p),
               context.graph.storages[touches[i].storage].bytes.count);
      }
    }
  }
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

std::int64_t MemoryCurve::peak() const {
  return *std::max_element(most_.begin(), most_.end());
}

Position MemoryCurve::peak_at() const {
  const auto stretch = std::max_element(most_.begin(), most_.end());
  const std::ptrdiff_t begin = (stretch - most_.begin()) * static_cast<std::ptrdiff_t>(kStretch);
  return Position(static_cast<std::size_t>(
      std::find(bytes_.begin() + begin, bytes_.end(), *stretch) - bytes_.begin()));
}

void MemoryCurve::add(Position first, Position end, std::int64_t bytes) {
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

Position MemoryCurve::first_above(Position first, Position end, std::int64_t budget) const {
  Position at = first;
  while (at < end && bytes_[at.index()] <= budget)
    at = memory_curve_detail::after(at);
  return at;
}

Position MemoryCurve::earliest_fit(Position first, Position end, std::int64_t bytes,
                                   std::int64_t budget) const {
  Position at = end;
  while (at > first && bytes_[at.index() - 1] + bytes <= budget)
    at = Position(at.value - 1);
  return at;
}

Bytes device_budget(const PolicyContext& context) {
  const std::int64_t left = context.device.hbm.capacity.count - context.process_overhead.count;
  return Bytes(std::max<std::int64_t>(left, 0));
}

Bytes curve_budget(const PolicyContext& context, const ResidencyPlan& plan,
                   const std::optional<Bytes>& budget) {
  const Bytes whole = budget.value_or(device_budget(context));
  if (context.trial == nullptr) return whole;
  const TrialFigures figures = context.trial->run(plan);
  const std::int64_t beyond = (budget ? figures.peak_live.count : figures.peak_reserved.count) -
                              MemoryCurve(context, plan).peak();
  return Bytes(std::max<std::int64_t>(whole.count - std::max<std::int64_t>(beyond, 0), 0));
}

}  // namespace tidemark
