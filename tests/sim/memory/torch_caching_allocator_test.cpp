#include "sim/memory/torch/torch_caching_allocator.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace tidemark::torch_caching_allocator_test {

namespace {

constexpr Bytes kMebi = kMiB;
constexpr Bytes kRoomy = 80 * kGiB;

// An allocator with the stream 0.
struct Torch : TorchCachingAllocator {
  TorchStream zero;
  explicit Torch(std::string_view conf = "", Bytes capacity = kRoomy,
                 std::optional<double> fraction = std::nullopt)
      : TorchCachingAllocator(capacity, with(parse_alloc_conf(conf), fraction)), zero(stream(0)) {
    record_segment_events(true);
  }
  static TorchAllocatorOptions with(TorchAllocatorOptions options, std::optional<double> fraction) {
    options.memory_fraction = fraction;
    return options;
  }
  TorchBlock* get(Bytes bytes) { return allocate(bytes, zero); }
  [[nodiscard]] Bytes reserved() const { return statistics().reserved_bytes.all.current; }
  [[nodiscard]] Bytes allocated() const { return statistics().allocated_bytes.all.current; }
  [[nodiscard]] Bytes active() const { return statistics().active_bytes.all.current; }
  [[nodiscard]] Bytes split() const { return statistics().inactive_split_bytes.all.current; }
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("sizes round up to 512 bytes") {
    const Torch torch;
    CHECK(torch.rounded(Bytes(1)) == Bytes(512));
    CHECK(torch.rounded(Bytes(512)) == Bytes(512));
    CHECK(torch.rounded(Bytes(513)) == Bytes(1024));
    CHECK(torch.rounded(kMebi + Bytes(1)) == kMebi + Bytes(512));
  }

  TEST_CASE("with four divisions sizes round up to quarters of a power of two") {
    const Torch torch("roundup_power2_divisions:4");
    CHECK(torch.rounded(Bytes(1200)) == Bytes(1536));    // not above 4 * 512: to 512 as ever
    CHECK(torch.rounded(Bytes(2048)) == Bytes(2048));    // a power of two stays
    CHECK(torch.rounded(Bytes(2049)) == Bytes(2560));    // 2048, 2560, 3072, 3584, 4096
    CHECK(torch.rounded(1000 * kMebi) == 1024 * kMebi);  // 512, 640, 768, 896, 1024
    CHECK(torch.rounded(1200 * kMebi) == 1280 * kMebi);
  }

  TEST_CASE("divisions differ by interval: the first key reaches down, '>' reaches up") {
    const Torch torch("roundup_power2_divisions:[256:1,512:2,>:4]");
    CHECK(torch.rounded(100 * kMebi + Bytes(1)) ==
          100 * kMebi + Bytes(512));  // below 256 MiB: one division
    CHECK(torch.rounded(300 * kMebi + Bytes(1)) ==
          300 * kMebi + Bytes(512));  // 256..512 MiB: one division
    // '>' starts at the last key, 512 MiB, itself: quarters of 512 MiB, not halves.
    CHECK(torch.rounded(600 * kMebi) == 640 * kMebi);
    CHECK(torch.rounded(3000 * kMebi) == 3072 * kMebi);
  }

  TEST_CASE("intervals that nobody mentions round to 512 bytes") {
    const Torch torch("roundup_power2_divisions:[1:8,4:8]");
    CHECK(torch.rounded(1100 * kKiB) == 1152 * kKiB);  // 1 MiB in eighths of 128 KiB
    CHECK(torch.rounded(2 * kMebi + Bytes(1)) ==
          2 * kMebi + Bytes(512));  // 2..4 MiB: between the keys
    CHECK(torch.rounded(4 * kMebi + Bytes(1)) == 4 * kMebi + kMebi / 2);
    CHECK(torch.rounded(8 * kMebi + Bytes(1)) == 8 * kMebi + Bytes(512));
  }

