// The torch allocator with a record of everything that it did, as
// torch.cuda.memory._record_memory_history() keeps it. Only for runs whose history is needed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/memory/torch/torch_allocator.hpp"

namespace tidemark {

enum class TorchTraceAction : std::uint8_t {
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOutOfMemory,
  kAlloc,
  kFreeRequested,  // freed by the program
  kFreeCompleted,  // no stream uses it any more
};
// Returns "segment_alloc", ..., "oom", "alloc", "free_requested", "free_completed".
[[nodiscard]] std::string_view name_of(TorchTraceAction action);

struct TorchTraceEntry {
  TorchTraceAction action = TorchTraceAction::kAlloc;
  AllocationId allocation;  // invalid where the entry is about a segment
  Bytes address;            // address; of an out-of-memory: free bytes of the device
  Bytes size;               // size; of an allocation: as requested
};

class TorchRecorder {
 public:
  explicit TorchRecorder(Bytes usable, const TorchAllocatorOptions& options = {}, Bytes taken = {})
      : torch_(usable, options, taken) {
    torch_.record_segment_events(true);
  }

  void reserve(std::size_t allocations) {
    torch_.reserve(allocations);
    deferred_.assign(allocations, 0);
  }
  void use_pool(AllocationId allocation, std::size_t stream) {
    torch_.use_pool(allocation, stream);
  }
  AllocationResult allocate(AllocationId allocation, Bytes bytes) {
    return keep(allocation, torch_.allocate(allocation, bytes));
  }
  AllocationResult allocate_again(AllocationId allocation, Bytes bytes) {
    return keep(allocation, torch_.allocate_again(allocation, bytes));
  }
  void free(AllocationId allocation) {
    if (deferred_[allocation.index()] == 0) add(TorchTraceAction::kFreeRequested, allocation);
    add(TorchTraceAction::kFreeCompleted, allocation);
    deferred_[allocation.index()] = 0;
    torch_.free(allocation);
  }
  void defer_free(AllocationId allocation) {
    add(TorchTraceAction::kFreeRequested, allocation);
    deferred_[allocation.index()] = 1;
    torch_.defer_free(allocation);
  }
  void begin_last_step() { torch_.begin_last_step(); }
  [[nodiscard]] bool is_capturing() const { return torch_.is_capturing(); }
  int release_cached() {
    const int released = torch_.release_cached();
    add_segment_events();
    return released;
  }
  void note_out_of_memory(Bytes bytes) {
    torch_.note_out_of_memory(bytes);
    add_segment_events();
  }
  [[nodiscard]] Bytes allocated() const { return torch_.allocated(); }
  [[nodiscard]] Bytes active() const { return torch_.active(); }
  [[nodiscard]] Bytes reserved() const { return torch_.reserved(); }
  [[nodiscard]] Bytes inactive_split() const { return torch_.inactive_split(); }
  [[nodiscard]] Bytes address(AllocationId allocation) const { return torch_.address(allocation); }
  [[nodiscard]] std::size_t segments() const { return torch_.segments(); }
  [[nodiscard]] const TorchBlock* given(AllocationId allocation) const {
    return torch_.given(allocation);
  }

  [[nodiscard]] const TorchAllocator& torch() const { return torch_; }
  [[nodiscard]] const std::vector<TorchTraceEntry>& entries() const { return entries_; }

 private:
  AllocationResult keep(AllocationId allocation, const AllocationResult& result);
  void add(TorchTraceAction action, AllocationId allocation);
  void add_segment_events();

  TorchAllocator torch_;
  std::vector<char> deferred_;  // whether the free of each allocation is deferred
  std::vector<TorchTraceEntry> entries_;
  std::size_t seen_ = 0;  // segment events that have become entries
};

static_assert(SegmentAllocator<TorchRecorder>);

}  // namespace tidemark
