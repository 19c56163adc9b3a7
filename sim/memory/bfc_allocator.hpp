// The best-fit-with-coalescing allocator of TensorFlow and XLA (tsl/framework/bfc_allocator.cc):
// 256-byte rounding, the smallest adequate free chunk, splitting, joining free neighbours at a
// free, and regions that are taken all at once or grow by doubling.
//
// TensorFlow files free chunks into 21 bins of 256 << bin bytes, sorted by size and then address,
// and looks from the bin of the request upwards: together that is one set in the same order.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <boost/intrusive/set.hpp>

#include "graph/core/decoder.hpp"
#include "sim/memory/allocator.hpp"
#include "sim/memory/block_arena.hpp"
#include "sim/memory/fake_device.hpp"
#include "sim/memory/out_of_memory.hpp"

namespace tidemark {

struct BfcOptions {
  bool allow_growth = false;   // regions double; otherwise the first takes the whole limit
  double memory_fraction = 1;  // share of the device that is the limit (JAX preallocates 0.75)
  double fragmentation_fraction = 0;  // share of the limit: a larger rest is split off; 0: 128 MiB
  bool garbage_collection = true;     // whole free regions go back when nothing fits
};
// Keys of a scenario's `allocator`, under the names above. Throws UserError.
[[nodiscard]] BfcOptions decode_bfc_options(const Decoder& allocator);

struct BfcChunk
    : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>,
                                      boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  Bytes size;
  Bytes address;
  BfcChunk* previous = nullptr;  // neighbours in the region
  BfcChunk* next = nullptr;
  Bytes requested;  // size asked for by the last owner, before rounding
  bool in_use = false;
  bool deferred = false;  // freed by the program, but a stream may still use it
  [[nodiscard]] bool is_region() const { return previous == nullptr && next == nullptr; }
  [[nodiscard]] bool is_free() const { return !in_use && !deferred; }
  [[nodiscard]] bool serves(Bytes /*bytes*/) const { return true; }

  friend bool operator<(const BfcChunk& a, const BfcChunk& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
};

class BfcAllocator {
 public:
  explicit BfcAllocator(Bytes capacity, const BfcOptions& options = {});
  BfcAllocator(const BfcAllocator&) = delete;
  BfcAllocator& operator=(const BfcAllocator&) = delete;

  // The calls by chunk; allocate() returns null when out of memory.
  [[nodiscard]] BfcChunk* allocate(Bytes bytes);
  void free(BfcChunk& chunk);
  void defer_free(BfcChunk& chunk);  // free() follows later

  // The functions of the Allocator concept, by id.
  void reserve(std::size_t allocations);
  AllocationResult allocate(AllocationId allocation, Bytes bytes);
  AllocationResult allocate_again(AllocationId allocation, Bytes bytes) {
    return allocate(allocation, bytes);
  }
  void free(AllocationId allocation) {
    free(*std::exchange(chunk_of_[allocation.index()], nullptr));
  }
  void defer_free(AllocationId allocation) { defer_free(*chunk_of_[allocation.index()]); }
  // Memory goes back only when a request fails, as part of allocate().
  int release_cached() { return 0; }
  [[nodiscard]] Bytes allocated() const { return allocated_; }
  [[nodiscard]] Bytes active() const { return active_; }
  [[nodiscard]] Bytes reserved() const { return device_.used(); }
  [[nodiscard]] Bytes inactive_split() const {
    return device_.used() - active_ - free_region_bytes_;
  }
  [[nodiscard]] Bytes address(AllocationId allocation) const {
    return chunk_of_[allocation.index()]->address;
  }
  [[nodiscard]] std::size_t segments() const { return regions_; }

  // Returns the chunk that an allocation was given; null when it has none.
  [[nodiscard]] const BfcChunk* given(AllocationId allocation) const {
    return chunk_of_[allocation.index()];
  }
  template <class F>
  void for_each_chunk(F&& f) const {
    arena_.for_each(f);
  }
  [[nodiscard]] static Bytes rounded(Bytes bytes);
  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] Bytes device_free() const { return device_.available(); }
  // Returns the limit, where the memory fraction makes it smaller than the device.
  [[nodiscard]] std::optional<Bytes> allowed() const {
    if (options_.memory_fraction >= 1) return std::nullopt;
    return limit_;
  }
  [[nodiscard]] Bytes largest_free() const {
    return free_.empty() ? Bytes(0) : free_.rbegin()->size;
  }
  // Returns the bytes of regions that are one free chunk.
  [[nodiscard]] Bytes free_region_bytes() const { return free_region_bytes_; }
  // Share of the free bytes that are not in the largest free chunk, as TensorFlow reports it.
  [[nodiscard]] double fragmentation() const;

 private:
  using FreeSet = boost::intrusive::set<BfcChunk, boost::intrusive::constant_time_size<false>>;

  [[nodiscard]] BfcChunk* find(Bytes size);
  [[nodiscard]] bool extend(Bytes size);
  [[nodiscard]] bool free_regions(Bytes size);
  void insert_free(BfcChunk& chunk);
  void erase_free(BfcChunk& chunk);
  void split(BfcChunk& chunk, Bytes size);
  void join(BfcChunk& left, BfcChunk& right);

  BfcOptions options_;
  FakeDevice device_;
  Bytes limit_;
  Bytes largest_rest_;  // rest of a chunk that is handed out whole, less one byte
  Bytes next_region_;   // size
  bool has_backed_off_ = false;
  Bytes allocated_;
  Bytes active_;
  std::size_t regions_ = 0;
  Bytes free_region_bytes_;
  BlockArena<BfcChunk> arena_;
  FreeSet free_;
  std::vector<BfcChunk*> chunk_of_;  // chunk of each allocation
};

static_assert(SegmentAllocator<BfcAllocator>);

// Returns a report as out_of_memory.hpp describes it, region by region.
[[nodiscard]] OutOfMemory out_of_memory(const BfcAllocator& allocator, Bytes requested,
                                        std::size_t allocations);

}  // namespace tidemark
