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
  Bytes capacity;  // of the device
  // Every row but `m` is one tick; an event recorded at tick t has ended at t + event_delay. Only
  // torch knows events: the others free at once, as with a single stream.
  std::int64_t event_delay = 0;
  TorchAllocatorOptions torch;
  BfcOptions bfc;
  bool layout = false;  // fills ReplayResult::segments and segment_events; torch only
};

// The allocator after a row, as the columns of torch.cuda.memory_stats():
// allocated_bytes.all.current, reserved_bytes, active_bytes, inactive_split_bytes, segment,
// num_alloc_retries, num_ooms.
struct ReplayState {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t active = 0;
  std::int64_t inactive_split = 0;
  std::int64_t segments = 0;
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
};

// Between two marks.
struct ReplayStep {
  std::int64_t step = 0;
  std::int64_t reserved_at_start = 0;
  std::int64_t allocated_at_start = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
};

struct ReplayedBlock {
  std::int64_t size = 0;
  std::int64_t requested = 0;
  int state = 0;  // 2 allocated, 1 freed and waiting for events, 0 free
};
struct ReplayedSegment {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  bool large = false;
  bool expandable = false;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::vector<ReplayedBlock> blocks;  // by address
};
struct ReplayedSegmentEvent {
  SegmentAction action = SegmentAction::kAlloc;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
};

struct ReplayResult {
  std::int64_t rows = 0;
  TorchStatistics statistics;      // of bfc and ideal: what they have of it
  std::int64_t peak_live_512 = 0;  // live requests rounded to 512 bytes: no allocator needs less
  std::string oom_message;         // of the first failure; empty when there was none
  ReplayState final_state;
  std::optional<SnapshotSummary> snapshot;
  std::vector<ReplayStep> steps;
  std::vector<ReplayedSegment> segments;
  std::vector<ReplayedSegmentEvent> segment_events;
};

}  // namespace tidemark
