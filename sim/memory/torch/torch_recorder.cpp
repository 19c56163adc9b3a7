#include "sim/memory/torch/torch_recorder.hpp"

namespace tidemark {

std::string_view name_of(TorchTraceAction action) {
  if (action < TorchTraceAction::kAlloc) return name_of(static_cast<SegmentAction>(action));
  constexpr std::string_view kNames[] = {"alloc", "free_requested", "free_completed"};
  return kNames[static_cast<int>(action) - static_cast<int>(TorchTraceAction::kAlloc)];
}

// The entries about segments of a call come before that about its block.
Allocation TorchRecorder::keep(BlockId block, const Allocation& allocation) {
  add_segment_events();
  if (allocation.ok) add(TorchTraceAction::kAlloc, block);
  return allocation;
}

void TorchRecorder::add(TorchTraceAction action, BlockId block) {
  const TorchBlock& given = *torch_.given(block);
  entries_.push_back(
      {.action = action, .block = block, .address = given.address, .size = given.requested});
}

void TorchRecorder::add_segment_events() {
  const std::vector<SegmentEvent>& events = torch_.core().segment_events();
  for (; seen_ < events.size(); ++seen_) {
    const SegmentEvent& event = events[seen_];
    entries_.push_back({.action = static_cast<TorchTraceAction>(event.action),
                        .block = {},
                        .address = event.address,
                        .size = event.size});
  }
}

}  // namespace tidemark
