// Tables whose memory is asked for in large pages.
#include "graph/core/large_table.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::large_table_test {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

// Entries that do not divide a page.
struct Entry {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
};

bool begins_page(const void* memory) {
  return std::bit_cast<std::uintptr_t>(memory) % kPage == 0;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a table begins with a page as soon as it fills one") {
    constexpr std::size_t kFilling = kPage / sizeof(Entry);
    const LargeTable<Entry> large(kFilling);
    CHECK(begins_page(large.data()));
    CHECK(begins_page(LargeTable<std::uint8_t>(kPage).data()));
    CHECK(begins_page(LargeTable<std::uint8_t>(kPage + 1).data()));
    // Small ones take no page each: as many as fill three pages lie closer together.
    std::vector<LargeTable<std::uint8_t>> small;
    std::size_t beginning = 0;
    for (int i = 0; i < 6; ++i) {
      small.emplace_back(kPage - 1);
      beginning += begins_page(small.back().data()) ? 1U : 0U;
    }
    CHECK(beginning == 0);
  }

  TEST_CASE("a table keeps its entries while it grows over pages, is copied, moved and shrinks") {
    LargeTable<Entry> table;
    constexpr std::uint64_t kEntries = 3 * kPage / sizeof(Entry);
    for (std::uint64_t i = 0; i < kEntries; ++i)
      table.push_back({i, 3 * i, ~i});
    const auto holds = [&](const LargeTable<Entry>& entries, std::uint64_t count) {
      bool same = entries.size() == count;
      for (std::uint64_t i = 0; same && i < count; ++i)
        same = entries[i].first == i && entries[i].second == 3 * i && entries[i].third == ~i;
      return same;
    };
    CHECK(begins_page(table.data()));
    CHECK(holds(table, kEntries));
    LargeTable<Entry> copy = table;
    CHECK(copy.data() != table.data());
    CHECK(holds(copy, kEntries));
    const Entry* const memory = copy.data();
    LargeTable<Entry> moved = std::move(copy);
    CHECK(moved.data() == memory);
    CHECK(holds(moved, kEntries));
    moved = LargeTable<Entry>(table.begin(), table.begin() + 10);
    CHECK(holds(moved, 10));
    moved.swap(table);
    CHECK(holds(moved, kEntries));
    moved.resize(20);
    moved.shrink_to_fit();
    CHECK(holds(moved, 20));
    CHECK_FALSE(begins_page(moved.data()));
  }

  TEST_CASE("more memory than there is cannot be allocated") {
    CHECK_THROWS_AS(static_cast<void>(LargePages<Entry>().allocate(std::size_t{1} << 56)),
                    std::bad_alloc);
  }
}

}  // namespace tidemark::large_table_test
