// PyTorch's CUDA caching allocator, rule for rule as of 2.4 (c10/cuda/CUDACachingAllocator.cpp):
// pools per stream, segments, best fit, splitting and coalescing, expandable segments, frees that
// wait for events of other streams, garbage collection, the retries before it gives up, and private
// pools of CUDA graphs. Not modelled: cudaMallocAsync, cuMem sharing between devices, graphs that
// are destroyed before the end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/memory/block_arena.hpp"
#include "sim/memory/fake_device.hpp"
#include "sim/memory/torch/torch_block.hpp"
#include "sim/memory/torch/torch_free_blocks.hpp"
#include "sim/memory/torch/torch_options.hpp"
#include "sim/memory/torch/torch_statistics.hpp"

namespace tidemark {

// The progress of a stream: the caller moves both, the allocator records events at `issued` and
// finds them ended once `ended` has reached them. Any monotonic measure will do.
struct StreamTimeline {
  std::int64_t issued = 0;
  std::int64_t ended = 0;
};

enum class SegmentAction : std::uint8_t { kAlloc, kFree, kMap, kUnmap, kOutOfMemory };
[[nodiscard]] std::string_view name_of(SegmentAction action);  // for example "segment_alloc", "oom"

struct SegmentEvent {
  SegmentAction action = SegmentAction::kAlloc;
  Bytes address;  // address; of an out-of-memory: free bytes of the device
  Bytes size;
  TorchStream stream = 0;
};

// The figures of an out-of-memory error.
struct TorchOutOfMemory {
  Bytes segment;  // asked of the device
  Bytes capacity;
  Bytes device_free;
  std::optional<Bytes> allowed;  // limit by the memory fraction
  Bytes allocated;
  Bytes reserved;
  Bytes private_pools;  // free blocks of private pools, which the text calls allocated
};
// Returns the text of torch.cuda.OutOfMemoryError for device 0.
[[nodiscard]] std::string message_of(const TorchOutOfMemory& failure);
// Returns "512 bytes", "20.00 MiB", as the error writes sizes.
[[nodiscard]] std::string torch_size(Bytes bytes);

// Contiguous memory that the device gave: a segment, or a mapped run of an expandable range.
struct TorchSegment {
  Bytes address;
  Bytes size;
  TorchStream stream = 0;
  bool large = false;
  bool expandable = false;
  Bytes allocated;
  Bytes active;
  std::vector<const TorchBlock*> blocks;  // blocks sorted by address
};

class TorchCachingAllocator {
 public:
  // PyTorch refuses larger requests before it looks at its pools.
  static constexpr Bytes kLargestRequest{(std::int64_t{1} << 60) - 1};

  // `taken` bytes of the device's `capacity` are not available to PyTorch: its context, other
  // processes.
  TorchCachingAllocator(Bytes capacity, const TorchAllocatorOptions& options, Bytes taken = {});
  TorchCachingAllocator(const TorchCachingAllocator&) = delete;
  TorchCachingAllocator& operator=(const TorchCachingAllocator&) = delete;

  // Makes room for this many blocks at once; until there are more, nothing below allocates host
  // memory (recorded segment events apart).
  void reserve(std::size_t blocks);
  // Returns the stream with this handle; pools are searched in the order of handles.
  [[nodiscard]] TorchStream stream(std::int64_t handle);
  // Creates a pool for what a CUDA graph captures on a stream, in the place of that stream. It
  // keeps its segments, since the graph refers to their addresses. From this call on a graph is
  // being captured: nothing is released, and events are not looked at.
  [[nodiscard]] TorchStream begin_capture(TorchStream stream);
  [[nodiscard]] bool is_capturing() const { return capturing_; }
  [[nodiscard]] bool is_private(TorchStream stream) const { return streams_[stream]->is_private; }
  [[nodiscard]] std::int64_t handle(TorchStream stream) const { return streams_[stream]->handle; }
  [[nodiscard]] StreamTimeline& timeline(TorchStream stream) { return streams_[stream]->timeline; }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }

  // Returns null when out of memory; out_of_memory() then says why. A request has at least one byte
  // and at most kLargestRequest.
  [[nodiscard]] TorchBlock* allocate(Bytes bytes, TorchStream stream);
  void record_stream(TorchBlock& block, TorchStream stream);
  // Frees a block, which stays active until every stream that recorded it has passed this moment.
  void free(TorchBlock& block);
  // Waits for all events and gives back every whole free segment, as torch.cuda.empty_cache() does.
  void empty_cache();

  // Callers that wait for events themselves, because waiting takes their time, use these:
  // all of allocate() but the last retry, which is `release_cached` and `allocate_again`.
  [[nodiscard]] TorchBlock* allocate_without_retry(Bytes bytes, TorchStream stream);
  [[nodiscard]] TorchBlock* allocate_again(Bytes bytes, TorchStream stream);
  void release_cached();
  void note_out_of_memory(Bytes bytes, TorchStream stream);
  // The two halves of free(): the owner releases the block; later, no stream uses it any more.
  void defer_free(TorchBlock& block);
  void finish_free(TorchBlock& block) { event_passed(block); }

