#include "sim/memory/torch/torch_recorder.hpp"

namespace tidemark {

std::string_view name_of(TorchTraceAction action) {
  if (action < TorchTraceAction::kAlloc) return name_of(static_cast<SegmentAction>(action));
  constexpr std::string_view kNames[] = {"alloc", "free_requested", "free_completed"};
  return kNames[static_cast<int>(action) - static_cast<int>(TorchTraceAction::kAlloc)];
}

// Entries of a call about segments come before its entry about the allocation.
AllocationResult TorchRecorder::keep(AllocationId allocation, const AllocationResult& result) {
  add_segment_events();
  if (result.ok) add(TorchTraceAction::kAlloc, allocation);
  return result;
}

void TorchRecorder::add(TorchTraceAction action, AllocationId allocation) {
  const TorchBlock& given = *torch_.given(allocation);
  entries_.push_back({.action = action,
                      .allocation = allocation,
                      .address = given.address,
                      .size = given.requested});
}

void TorchRecorder::add_segment_events() {
  const std::vector<SegmentEvent>& events = torch_.core().segment_events();
  for (; seen_ < events.size(); ++seen_) {
    const SegmentEvent& event = events[seen_];
    entries_.push_back({.action = static_cast<TorchTraceAction>(event.action),
                        .allocation = {},
                        .address = event.address,
                        .size = event.size});
  }
}

}  // namespace tidemark
