#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark::allocator_invariants_test {

namespace {

// Checks invariants that hold at any moment, whatever the options.
void check_layout(const TorchCachingAllocator& torch) {
  const TorchStatistics& s = torch.statistics();
  Bytes reserved;
  Bytes allocated;
  Bytes active;
  Bytes split;
  std::int64_t segments = 0;
  Bytes end;
  for (const TorchSegment& segment : torch.segments()) {
    REQUIRE(segment.address >= end);  // no overlap
    end = segment.address + segment.size;
    Bytes at = segment.address;
    bool after_free = false;
    for (const TorchBlock* block : segment.blocks) {
      REQUIRE(block->address == at);  // no holes
      REQUIRE(block->size >= Bytes(512));
      at += block->size;
      REQUIRE(!(after_free && block->is_idle()));  // free neighbours have been joined
      after_free = block->is_idle();
      if (block->is_idle() && !segment.expandable && block->is_split()) split += block->size;
      if (block->allocated) REQUIRE(block->size >= torch.rounded(block->requested));
    }
    REQUIRE(at == end);
    reserved += segment.size;
    allocated += segment.allocated;
    active += segment.active;
    segments += segment.expandable ? 0 : 1;
  }
  REQUIRE(s.reserved_bytes.all.current == reserved);
  REQUIRE(torch.device().used() == reserved);
  REQUIRE(s.allocated_bytes.all.current == allocated);
  REQUIRE(s.active_bytes.all.current == active);
  REQUIRE(s.inactive_split_bytes.all.current == split);
  REQUIRE(s.segment.all.current == segments);
  REQUIRE(s.reserved_bytes.small_pool.current + s.reserved_bytes.large_pool.current == reserved);
}

struct Options {
  std::string_view conf;
  std::optional<double> fraction;
};

// Makes random calls on three streams, tight enough to retry and to fail.
void torture(const Options& given, unsigned seed, Bytes capacity) {
  std::mt19937 random(seed);
  TorchAllocatorOptions options = parse_alloc_conf(given.conf);
  options.memory_fraction = given.fraction;
  TorchCachingAllocator torch(capacity, options);
  const std::vector<TorchStream> streams{torch.stream(2), torch.stream(0), torch.stream(1)};
  const auto any_stream = [&] { return streams[random() % streams.size()]; };
  std::vector<TorchBlock*> live;
  std::int64_t clock = 0;
  for (int i = 0; i < 3000; ++i) {
    ++clock;
    for (TorchStream s : streams)
      torch.timeline(s) = {.issued = clock, .ended = clock - 40};
    const auto action = random() % 100;
    if (action < 50) {
      const double exponent = std::uniform_real_distribution<double>(6, 27)(random);
      TorchBlock* block =
          torch.allocate(Bytes(static_cast<std::int64_t>(std::exp2(exponent))), any_stream());
      if (block != nullptr) live.push_back(block);
    } else if (action < 98 && !live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      if (action < 60) {
        torch.record_stream(*live.back(), any_stream());
      } else {
        torch.free(*live.back());
        live.pop_back();
      }
    } else {
      torch.empty_cache();
    }
    if (i % 7 == 0) check_layout(torch);
  }
  for (TorchBlock* block : live)
    torch.free(*block);
  torch.empty_cache();
  check_layout(torch);
  CHECK(torch.statistics().active_bytes.all.current == Bytes(0));
  CHECK(torch.statistics().requested_bytes.all.current == Bytes(0));
  CHECK(torch.statistics().inactive_split.all.current == 0);
  CHECK(torch.statistics().oversize_allocations.current == 0);
  CHECK(torch.statistics().oversize_segments.current == 0);
  CHECK(torch.device().used() == Bytes(0));
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("segments stay whole and the figures add up under every option") {
    const std::vector<Options> all{
        {"", {}},
        {"", 0.5},
        {"max_split_size_mb:24", {}},
        {"roundup_power2_divisions:[1:4,16:8,>:2]", {}},
        {"garbage_collection_threshold:0.3", 0.9},
        {"expandable_segments:True", {}},
        {"expandable_segments:True,roundup_power2_divisions:8", 0.7},
        {"expandable_segments:True,max_split_size_mb:40,garbage_collection_threshold:0.2", 0.8},
        {"max_split_size_mb:64,garbage_collection_threshold:0.6", 1.0}};
    unsigned seed = 0;
    for (const Options& options : all) {
      for (const std::int64_t capacity : {300, 2000}) {
        CAPTURE(options.conf);
        CAPTURE(seed);
        torture(options, seed++, capacity * kMiB);
      }
    }
  }
}

}  // namespace tidemark::allocator_invariants_test