  [[nodiscard]] const TorchStatistics& statistics() const { return statistics_; }
  [[nodiscard]] const TorchOutOfMemory& out_of_memory() const { return out_of_memory_; }
  [[nodiscard]] const FakeDevice& device() const { return device_; }
  [[nodiscard]] bool events_pending() const { return events_ > 0; }
  void record_segment_events(bool on) { records_segment_events_ = on; }
  [[nodiscard]] const std::vector<SegmentEvent>& segment_events() const { return segment_events_; }
  [[nodiscard]] std::vector<TorchSegment> segments() const;  // sorted by address

  // Returns the free bytes that release_cached() could not give back: inactive_split_bytes and, in
  // expandable ranges, which that statistic leaves out, free memory that shares a page with a block
  // in use.
  [[nodiscard]] Bytes inactive_bytes() const;
  // Returns the largest free block that a request of this size could be given without new memory;
  // 0 bytes: none.
  [[nodiscard]] Bytes largest_free(Bytes bytes, TorchStream stream) const;

  [[nodiscard]] Bytes rounded(Bytes bytes) const;
  // Returns the bytes asked of the device for a rounded size.
  [[nodiscard]] static Bytes segment_size(Bytes size);

 private:
  static constexpr std::size_t kSpareBlocks = 64;
  static constexpr std::uint32_t kNoLink = 0;

  using UnmappedSet = boost::intrusive::set<TorchBlock, boost::intrusive::compare<TorchByAddress>,
                                            boost::intrusive::constant_time_size<false>>;

  // The blocks of one size class on one stream.
  struct Pool {
    TorchFreeBlocks free;
    UnmappedSet unmapped;  // address space of expandable ranges without memory
  };
  struct Stream {
    std::int64_t handle = 0;
    bool is_private = false;  // the pool of a CUDA graph; not in by_handle_
    StreamTimeline timeline;
    std::array<Pool, 2> pools;  // small, large
    std::uint32_t first_event = kNoLink;
    std::uint32_t last_event = kNoLink;
  };
  // A stream that uses a block; after the free, the event in the queue of that stream.
  struct Link {
    TorchBlock* block = nullptr;
    std::int64_t event = 0;
    TorchStream stream = 0;
    std::uint32_t next = kNoLink;
  };
  struct Request {
    Bytes bytes;
    Bytes size;
    Bytes segment;
    TorchStream stream = 0;
    bool large = false;
  };

  [[nodiscard]] Pool& pool_of(const TorchBlock& block) {
    return streams_[block.stream]->pools[block.large ? 1 : 0];
  }
  [[nodiscard]] Request request_for(Bytes bytes, TorchStream stream) const;
  [[nodiscard]] TorchBlock* find_free(const Request& request);
  [[nodiscard]] TorchBlock* new_segment(const Request& request);
  [[nodiscard]] bool should_split(const TorchBlock& block, Bytes size) const;
  TorchBlock* hand_out(const Request& request, TorchBlock* block, bool pooled);
  void begin_free(TorchBlock& block);
  void complete_free(TorchBlock& block);
  void insert_free(TorchBlock& block);
  void take_from_pool(TorchBlock& block);
  void move_free(TorchBlock& block);
  [[nodiscard]] static bool joins(const TorchBlock* neighbour);
  void merge(TorchBlock& into, TorchBlock* neighbour);
  void absorb(TorchBlock& into, TorchBlock& neighbour);

  // Events.
  void insert_events(TorchBlock& block);
  void process_events();
  void finish_all_events();
  void event_passed(TorchBlock& block);
  [[nodiscard]] std::uint32_t new_link(const Link& link);
  void unlink(std::uint32_t link);

  // Memory given back to the device.
  void collect_garbage();
  [[nodiscard]] bool release_available(const Request& request);
  void release_pool(Pool& pool);
  void release_segment(TorchBlock& block);

  // Expandable segments.
  [[nodiscard]] TorchBlock* expand(const Request& request);
  [[nodiscard]] TorchBlock* find_expandable(const Request& request);
  [[nodiscard]] bool map(TorchBlock& block, Bytes bytes);
  void unmap(TorchBlock& block);
  void release_range(TorchBlock& block);
  TorchBlock* new_block_between(TorchBlock* previous, TorchBlock* next, const TorchBlock& like);

  void note(SegmentAction action, Bytes address, Bytes size, TorchStream stream);

  TorchAllocatorOptions options_;
  FakeDevice device_;
  Bytes allowed_;  // most that may be reserved
  bool rounds_to_divisions_;
  bool collects_garbage_;
  bool records_segment_events_ = false;
  bool capturing_ = false;
  TorchStatistics statistics_;
  TorchOutOfMemory out_of_memory_;
  BlockArena<TorchBlock> arena_;
  std::vector<std::unique_ptr<Stream>> streams_;  // users of a timeline keep its address
  std::vector<TorchStream> by_handle_;
  std::vector<Link> links_{1};  // entry 0 stands for none
  std::uint32_t unused_links_ = kNoLink;
  std::size_t events_ = 0;
  std::array<std::uint64_t, 2> searches_{};  // small, large; over all streams
  std::vector<TorchBlock*> to_unmap_;
  std::vector<SegmentEvent> segment_events_;
};

}  // namespace tidemark
