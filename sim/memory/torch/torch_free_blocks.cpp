#include "sim/memory/torch/torch_free_blocks.hpp"

namespace tidemark {

void TorchFreeBlocks::insert(TorchBlock& block) {
  block.size_class = size_class_of(block.size);
  link(block);
  join_class(block);
}

void TorchFreeBlocks::erase(TorchBlock& block) {
  leave_class(block);
  unlink(block);
}

void TorchFreeBlocks::move(TorchBlock& block, bool in_place) {
  leave_class(block);
  if (!in_place) unlink(block);
  block.size_class = size_class_of(block.size);
  if (!in_place) link(block);
  join_class(block);
}

void TorchFreeBlocks::link(TorchBlock& block) {
  block.larger = first_from(block.size_class, block);
  block.smaller = block.larger == nullptr ? largest_ : block.larger->smaller;
  (block.larger == nullptr ? largest_ : block.larger->smaller) = &block;
  (block.smaller == nullptr ? smallest_ : block.smaller->larger) = &block;
}

void TorchFreeBlocks::unlink(TorchBlock& block) {
  (block.larger == nullptr ? largest_ : block.larger->smaller) = block.smaller;
  (block.smaller == nullptr ? smallest_ : block.smaller->larger) = block.larger;
}

void TorchFreeBlocks::join_class(TorchBlock& block) {
  auto& steps = classes_[block.size_class / kSteps];
  if (steps == nullptr) steps = std::make_unique<std::array<SizeClass, kSteps>>();
  SizeClass& at = class_at(block.size_class);
  if (at.first == nullptr) {
    filled_[block.size_class / kWordBits] |= std::uint64_t{1} << (block.size_class % kWordBits);
    at.first = &block;
  } else if (block.larger == at.first) {
    at.first = &block;
  }
  ++at.blocks;
  if (at.crowded) {
    at.tree.insert(block);
  } else if (at.blocks > kCrowded) {
    plant_tree(at);
  }
}

void TorchFreeBlocks::leave_class(const TorchBlock& block) {
  SizeClass& at = class_at(block.size_class);
  --at.blocks;
  if (at.blocks == 0) {
    filled_[block.size_class / kWordBits] &= ~(std::uint64_t{1} << (block.size_class % kWordBits));
    at.first = nullptr;
  } else if (at.first == &block) {
    at.first = block.larger;
  }
  if (!at.crowded) return;
  at.tree.erase(at.tree.iterator_to(block));
  if (at.blocks > kCrowded / 2) return;
  at.tree.clear();
  at.crowded = false;
}

void TorchFreeBlocks::plant_tree(SizeClass& at) {
  at.crowded = true;
  TorchBlock* block = at.first;
  for (std::uint32_t i = 0; i < at.blocks; ++i, block = block->larger)
    at.tree.insert(at.tree.end(), *block);
}

}  // namespace tidemark
