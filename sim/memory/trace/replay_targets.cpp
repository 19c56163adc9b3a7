#include "sim/memory/trace/replay_targets.hpp"

#include <fmt/format.h>

namespace tidemark {
namespace replay_targets_detail {
namespace {

template <class Quantity>
void move(TorchPoolStatistic<Quantity>& statistic, Quantity from, Quantity to) {
  if (from != to) statistic.all.add(to - from);
}

}  // namespace
}  // namespace replay_targets_detail

void TorchTarget::finish(ReplayResult& result, bool layout) const {
  result.statistics = torch_.statistics();
  result.oom_message = message_;
  if (!layout) return;
  for (const TorchSegment& segment : torch_.segments()) {
    ReplayedSegment replayed{.address = segment.address,
                             .size = segment.size,
                             .stream = torch_.handle(segment.stream),
                             .large = segment.large,
                             .expandable = segment.expandable,
                             .allocated = segment.allocated,
                             .active = segment.active,
                             .blocks = {}};
    for (const TorchBlock* block : segment.blocks) {
      const int state = block->allocated ? 2 : block->is_idle() ? 0 : 1;
      replayed.blocks.push_back(
          {.size = block->size, .requested = block->requested, .state = state});
    }
    result.segments.push_back(std::move(replayed));
  }
  for (const SegmentEvent& event : torch_.segment_events()) {
    result.segment_events.push_back({.action = event.action,
                                     .address = event.address,
                                     .size = event.size,
                                     .stream = torch_.handle(event.stream)});
  }
}

void SampledStatistics::sample(const ReplayState& state, Bytes requested) {
  if (requested != Bytes(0)) {
    statistics.requested_bytes.all.add(requested);
    statistics.allocation.all.add(requested > Bytes(0) ? 1 : -1);
  }
  replay_targets_detail::move(statistics.allocated_bytes, last.allocated, state.allocated);
  replay_targets_detail::move(statistics.reserved_bytes, last.reserved, state.reserved);
  replay_targets_detail::move(statistics.active_bytes, last.active, state.active);
  replay_targets_detail::move(statistics.inactive_split_bytes, last.inactive_split,
                              state.inactive_split);
  replay_targets_detail::move(statistics.segment, last.segments, state.segments);
  statistics.num_ooms = state.ooms;
  last = state;
}

void BfcTarget::note_failure(Bytes bytes) {
  ++ooms_;
  if (!message_.empty()) return;
  message_ =
      fmt::format("out of memory: {} were requested; {} are allocated, {} are reserved",
                  torch_size(bytes), torch_size(bfc_.allocated()), torch_size(bfc_.reserved()));
}

void BfcTarget::finish(ReplayResult& result, bool /*layout*/) const {
  result.statistics = sampled_.statistics;
  result.oom_message = message_;
}

IdealTarget::Handle IdealTarget::allocate(Bytes bytes, std::int64_t /*stream*/) {
  if (bytes > capacity_ - live_) {
    ++ooms_;
    if (message_.empty()) {
      message_ = fmt::format("out of memory: {} were requested, {} are live", torch_size(bytes),
                             torch_size(live_));
    }
    sampled_.sample(state(), Bytes(0));
    return 0;
  }
  if (unused_.empty()) {
    unused_.push_back(sizes_.size());
    sizes_.push_back(Bytes(0));
  }
  const Handle slot = unused_.back();
  unused_.pop_back();
  sizes_[slot] = bytes;
  live_ += bytes;
  sampled_.sample(state(), bytes);
  return slot;
}

void IdealTarget::finish(ReplayResult& result, bool /*layout*/) const {
  result.statistics = sampled_.statistics;
  result.oom_message = message_;
}

}  // namespace tidemark