  TEST_CASE("segments are 2 MiB, 20 MiB, or the request rounded up to 2 MiB") {
    CHECK(TorchCachingAllocator::segment_size(kMebi) == 2 * kMebi);
    CHECK(TorchCachingAllocator::segment_size(kMebi + Bytes(512)) == 20 * kMebi);
    CHECK(TorchCachingAllocator::segment_size(10 * kMebi - Bytes(512)) == 20 * kMebi);
    CHECK(TorchCachingAllocator::segment_size(10 * kMebi) == 10 * kMebi);
    CHECK(TorchCachingAllocator::segment_size(11 * kMebi) == 12 * kMebi);
  }

  TEST_CASE("the front of a block is handed out and the tail stays free") {
    Torch torch;
    const TorchBlock* a = torch.get(Bytes(1000));
    const TorchBlock* b = torch.get(Bytes(1000));
    CHECK(a->address == Bytes(0));
    CHECK(b->address == Bytes(1024));
    CHECK(torch.reserved() == 2 * kMebi);
    CHECK(torch.split() == 2 * kMebi - Bytes(2048));
  }

  TEST_CASE("a large tail of up to 1 MiB is not split off and counts as allocated") {
    Torch torch;
    static_cast<void>(torch.get(11 * kMebi));  // a segment of 12 MiB: exactly 1 MiB is left
    CHECK(torch.allocated() == 12 * kMebi);
    CHECK(torch.split() == Bytes(0));
    static_cast<void>(torch.get(11 * kMebi - Bytes(512)));  // 1 MiB and 512 bytes are left
    CHECK(torch.allocated() == 23 * kMebi - Bytes(512));
    CHECK(torch.split() == kMebi + Bytes(512));
  }

  TEST_CASE("a freed block joins free neighbours of its segment, not of the next") {
    Torch torch;
    std::vector<TorchBlock*> blocks;
    for (int i = 0; i < 4; ++i)
      blocks.push_back(torch.get(kMebi));  // two segments of 2 MiB
    CHECK(torch.statistics().segment.all.current == 2);
    torch.free(*blocks[1]);
    torch.free(*blocks[2]);
    CHECK(torch.statistics().inactive_split.all.current == 2);
    CHECK(torch.split() == 2 * kMebi);
    torch.free(*blocks[0]);  // joins the second half: a whole segment again
    CHECK(torch.statistics().inactive_split.all.current == 1);
    CHECK(torch.split() == kMebi);
    REQUIRE(torch.segments().size() == 2);
    CHECK(torch.segments()[0].blocks.size() == 1);
    CHECK(torch.segments()[1].blocks.size() == 2);
  }

  TEST_CASE("of equal blocks the one at the lower address is taken, of others the smallest") {
    Torch torch;
    TorchBlock* a = torch.get(30 * kMebi);
    TorchBlock* b = torch.get(20 * kMebi);
    TorchBlock* c = torch.get(20 * kMebi);
    for (TorchBlock* block : {c, a, b})
      torch.free(*block);
    CHECK(torch.get(15 * kMebi)->address == 30 * kMebi);  // b, not c
    CHECK(torch.get(18 * kMebi)->address == 50 * kMebi);  // c, not a
  }

  TEST_CASE("streams do not share free blocks") {
    Torch torch;
    const TorchStream side = torch.stream(7);
    torch.free(*torch.get(20 * kMebi));
    CHECK(torch.allocate(20 * kMebi, side)->address == 20 * kMebi);
    CHECK(torch.reserved() == 40 * kMebi);
  }

  TEST_CASE(
      "a block that another stream has recorded waits until that stream has passed its free") {
    Torch torch;
    const TorchStream side = torch.stream(1);
    TorchBlock* block = torch.get(20 * kMebi);
    torch.record_stream(*block, torch.zero);  // its own stream: nothing to wait for
    torch.record_stream(*block, side);
    torch.record_stream(*block, side);
    torch.timeline(side) = {.issued = 10, .ended = 4};
    torch.free(*block);
    CHECK(torch.allocated() == Bytes(0));  // drops at once
    CHECK(torch.active() == 20 * kMebi);
    torch.timeline(side) = {.issued = 12, .ended = 9};
    CHECK(torch.get(20 * kMebi)->address == 20 * kMebi);  // still in use: another segment
    torch.timeline(side).ended = 10;
    CHECK(torch.active() == 40 * kMebi);  // no request has looked at the events yet
    CHECK(torch.get(20 * kMebi)->address == Bytes(0));
    CHECK(torch.reserved() == 40 * kMebi);
  }

