// The options of a replay, and the figures that it returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/torch/torch_caching_allocator.hpp"
#include "sim/memory/trace/snapshot_reader.hpp"

namespace tidemark {

enum class ReplayAllocator : std::uint8_t { kTorch, kBfc, kIdeal };

struct ReplayOptions {
  ReplayAllocator allocator = ReplayAllocator::kTorch;
  Bytes capacity;  // capacity of the device
  // Every row but `m` is one tick; an event recorded at tick t has ended at t + event_delay. Only
  // torch knows events: the others free at once, as with a single stream.
  std::int64_t event_delay = 0;
  TorchAllocatorOptions torch;
  BfcOptions bfc;
  bool layout = false;  // fills ReplayResult::segments and segment_events; torch only
};

// State of the allocator after a row, as the columns of torch.cuda.memory_stats():
// allocated_bytes.all.current, reserved_bytes, active_bytes, inactive_split_bytes, segment,
// num_alloc_retries, num_ooms.
struct ReplayState {
  Bytes allocated;
  Bytes reserved;
  Bytes active;
  Bytes inactive_split;
  std::int64_t segments = 0;
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
};

// Figures between two marks.
struct ReplayStep {
  std::int64_t step = 0;
  Bytes reserved_at_start;
  Bytes allocated_at_start;
  Bytes peak_allocated;
  Bytes peak_reserved;
};

struct ReplayedBlock {
  Bytes size;
  Bytes requested;
  int state = 0;  // 2 allocated, 1 freed and waiting for events, 0 free
};
struct ReplayedSegment {
  Bytes address;
  Bytes size;
  std::int64_t stream = 0;
  bool large = false;
  bool expandable = false;
  Bytes allocated;
  Bytes active;
  std::vector<ReplayedBlock> blocks;  // blocks sorted by address
};
struct ReplayedSegmentEvent {
  SegmentAction action = SegmentAction::kAlloc;
  Bytes address;
  Bytes size;
  std::int64_t stream = 0;
};

struct ReplayResult {
  std::int64_t rows = 0;
  TorchStatistics statistics;  // all of torch; of bfc and ideal those that they have
  Bytes peak_live_512;         // live requests rounded to 512 bytes: no allocator needs less
  std::string oom_message;     // message of the first failure; empty when there was none
  ReplayState final_state;
  std::optional<SnapshotSummary> snapshot;
  std::vector<ReplayStep> steps;
  std::vector<ReplayedSegment> segments;
  std::vector<ReplayedSegmentEvent> segment_events;
};

}  // namespace tidemark
