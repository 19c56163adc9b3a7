// The free blocks of a pool by size, then by address: PyTorch's std::set, without its walk from the
// root at every search.
//
// All blocks are one list in that order. A class of sizes, an eighth of the step between two powers
// of two, knows its first block, and a bit says whether it has one: a search begins at the class of
// its size or at the next one that has blocks.
//
//   bits     0   1   0   1   1
//   class    |   |   |   |   '--> 1.8 MiB <-> 1.9 MiB
//            |   |   |   '------> 1.6 MiB <-> (goes on above)
//            |   '--------------> 1.1 MiB <-> 1.2 MiB <-> (goes on above)
//
// A class of many blocks has a tree of them as well, so that no search takes more steps than the
// logarithm of their number.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sim/memory/torch/torch_block.hpp"

namespace tidemark {

class TorchFreeBlocks {
 public:
  TorchFreeBlocks() = default;
  TorchFreeBlocks(const TorchFreeBlocks&) = delete;
  TorchFreeBlocks& operator=(const TorchFreeBlocks&) = delete;

  // The ends of the list, null when it is empty; TorchBlock::smaller and larger lead from one to
  // the other.
  [[nodiscard]] TorchBlock* smallest() const { return smallest_; }
  [[nodiscard]] TorchBlock* largest() const { return largest_; }

  // Returns the smallest block of at least a size, the lowest of several; null where there is none.
  [[nodiscard]] TorchBlock* at_least(Bytes size) {
    if (smallest_ == nullptr || smallest_->size >= size) return smallest_;
    return first_from(size_class_of(size), size);
  }
  // Adds a block of at least 512 bytes.
  void insert(TorchBlock& block);
  // Takes a block out; its size may have changed since it was put in its place.
  void erase(TorchBlock& block);
  // Puts a block whose size or address has changed in its place. It mostly is there: what a large
  // free block loses or wins rarely makes it smaller or larger than its neighbours by size.
  void reorder(TorchBlock& block) {
    const TorchBySize before;
    const bool in_place = (block.smaller == nullptr || before(*block.smaller, block)) &&
                          (block.larger == nullptr || before(block, *block.larger));
    if (in_place && block.size_class == size_class_of(block.size)) return;
    move(block, in_place);
  }

 private:
  static constexpr int kSmallest = 9;  // log2 of the smallest block, 512 bytes
  static constexpr int kStepBits = 3;  // log2 of the classes between two powers of two
  static constexpr std::size_t kPowers = 63 - kSmallest;
  static constexpr std::size_t kSteps = std::size_t{1} << kStepBits;
  static constexpr std::size_t kClasses = kPowers * kSteps;
  static constexpr std::size_t kWordBits = 64;
  static constexpr std::size_t kWords = (kClasses + kWordBits - 1) / kWordBits;
  static constexpr std::uint32_t kCrowded = 32;  // blocks above which a class has a tree

  using Tree = boost::intrusive::set<TorchBlock, boost::intrusive::compare<TorchBySize>,
                                     boost::intrusive::constant_time_size<false>>;
  struct SizeClass {
    TorchBlock* first = nullptr;
    std::uint32_t blocks = 0;
    bool crowded = false;  // the blocks are in the tree as well
    Tree tree;
  };

  [[nodiscard]] static std::uint16_t size_class_of(Bytes size) {
    const auto bits =
        static_cast<std::uint64_t>(std::max(size.count, std::int64_t{1} << kSmallest));
    const int power = static_cast<int>(std::bit_width(bits)) - 1;
    const auto step = (bits >> (power - kStepBits)) & ((1U << kStepBits) - 1);
    const auto below = static_cast<std::uint64_t>(power - kSmallest) << kStepBits;
    return static_cast<std::uint16_t>(below + step);
  }
  // Returns the first class with blocks from this one on; kClasses where there is none.
  [[nodiscard]] std::size_t filled_from(std::size_t size_class) const {
    std::size_t word = size_class / kWordBits;
    std::uint64_t bits = filled_[word] & ~std::uint64_t{0} << (size_class % kWordBits);
    while (bits == 0) {
      if (++word == kWords) return kClasses;
      bits = filled_[word];
    }
    return word * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
  }
  // Returns the first block of the classes from this one on that does not come before a size or
  // another block.
  template <class Key>
  [[nodiscard]] TorchBlock* first_from(std::size_t size_class, const Key& key) {
    const TorchBySize before;
    const std::size_t filled = filled_from(size_class);
    if (filled == kClasses) return nullptr;
    SizeClass& at = class_at(filled);
    if (at.crowded && filled == size_class) {
      const auto found = at.tree.lower_bound(key, before);
      return found == at.tree.end() ? at.tree.rbegin()->larger : &*found;
    }
    TorchBlock* block = at.first;
    while (block != nullptr && before(*block, key))
      block = block->larger;
    return block;
  }
  // Returns a class between two powers of two that have had a block.
  [[nodiscard]] SizeClass& class_at(std::size_t size_class) {
    return (*classes_[size_class / kSteps])[size_class % kSteps];
  }
  void move(TorchBlock& block, bool in_place);
  void link(TorchBlock& block);
  void unlink(TorchBlock& block);
  // Put a block of the list into its class, and take it out.
  void join_class(TorchBlock& block);
  void leave_class(const TorchBlock& block);
  static void plant_tree(SizeClass& at);

  TorchBlock* smallest_ = nullptr;
  TorchBlock* largest_ = nullptr;
  std::array<std::uint64_t, kWords> filled_{};  // a bit for each class that has blocks
  // By power of two, made for the first block there: a trace may have any number of streams, whose
  // pools have few sizes.
  std::array<std::unique_ptr<std::array<SizeClass, kSteps>>, kPowers> classes_;
};

}  // namespace tidemark