  TEST_CASE("a block waits for every stream that has recorded it") {
    Torch torch;
    const TorchStream first = torch.stream(1);
    const TorchStream second = torch.stream(2);
    TorchBlock* block = torch.get(20 * kMebi);
    torch.record_stream(*block, first);
    torch.record_stream(*block, second);
    torch.timeline(first) = {.issued = 5, .ended = 0};
    torch.timeline(second) = {.issued = 7, .ended = 0};
    torch.free(*block);
    torch.timeline(first).ended = 5;
    CHECK(torch.get(20 * kMebi)->address == 20 * kMebi);
    torch.timeline(second).ended = 7;
    CHECK(torch.get(20 * kMebi)->address == Bytes(0));
  }

  TEST_CASE("empty_cache waits for events and frees every segment without a block in use") {
    Torch torch;
    const TorchStream side = torch.stream(1);
    TorchBlock* waiting = torch.get(20 * kMebi);
    torch.record_stream(*waiting, side);
    torch.timeline(side) = {.issued = 1, .ended = 0};
    torch.free(*waiting);
    TorchBlock* half = torch.get(kMebi);
    torch.free(*torch.get(30 * kMebi));
    torch.empty_cache();
    CHECK(torch.reserved() == 2 * kMebi);  // the small segment has a block in use
    CHECK(torch.statistics().num_sync_all_streams == 1);
    CHECK(torch.statistics().num_device_free == 2);
    torch.free(*half);
    torch.empty_cache();
    CHECK(torch.reserved() == Bytes(0));
  }

  TEST_CASE("a failing request frees the cache and retries") {
    Torch torch("", 64 * kMebi);
    torch.free(*torch.get(40 * kMebi));
    CHECK(torch.get(60 * kMebi) != nullptr);
    CHECK(torch.statistics().num_alloc_retries == 1);
    CHECK(torch.statistics().num_ooms == 0);
    CHECK(torch.reserved() == 60 * kMebi);
  }

  TEST_CASE("out of memory tells the segment that was asked for, as PyTorch's message does") {
    Torch torch("", 64 * kMebi);
    static_cast<void>(torch.get(31 * kMebi));
    CHECK(torch.get(39 * kMebi) == nullptr);
    CHECK(torch.statistics().num_alloc_retries == 1);
    CHECK(torch.statistics().num_ooms == 1);
    const SegmentEvent& last = torch.segment_events().back();
    CHECK(name_of(last.action) == "oom");
    CHECK(last.address == 32 * kMebi);  // free on the device
    CHECK(last.size == 39 * kMebi);     // the rounded request
    CHECK(message_of(torch.out_of_memory())
              .starts_with("CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total "
                           "capacity of 64.00 MiB "
                           "of which 32.00 MiB is free. Of the allocated memory 32.00 MiB is "
                           "allocated by PyTorch, "
                           "and 0 bytes is reserved by PyTorch but unallocated."));
  }

  TEST_CASE("with max_split_size larger blocks are never split and small requests leave them be") {
    Torch torch("max_split_size_mb:32");
    torch.free(*torch.get(100 * kMebi));
    CHECK(torch.get(12 * kMebi)->address == 100 * kMebi);  // not from the oversize block
    const TorchBlock* whole = torch.get(81 * kMebi);       // less than 20 MiB are wasted
    CHECK(whole->address == Bytes(0));
    CHECK(whole->size == 100 * kMebi);
    CHECK(torch.statistics().oversize_allocations.current == 1);
  }

  TEST_CASE("an oversize block does not serve a request 20 MiB smaller") {
    Torch torch("max_split_size_mb:32");
    torch.free(*torch.get(100 * kMebi));
    CHECK(torch.get(80 * kMebi)->address == 100 * kMebi);
    CHECK(torch.get(80 * kMebi + Bytes(512))->address == Bytes(0));
  }

