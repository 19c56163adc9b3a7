// PyTorch's caching allocator as the engine drives it: allocations by their ids, of the compute
// stream unless said otherwise. The engine waits for events and synchronises itself, since that
// takes simulated time.
#pragma once

#include <vector>

#include "sim/memory/allocator.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark {

class TorchAllocator {
 public:
  // `usable`: bytes that cudaMalloc can hand out to this process; `taken`: other bytes of the
  // device, for its context.
  explicit TorchAllocator(Bytes usable, const TorchAllocatorOptions& options = {}, Bytes taken = {})
      : core_(usable + taken, options, taken),
        stream_(core_.stream(0)),
        captures_(options.cuda_graph) {}

  void reserve(std::size_t allocations) {
    core_.reserve(allocations);
    blocks_.assign(allocations, nullptr);
    deferred_.assign(allocations, 0);
    other_stream_.clear();
  }
  // Makes an allocation to come from the pool of another stream than compute's; `stream` counts
  // from 1. Called after reserve().
  void use_pool(AllocationId allocation, std::size_t stream) {
    other_stream_.resize(blocks_.size(), 0);
    other_stream_[allocation.index()] = core_.stream(static_cast<std::int64_t>(stream));
  }
  AllocationResult allocate(AllocationId allocation, Bytes bytes) {
    return keep(allocation,
                [&] { return core_.allocate_without_retry(bytes, stream_of(allocation)); });
  }
  // Asks only the device; called after release_cached().
  AllocationResult allocate_again(AllocationId allocation, Bytes bytes) {
    return keep(allocation, [&] { return core_.allocate_again(bytes, stream_of(allocation)); });
  }
  void free(AllocationId allocation) {
    TorchBlock& b = *blocks_[allocation.index()];
    blocks_[allocation.index()] = nullptr;
    if (deferred_[allocation.index()] != 0) {
      deferred_[allocation.index()] = 0;
      core_.finish_free(b);
    } else {
      core_.free(b);
    }
  }
  void defer_free(AllocationId allocation) {
    deferred_[allocation.index()] = 1;
    core_.defer_free(*blocks_[allocation.index()]);
  }
  // Memory that is allocated from this call on is captured where options.cuda_graph is set.
  void begin_last_step() {
    if (captures_) stream_ = core_.begin_capture(stream_);
  }
  [[nodiscard]] bool captures() const { return captures_; }
  // Whether a CUDA graph is captured; then there is neither a retry nor a look at events.
  [[nodiscard]] bool is_capturing() const { return core_.is_capturing(); }
  int release_cached() {
    const std::int64_t before = core_.device().frees();
    core_.release_cached();
    return static_cast<int>(core_.device().frees() - before);
  }
  // Fills core().out_of_memory() with the figures of PyTorch's error, after the last retry.
  void note_out_of_memory(Bytes bytes) { core_.note_out_of_memory(bytes, stream_); }
  [[nodiscard]] Bytes allocated() const { return core_.statistics().allocated_bytes.all.current; }
  [[nodiscard]] Bytes active() const { return core_.statistics().active_bytes.all.current; }
  [[nodiscard]] Bytes reserved() const { return core_.statistics().reserved_bytes.all.current; }
  [[nodiscard]] Bytes inactive_split() const { return core_.inactive_bytes(); }
  [[nodiscard]] Bytes address(AllocationId allocation) const {
    return blocks_[allocation.index()]->address;
  }
  [[nodiscard]] std::size_t segments() const {
    return static_cast<std::size_t>(core_.statistics().segment.all.current);
  }
  void record_segment_events(bool on) { core_.record_segment_events(on); }
  [[nodiscard]] const TorchCachingAllocator& core() const { return core_; }
  [[nodiscard]] TorchStream stream() const { return stream_; }
  // Returns the piece that an allocation was given; null when it has none. An allocation that waits
  // for events still has its piece.
  [[nodiscard]] const TorchBlock* given(AllocationId allocation) const {
    return blocks_[allocation.index()];
  }

 private:
  [[nodiscard]] TorchStream stream_of(AllocationId allocation) const {
    if (other_stream_.empty() || other_stream_[allocation.index()] == 0) return stream_;
    return other_stream_[allocation.index()];
  }
  template <class F>
  AllocationResult keep(AllocationId allocation, F&& allocate) {
    const std::int64_t mallocs = core_.device().mallocs();
    const std::int64_t frees = core_.device().frees();
    TorchBlock* got = allocate();
    blocks_[allocation.index()] = got;
    return {.ok = got != nullptr,
            .device_mallocs = static_cast<int>(core_.device().mallocs() - mallocs),
            .device_frees = static_cast<int>(core_.device().frees() - frees)};
  }

  TorchCachingAllocator core_;
  TorchStream stream_;
  bool captures_;
  std::vector<TorchBlock*> blocks_;  // block of each id
  std::vector<char> deferred_;       // by id: freed, but a stream may still use it
  // by id: the stream whose pool it comes from where that is not compute's; empty where none does
  std::vector<TorchStream> other_stream_;
};

static_assert(SegmentAllocator<TorchAllocator>);

// Returns a report as out_of_memory.hpp describes it, with PyTorch's own words.
[[nodiscard]] OutOfMemory out_of_memory(const TorchAllocator& allocator, Bytes requested,
                                        std::size_t allocations);

}  // namespace tidemark
