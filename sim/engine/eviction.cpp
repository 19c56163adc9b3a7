#include "sim/engine/eviction.hpp"

#include <algorithm>

namespace tidemark {

EvictionFacts eviction_facts(const StepProgram& program) {
  constexpr std::uint32_t kNever = Id<void>::kNone;
  const std::size_t blocks = program.blocks.size();
  EvictionFacts facts{.producer = std::vector<std::uint32_t>(blocks, kNever),
                      .last_use = std::vector<std::uint32_t>(blocks, 0),
                      .evictable = std::vector<char>(blocks, 0),
                      .restorable = std::vector<char>(blocks, 0)};
  std::vector<std::vector<std::uint32_t>> writes(blocks);
  std::vector<char> copied(blocks, 0);
  std::vector<char> freed(blocks, 0);
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kFree) freed[program.subject[i]] = 1;
  }
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const Opcode opcode = program.opcode[i];
    for (BlockUse use : program.uses_of(i)) {
      const std::size_t b = use.block().index();
      facts.last_use[b] = i;
      if (opcode != Opcode::kLaunch) copied[b] = 1;
      if (use.access() == Access::kRead) continue;
      writes[b].push_back(i);
      if (facts.producer[b] == kNever && opcode == Opcode::kLaunch) facts.producer[b] = i;
    }
  }
  // The instruction from which on the block's recipe would give something else.
  std::vector<std::uint32_t> valid_until(blocks, kNever);
  const auto input_valid_until = [&](std::size_t b, std::uint32_t producer) -> std::uint32_t {
    const auto next = std::upper_bound(writes[b].begin(), writes[b].end(), producer);
    const bool from_start = facts.producer[b] == kNever || writes[b].size() != 1;
    if (from_start || facts.restorable[b] == 0) {
      // Only memory that is never freed can be counted on; it must not change.
      const Block& block = program.blocks[BlockId(b)];
      const bool stays = block.role == Role::kParameter || block.role == Role::kBuffer ||
                         block.role == Role::kInput;
      if (!stays || freed[b] != 0) return 0;
      return next == writes[b].end() ? kNever : *next;
    }
    return valid_until[b];
  };
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kLaunch) continue;
    std::uint32_t valid = kNever;
    bool changes_in_place = false;
    for (BlockUse use : program.uses_of(i)) {
      if (use.access() == Access::kRead) {
        valid = std::min(valid, input_valid_until(use.block().index(), i));
      } else if (use.access() != Access::kCreate) {
        changes_in_place = true;
      }
    }
    for (BlockUse use : program.uses_of(i)) {
      const std::size_t b = use.block().index();
      const Block& block = program.blocks[use.block()];
      const bool temporary = block.storage.valid() && (block.role == Role::kSavedActivation ||
                                                       block.role == Role::kTemporary ||
                                                       block.role == Role::kActivationGradient);
      if (use.access() != Access::kCreate || changes_in_place || !temporary) continue;
      if (writes[b].size() != 1 || copied[b] != 0 || valid == 0) continue;
      facts.restorable[b] = 1;
      valid_until[b] = valid;
      facts.evictable[b] = facts.last_use[b] < valid ? 1 : 0;
    }
  }
  return facts;
}

}  // namespace tidemark