  TEST_CASE("before a retry, oversize blocks that are large enough are freed, no others") {
    Torch torch("max_split_size_mb:32", 200 * kMebi);
    TorchBlock* a = torch.get(60 * kMebi);
    TorchBlock* b = torch.get(50 * kMebi);
    TorchBlock* c = torch.get(40 * kMebi);
    TorchBlock* small = torch.get(12 * kMebi);
    for (TorchBlock* block : {a, b, c, small})
      torch.free(*block);
    // 162 MiB are reserved. None of the blocks has 100 MiB: the largest go until 100 are freed.
    CHECK(torch.get(100 * kMebi) != nullptr);
    CHECK(torch.statistics().num_alloc_retries == 0);
    CHECK(torch.statistics().num_device_free == 2);
    CHECK(torch.reserved() == (100 + 40 + 12) * kMebi);
  }

  TEST_CASE("a memory fraction limits what is reserved, down to whole bytes") {
    Torch torch("", 100 * kMebi, 0.5);
    CHECK(torch.get(50 * kMebi) != nullptr);
    CHECK(torch.get(Bytes(1)) == nullptr);
    CHECK(message_of(torch.out_of_memory()).find("50.00 MiB is free. 50.00 MiB allowed; Of the") !=
          std::string::npos);
  }

  TEST_CASE("garbage collection frees the segments that were not used for longest") {
    Torch torch("garbage_collection_threshold:0.5", 100 * kMebi, 1.0);
    TorchBlock* old = torch.get(20 * kMebi);
    TorchBlock* recent = torch.get(30 * kMebi);
    torch.free(*old);
    for (int i = 0; i < 8; ++i)
      torch.free(*torch.get(12 * kMebi));  // takes a part of `old`
    torch.free(*recent);
    TorchBlock* more = torch.get(40 * kMebi);  // 50 MiB are reserved: not above the threshold
    CHECK(torch.statistics().num_device_free == 0);
    torch.free(*more);
    // 90 MiB are reserved and 40 too many. The pool has been searched 12 times with this request;
    // since it became free, `old` has seen 2 searches, `recent` 2, `more` 1. Their average is 5/3:
    // `old` and `recent` go, which reclaims 50.
    CHECK(torch.get(41 * kMebi) != nullptr);
    CHECK(torch.statistics().num_device_free == 2);
    CHECK(torch.statistics().num_alloc_retries == 0);
    CHECK(torch.reserved() == (40 + 42) * kMebi);
  }

  TEST_CASE("an expandable segment maps pages of 20 MiB as it grows") {
    Torch torch("expandable_segments:True");
    const TorchBlock* a = torch.get(15 * kMebi);
    CHECK(torch.reserved() == 20 * kMebi);
    const TorchBlock* b = torch.get(10 * kMebi);  // 5 MiB are free before it, 5 more are needed
    CHECK(a->address == Bytes(0));
    CHECK(b->address == 15 * kMebi);
    CHECK(torch.reserved() == 40 * kMebi);
    CHECK(torch.statistics().segment.all.current == 0);
    CHECK(torch.split() == Bytes(0));
    REQUIRE(torch.segments().size() == 1);
    CHECK(torch.segments()[0].size == 40 * kMebi);
  }

  TEST_CASE("emptying the cache unmaps whole pages and keeps the rest of a free block") {
    Torch torch("expandable_segments:True");
    TorchBlock* a = torch.get(15 * kMebi);
    TorchBlock* b = torch.get(50 * kMebi);     // 15..65 MiB; pages reach to 80
    static_cast<void>(torch.get(15 * kMebi));  // 65..80
    torch.free(*b);
    torch.empty_cache();  // the pages 20..60 are free
    CHECK(torch.reserved() == 40 * kMebi);
    CHECK(torch.segments().size() == 2);
    // 5 MiB are free at 15 and at 60. A block counts with the size that it can grow to, and behind
    // the first one 40 MiB are unmapped.
    CHECK(torch.get(5 * kMebi)->address == 60 * kMebi);
    CHECK(torch.get(5 * kMebi)->address == 15 * kMebi);
    CHECK(a->address == Bytes(0));
  }

