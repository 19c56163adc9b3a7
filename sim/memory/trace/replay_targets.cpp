#include "sim/memory/trace/replay_targets.hpp"

#include <fmt/format.h>

namespace tidemark {
namespace replay_targets_detail {
namespace {

void move(TorchPoolStatistic& statistic, std::int64_t from, std::int64_t to) {
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
                             .size = Bytes(segment.size),
                             .stream = torch_.handle(segment.stream),
                             .large = segment.large,
                             .expandable = segment.expandable,
                             .allocated = Bytes(segment.allocated),
                             .active = Bytes(segment.active),
                             .blocks = {}};
    for (const TorchBlock* block : segment.blocks) {
      const int state = block->allocated ? 2 : block->is_idle() ? 0 : 1;
      replayed.blocks.push_back(
          {.size = Bytes(block->size), .requested = Bytes(block->requested), .state = state});
    }
    result.segments.push_back(std::move(replayed));
  }
  for (const SegmentEvent& event : torch_.segment_events()) {
    result.segment_events.push_back({.action = event.action,
                                     .address = event.address,
                                     .size = Bytes(event.size),
                                     .stream = torch_.handle(event.stream)});
  }
}

void SampledStatistics::sample(const ReplayState& state, std::int64_t requested) {
  if (requested != 0) {
    statistics.requested_bytes.all.add(requested);
    statistics.allocation.all.add(requested > 0 ? 1 : -1);
  }
  replay_targets_detail::move(statistics.allocated_bytes, last.allocated.count,
                              state.allocated.count);
  replay_targets_detail::move(statistics.reserved_bytes, last.reserved.count, state.reserved.count);
  replay_targets_detail::move(statistics.active_bytes, last.active.count, state.active.count);
  replay_targets_detail::move(statistics.inactive_split_bytes, last.inactive_split.count,
                              state.inactive_split.count);
  replay_targets_detail::move(statistics.segment, last.segments, state.segments);
  statistics.num_ooms = state.ooms;
  last = state;
}

void BfcTarget::note_failure(std::int64_t bytes) {
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

IdealTarget::Handle IdealTarget::allocate(std::int64_t bytes, std::int64_t /*stream*/) {
  if (bytes > capacity_ - live_) {
    ++ooms_;
    if (message_.empty()) {
      message_ = fmt::format("out of memory: {} were requested, {} are live", torch_size(bytes),
                             torch_size(live_));
    }
    sampled_.sample(state(), 0);
    return 0;
  }
  if (unused_.empty()) {
    unused_.push_back(sizes_.size());
    sizes_.push_back(0);
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
