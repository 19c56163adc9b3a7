// The pieces of segments that allocators show to eviction by addresses.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/memory/torch/torch_allocator.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::segment_pieces_test {

namespace {

constexpr Bytes kMebi = kMiB;

static_assert(!SegmentAllocator<IdealAllocator>);
static_assert(!SegmentAllocator<PackedAllocator>);

// Three blocks side by side, the middle one freed; the last is freed too, but a stream may still
// use it.
//
//   | 0 |  free  | 2, waits |
template <class A>
void check_neighbours(A& allocator, Bytes bytes) {
  allocator.reserve(3);
  for (std::size_t b = 0; b < 3; ++b)
    REQUIRE(allocator.allocate(AllocationId(b), bytes).ok);
  allocator.free(AllocationId(std::size_t{1}));
  allocator.defer_free(AllocationId(std::size_t{2}));
  CHECK(allocator.given(AllocationId(std::size_t{1})) == nullptr);
  const auto* first = allocator.given(AllocationId(std::size_t{0}));
  REQUIRE(first != nullptr);
  CHECK(first->previous == nullptr);
  CHECK(!first->is_free());
  const auto* hole = first->next;
  REQUIRE(hole != nullptr);
  CHECK(hole->is_free());
  CHECK(hole->size == bytes);
  CHECK(hole->address == first->address + bytes);
  const auto* waiting = hole->next;
  REQUIRE(waiting != nullptr);
  CHECK(waiting == allocator.given(AllocationId(std::size_t{2})));
  CHECK(!waiting->is_free());
  allocator.free(AllocationId(std::size_t{2}));
  // The hole has grown by its free neighbour, to the end of the segment.
  CHECK(first->next->is_free());
  CHECK(first->next->next == nullptr);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a piece of a segment is free once no stream uses it any more") {
    SUBCASE("torch: three blocks of 2 MiB in one segment of 20 MiB") {
      TorchAllocator torch(64 * kMebi);
      check_neighbours(torch, 2 * kMebi);
    }
    SUBCASE("bfc: one region") {
      BfcAllocator bfc(64 * kMebi);
      check_neighbours(bfc, 2 * kMebi);
    }
  }

  TEST_CASE("torch serves requests up to 1 MiB from other pieces than larger ones") {
    TorchAllocator torch(64 * kMebi);
    torch.reserve(2);
    REQUIRE(torch.allocate(AllocationId(std::size_t{0}), kMebi).ok);
    REQUIRE(torch.allocate(AllocationId(std::size_t{1}), kMebi + Bytes(1)).ok);
    const TorchBlock* small = torch.given(AllocationId(std::size_t{0}));
    const TorchBlock* large = torch.given(AllocationId(std::size_t{1}));
    CHECK(small->serves(Bytes(512)));
    CHECK(small->serves(kMebi));
    CHECK(!small->serves(kMebi + Bytes(1)));
    CHECK(!large->serves(kMebi));
    CHECK(large->serves(kMebi + Bytes(1)));
    BfcAllocator bfc(64 * kMebi);
    bfc.reserve(1);
    REQUIRE(bfc.allocate(AllocationId(std::size_t{0}), kMebi).ok);
    CHECK(bfc.given(AllocationId(std::size_t{0}))->serves(Bytes(1)));
    CHECK(bfc.given(AllocationId(std::size_t{0}))->serves(40 * kMebi));
  }

  TEST_CASE("the engine names no piece of an allocator") {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test::source_path("sim/engine"))) {
      std::ifstream file(entry.path());
      const std::string text(std::istreambuf_iterator<char>(file), {});
      CAPTURE(entry.path().string());
      CHECK(text.find("TorchBlock") == std::string::npos);
      CHECK(text.find("BfcChunk") == std::string::npos);
      ++files;
    }
    CHECK(files >= 5);
  }
}

}  // namespace tidemark::segment_pieces_test
