// The allocators as a trace drives them. Each has
//   Handle allocate(bytes, stream)   a null handle when out of memory
//   free(handle), record_stream(handle, stream), empty_cache(), address(handle)
//   defer_free(handle), finish_free(handle, number)   a free whose end the trace tells, and the
//                                             number that defer_free() has given it
//   tick()                           one row further
//   state(), finish(result)
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/torch/torch_caching_allocator.hpp"
#include "sim/memory/trace/replay_result.hpp"

namespace tidemark {

class TorchTarget {
 public:
  using Handle = TorchBlock*;

  explicit TorchTarget(const ReplayOptions& options)
      : torch_(options.capacity, options.torch), delay_(options.event_delay) {
    torch_.record_segment_events(options.layout);
  }

  void tick() { ++now_; }
  Handle allocate(Bytes bytes, std::int64_t stream) {
    if (bytes > TorchCachingAllocator::kLargestRequest) return refuse();
    const TorchStream s = stream_of(stream);
    if (torch_.events_pending()) move_clock();
    Handle block = waiting_.empty() ? torch_.allocate(bytes, s) : allocate_with_waiting(bytes, s);
    if (block == nullptr && message_.empty()) message_ = message_of(torch_.out_of_memory());
    return block;
  }
  void free(Handle block) {
    if (block->uses != 0) move_clock();
    torch_.free(*block);
  }
  std::uint64_t defer_free(Handle block) {
    torch_.defer_free(*block);
    waiting_.emplace(deferred_, block);
    return deferred_++;
  }
  // A retry may have ended the free before the trace says so, and the block is another's then.
  void finish_free(Handle block, std::uint64_t number) {
    if (waiting_.erase(number) > 0) torch_.finish_free(*block);
  }
  void record_stream(Handle block, std::int64_t stream) {
    torch_.record_stream(*block, stream_of(stream));
  }
  void empty_cache() {
    finish_waiting();
    torch_.empty_cache();
  }
  [[nodiscard]] static Bytes address(Handle block) { return block->address; }
  [[nodiscard]] ReplayState state() const {
    const TorchStatistics& s = torch_.statistics();
    return {.allocated = s.allocated_bytes.all.current,
            .reserved = s.reserved_bytes.all.current,
            .active = s.active_bytes.all.current,
            .inactive_split = s.inactive_split_bytes.all.current,
            .segments = s.segment.all.current,
            .retries = s.num_alloc_retries,
            .ooms = s.num_ooms};
  }
  void finish(ReplayResult& result, bool layout) const;

 private:
  [[nodiscard]] TorchStream stream_of(std::int64_t handle) {
    if (handle != last_handle_) {
      last_handle_ = handle;
      last_stream_ = torch_.stream(handle);
    }
    return last_stream_;
  }
  // Events are recorded and looked at only now and then, so the streams' clocks move only then.
  void move_clock() {
    for (TorchStream s = 0; s < torch_.streams(); ++s) {
      torch_.timeline(s) = {.issued = now_, .ended = now_ - delay_};
    }
  }
  // The synchronisation before a retry ends what the deferred frees wait for.
  void finish_waiting() {
    for (const auto& [number, block] : waiting_)
      torch_.finish_free(*block);
    waiting_.clear();
  }
  Handle allocate_with_waiting(Bytes bytes, TorchStream stream) {
    Handle block = torch_.allocate_without_retry(bytes, stream);
    if (block != nullptr) return block;
    empty_cache();
    block = torch_.allocate_again(bytes, stream);
    if (block == nullptr) torch_.note_out_of_memory(bytes, stream);
    return block;
  }
  Handle refuse() {
    if (message_.empty()) message_ = "CUDA out of memory. Tried to allocate more than 1EB memory.";
    return nullptr;
  }

  TorchCachingAllocator torch_;
  std::int64_t delay_;
  std::int64_t now_ = 0;
  std::int64_t last_handle_ = -1;
  TorchStream last_stream_ = 0;
  std::uint64_t deferred_ = 0;               // number of the next free that waits
  std::map<std::uint64_t, Handle> waiting_;  // by number: freed, but a stream may still use them
  std::string message_;
};

// Statistics of an allocator that keeps none, taken after each row.
struct SampledStatistics {
  TorchStatistics statistics;
  ReplayState last;

  // `requested` is the change of the live requests; negative for a free.
  void sample(const ReplayState& state, Bytes requested);
};

class BfcTarget {
 public:
  using Handle = BfcChunk*;

  explicit BfcTarget(const ReplayOptions& options) : bfc_(options.capacity, options.bfc) {}

  void tick() {}
  Handle allocate(Bytes bytes, std::int64_t /*stream*/) {
    Handle chunk = bytes > TorchCachingAllocator::kLargestRequest ? nullptr : bfc_.allocate(bytes);
    if (chunk == nullptr) note_failure(bytes);
    sampled_.sample(state(), chunk == nullptr ? Bytes(0) : bytes);
    return chunk;
  }
  void free(Handle chunk) {
    const Bytes requested = chunk->requested;
    bfc_.free(*chunk);
    sampled_.sample(state(), -requested);
  }
  std::uint64_t defer_free(Handle chunk) {
    bfc_.defer_free(*chunk);
    return 0;
  }
  void finish_free(Handle chunk, std::uint64_t /*number*/) { free(chunk); }
  void record_stream(Handle /*chunk*/, std::int64_t /*stream*/) {}
  void empty_cache() {}
  [[nodiscard]] static Bytes address(Handle chunk) { return chunk->address; }
  [[nodiscard]] ReplayState state() const {
    return {.allocated = bfc_.allocated(),
            .reserved = bfc_.reserved(),
            .active = bfc_.active(),
            .inactive_split = bfc_.inactive_split(),
            .segments = static_cast<std::int64_t>(bfc_.segments()),
            .retries = 0,
            .ooms = ooms_};
  }
  void finish(ReplayResult& result, bool layout) const;

 private:
  void note_failure(Bytes bytes);

  BfcAllocator bfc_;
  std::int64_t ooms_ = 0;
  std::string message_;
  SampledStatistics sampled_;
};

// Counts live bytes.
class IdealTarget {
 public:
  // Sizes, by slot; 0 is the null handle.
  using Handle = std::size_t;

  explicit IdealTarget(const ReplayOptions& options) : capacity_(options.capacity) {}

  void tick() {}
  Handle allocate(Bytes bytes, std::int64_t /*stream*/);
  void free(Handle slot) {
    live_ -= sizes_[slot];
    unused_.push_back(slot);
    sampled_.sample(state(), -sizes_[slot]);
  }
  std::uint64_t defer_free(Handle slot) {
    free(slot);
    return 0;
  }
  void finish_free(Handle /*slot*/, std::uint64_t /*number*/) {}
  void record_stream(Handle /*slot*/, std::int64_t /*stream*/) {}
  void empty_cache() {}
  [[nodiscard]] static Bytes address(Handle /*slot*/) { return Bytes(-1); }
  [[nodiscard]] ReplayState state() const {
    return {.allocated = live_, .reserved = live_, .active = live_, .ooms = ooms_};
  }
  void finish(ReplayResult& result, bool layout) const;

 private:
  Bytes capacity_;
  Bytes live_;
  std::int64_t ooms_ = 0;
  std::string message_;
  std::vector<Bytes> sizes_{Bytes(1)};
  std::vector<Handle> unused_;
  SampledStatistics sampled_;
};

}  // namespace tidemark