  TEST_CASE("a range without pages is given back and the next one lies elsewhere") {
    Torch torch("expandable_segments:True", 160 * kMebi);
    torch.free(*torch.get(15 * kMebi));
    torch.empty_cache();
    CHECK(torch.reserved() == Bytes(0));
    CHECK(torch.get(15 * kMebi)->address == 180 * kMebi);  // 160 MiB and an eighth
  }

  TEST_CASE("pages that were mapped for a request that fails stay mapped") {
    Torch torch("expandable_segments:True", 100 * kMebi);
    TorchBlock* a = torch.get(40 * kMebi);
    static_cast<void>(torch.get(20 * kMebi));
    torch.free(*a);
    CHECK(torch.get(90 * kMebi) == nullptr);
    CHECK(torch.statistics().num_ooms == 1);
    CHECK(torch.reserved() == 20 * kMebi);  // the free pages went back in the retry
  }

  TEST_CASE("the other streams' memory counts against the capacity, the context too") {
    TorchCachingAllocator torch(100 * kMebi, {}, 60 * kMebi);
    const TorchStream s = torch.stream(0);
    CHECK(torch.allocate(40 * kMebi, s) != nullptr);
    CHECK(torch.allocate(Bytes(1), s) == nullptr);
    CHECK(torch.out_of_memory().device_free == Bytes(0));
    CHECK(torch.out_of_memory().capacity == 100 * kMebi);
  }

  TEST_CASE("sizes in messages have two digits and binary units") {
    CHECK(torch_size(Bytes(1024)) == "1024 bytes");
    CHECK(torch_size(Bytes(1025)) == "1.00 KiB");
    CHECK(torch_size(20 * kMebi) == "20.00 MiB");
    CHECK(torch_size(kRoomy) == "80.00 GiB");
  }
}

TEST_SUITE("unit") {
  TEST_CASE("what a CUDA graph captures comes from a pool of its own, which keeps its segments") {
    constexpr Bytes kMib = kMiB;
    tidemark::TorchCachingAllocator allocator(100 * kMib, {});
    const tidemark::TorchStream eager = allocator.stream(0);
    tidemark::TorchBlock* warm_up = allocator.allocate(30 * kMib, eager);
    allocator.free(*warm_up);
    const tidemark::TorchStream captured = allocator.begin_capture(eager);
    // 30 MiB are cached, but not in the graph's pool.
    tidemark::TorchBlock* first = allocator.allocate(30 * kMib, captured);
    REQUIRE(first != nullptr);
    CHECK(allocator.statistics().reserved_bytes.all.current == 60 * kMib);
    allocator.free(*first);
    // The pool's own memory is used again.
    CHECK(allocator.allocate(30 * kMib, captured)->address == 30 * kMib);
    CHECK(allocator.statistics().reserved_bytes.all.current == 60 * kMib);
    // 40 MiB of the device are left and 30 more are cached: no retry during a capture.
    CHECK(allocator.allocate(50 * kMib, captured) == nullptr);
    CHECK(allocator.statistics().num_alloc_retries == 0);
    CHECK(allocator.statistics().num_ooms == 1);
    // The eager pool's 30 MiB go back, the graph's stay, free or not.
    tidemark::TorchBlock* second = allocator.allocate(20 * kMib, captured);
    allocator.free(*second);
    allocator.release_cached();
    CHECK(allocator.statistics().reserved_bytes.all.current == 50 * kMib);
    // Free memory in private pools is named separately: 20 MiB.
    CHECK(allocator.allocate(60 * kMib, captured) == nullptr);
    CHECK(message_of(allocator.out_of_memory())
              .find("Of the allocated memory 30.00 MiB is allocated by PyTorch, with 20.00 MiB "
                    "allocated "
                    "in private pools (e.g., CUDA Graphs), and 0 bytes is reserved by PyTorch but "
                    "unallocated.") != std::string::npos);
  }
}

}  // namespace tidemark::torch_caching_allocator_test
