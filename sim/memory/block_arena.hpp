// Blocks of an allocator with fixed addresses, so that intrusive sets and neighbours can point to
// them. Host memory is asked for in large pieces, and never with as many blocks at once as were
// reserved.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/core/units.hpp"

namespace tidemark {

// Block has `size`, which is 0 bytes while it is unused, and `next`.
template <class Block>
class BlockArena {
 public:
  void reserve(std::size_t blocks) {
    std::size_t room = 0;
    if (!chunks_.empty()) room = chunks_.back().capacity() - chunks_.back().size();
    if (room < blocks) chunks_.emplace_back().reserve(blocks);
  }
  // Returns a block as its type initialises it.
  [[nodiscard]] Block* take() {
    if (unused_ != nullptr) {
      Block* block = unused_;
      unused_ = block->next;
      *block = Block();
      return block;
    }
    if (chunks_.empty() || chunks_.back().size() == chunks_.back().capacity()) {
      chunks_.emplace_back().reserve(kChunk);
    }
    return &chunks_.back().emplace_back();
  }
  void give_back(Block* block) {
    block->next = unused_;
    block->size = Bytes(0);
    unused_ = block;
  }
  // Calls f(block) for every block in use.
  template <class F>
  void for_each(F&& f) const {
    for (const std::vector<Block>& chunk : chunks_) {
      for (const Block& block : chunk) {
        if (block.size > Bytes(0)) f(block);
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 4096;

  std::vector<std::vector<Block>> chunks_;  // each reserved once, so blocks never move
  Block* unused_ = nullptr;
};

}  // namespace tidemark
