#include "sim/memory/torch/torch_free_blocks.hpp"

#include <memory>
#include <random>
#include <set>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::torch_free_blocks_test {
namespace {

struct Before {
  bool operator()(const TorchBlock* a, const TorchBlock* b) const {
    return a->size != b->size ? a->size < b->size : a->address < b->address;
  }
};
using Reference = std::set<TorchBlock*, Before>;  // as PyTorch keeps them

TorchBlock* at_least(const Reference& reference, Bytes size) {
  TorchBlock key;
  key.size = size;
  key.address = Bytes(-1);
  const auto found = reference.lower_bound(&key);
  return found == reference.end() ? nullptr : *found;
}

// Checks the whole order, forwards and backwards.
void check_order(const TorchFreeBlocks& blocks, const Reference& reference) {
  const TorchBlock* block = blocks.smallest();
  const TorchBlock* last = nullptr;
  for (const TorchBlock* expected : reference) {
    REQUIRE(block == expected);
    REQUIRE(block->smaller == last);
    last = block;
    block = block->larger;
  }
  REQUIRE(block == nullptr);
  REQUIRE(blocks.largest() == last);
}

// Blocks come, go and change their size at random; `sizes` draws a size.
template <class Sizes>
void compare_with_a_set(unsigned seed, std::size_t count, int changes, Sizes&& sizes) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<TorchBlock>> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(std::make_unique<TorchBlock>());
  TorchFreeBlocks blocks;
  Reference reference;
  std::int64_t address = 0;
  for (int change = 0; change < changes; ++change) {
    TorchBlock& block = *all[random() % count];
    const bool inside = reference.contains(&block);
    // In turns it grows crowded and is emptied.
    const bool filling = change / static_cast<int>(3 * count) % 2 == 0;
    if (!inside && (filling || random() % 4 == 0)) {
      block.size = sizes(random);
      block.address = Bytes(++address * 7919 % 1'000'003);  // different ones, in no order
      blocks.insert(block);
      reference.insert(&block);
    } else if (inside && random() % 2 == 0) {
      reference.erase(&block);
      block.size = random() % 2 == 0 ? block.size + Bytes(512) : sizes(random);
      reference.insert(&block);
      blocks.reorder(block);
    } else if (inside) {
      reference.erase(&block);
      block.size += Bytes(512);  // a block that has grown can be taken out
      blocks.erase(block);
    }
    const Bytes wanted = sizes(random);
    REQUIRE(blocks.at_least(wanted) == at_least(reference, wanted));
    if (change % 64 == 0) check_order(blocks, reference);
  }
  check_order(blocks, reference);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a pool without free blocks is small, since a trace may have any number of streams") {
    CHECK(sizeof(TorchFreeBlocks) <= 512);
  }

  TEST_CASE("free blocks are found by size, then by address") {
    TorchFreeBlocks blocks;
    CHECK(blocks.smallest() == nullptr);
    CHECK(blocks.at_least(Bytes(512)) == nullptr);
    TorchBlock low;
    low.size = 2 * kMiB;
    low.address = Bytes(512);
    TorchBlock high;
    high.size = 2 * kMiB;
    high.address = Bytes(4096);
    TorchBlock tiny;
    tiny.size = Bytes(512);
    tiny.address = 8 * kMiB;
    for (TorchBlock* block : {&high, &tiny, &low})
      blocks.insert(*block);
    CHECK(blocks.at_least(Bytes(512)) == &tiny);
    CHECK(blocks.at_least(Bytes(1024)) == &low);
    CHECK(blocks.at_least(2 * kMiB) == &low);
    CHECK(blocks.at_least(2 * kMiB + Bytes(512)) == nullptr);
    low.size += kMiB;  // it has grown past the other
    blocks.reorder(low);
    CHECK(blocks.at_least(2 * kMiB) == &high);
    CHECK(blocks.largest() == &low);
    blocks.erase(high);
    CHECK(blocks.at_least(2 * kMiB) == &low);
  }
}

TEST_SUITE("property") {
  TEST_CASE("free blocks are in the order of a set of sizes and addresses") {
    const auto any = [](std::mt19937& random) {
      return Bytes(static_cast<std::int64_t>(512) << (random() % 48)) +
             Bytes(static_cast<std::int64_t>(random() % 4096) * 512);
    };
    // A few sizes, so that a class has hundreds of blocks.
    const auto few = [](std::mt19937& random) {
      return 20 * kMiB + Bytes(static_cast<std::int64_t>(random() % 3) * 512);
    };
    for (unsigned seed = 0; seed < 10; ++seed) {
      compare_with_a_set(seed, 40, 1'000, any);
      compare_with_a_set(seed, 300, 4'000, any);
      compare_with_a_set(seed, 300, 4'000, few);
    }
  }
}

}  // namespace tidemark::torch_free_blocks_test
