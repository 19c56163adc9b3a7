#include "sim/memory/bfc_allocator.hpp"

#include <doctest/doctest.h>

namespace tidemark::bfc_allocator_test {

namespace {
constexpr Bytes kMebi = kMiB;
}

TEST_SUITE("unit") {
  TEST_CASE("without growth the first request takes the whole limit") {
    BfcAllocator bfc(100 * kMebi, {.memory_fraction = 0.75});
    const BfcChunk* a = bfc.allocate(Bytes(1000));
    CHECK(a->size == Bytes(1024));  // to 256 bytes
    CHECK(bfc.reserved() == 75 * kMebi);
    CHECK(bfc.segments() == 1);
  }

  TEST_CASE("with growth regions start at 2 MiB and double until the request fits") {
    BfcAllocator bfc(100 * kMebi, {.allow_growth = true});
    static_cast<void>(bfc.allocate(kMebi));
    CHECK(bfc.reserved() == 2 * kMebi);
    static_cast<void>(bfc.allocate(3 * kMebi));  // the next region is 4 MiB
    CHECK(bfc.reserved() == 6 * kMebi);
    static_cast<void>(bfc.allocate(20 * kMebi));  // 8, 16, 32
    CHECK(bfc.reserved() == 38 * kMebi);
    static_cast<void>(bfc.allocate(50 * kMebi));  // 64, of which the limit leaves 62
    CHECK(bfc.reserved() == 100 * kMebi);
  }

  TEST_CASE("a chunk is split when it has twice the request, or 128 MiB more") {
    BfcAllocator bfc(1000 * kMebi, {.allow_growth = true});
    BfcChunk* a = bfc.allocate(256 * kMebi);
    bfc.free(*a);
    CHECK(bfc.allocate(129 * kMebi)->size == 256 * kMebi);  // 127 MiB more, not twice
    BfcAllocator other(1000 * kMebi, {.allow_growth = true});
    other.free(*other.allocate(256 * kMebi));
    CHECK(other.allocate(128 * kMebi)->size == 128 * kMebi);
    BfcAllocator third(1000 * kMebi, {.allow_growth = true});
    third.free(*third.allocate(512 * kMebi));
    CHECK(third.allocate(384 * kMebi)->size == 384 * kMebi);  // 128 MiB more, not twice
  }

  TEST_CASE("free neighbours are joined and the smallest adequate chunk is taken") {
    BfcAllocator bfc(64 * kMebi, {});
    BfcChunk* a = bfc.allocate(4 * kMebi);
    BfcChunk* b = bfc.allocate(4 * kMebi);
    BfcChunk* c = bfc.allocate(4 * kMebi);
    BfcChunk* d = bfc.allocate(2 * kMebi);
    static_cast<void>(bfc.allocate(kMebi));
    bfc.free(*a);
    bfc.free(*c);
    bfc.free(*b);  // 0..12 MiB
    CHECK(bfc.active() == 3 * kMebi);
    bfc.free(*d);  // 0..14 MiB
    // 14 and 49 MiB are free: a request of 10 takes the smaller, whole, since 14 < 2 * 10.
    const BfcChunk* e = bfc.allocate(10 * kMebi);
    CHECK(e->address == Bytes(0));
    CHECK(e->size == 14 * kMebi);
    CHECK(bfc.fragmentation() == 0);
  }

  TEST_CASE("free regions go back when that makes room for a larger one") {
    BfcAllocator bfc(64 * kMebi, {.allow_growth = true});
    bfc.free(*bfc.allocate(32 * kMebi));
    CHECK(bfc.allocate(40 * kMebi) != nullptr);
    CHECK(bfc.segments() == 1);
    BfcAllocator keeps(64 * kMebi, {.allow_growth = true, .garbage_collection = false});
    keeps.free(*keeps.allocate(32 * kMebi));
    CHECK(keeps.allocate(40 * kMebi) == nullptr);
  }

  TEST_CASE("a deferred free stays active") {
    BfcAllocator bfc(64 * kMebi, {});
    bfc.reserve(1);
    CHECK(bfc.allocate(AllocationId(0U), Bytes(1000)).ok);
    bfc.defer_free(AllocationId(0U));
    CHECK(bfc.allocated() == Bytes(0));
    CHECK(bfc.active() == Bytes(1024));
    bfc.free(AllocationId(0U));
    CHECK(bfc.active() == Bytes(0));
  }
}

}  // namespace tidemark::bfc_allocator_test
