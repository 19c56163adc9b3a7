// The contents that a program must compute: symbolic names of what the run without policies reads
// and leaves behind.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

using Content = std::uint64_t;

[[nodiscard]] inline Content mix_content(Content hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31U);
}

// Contents are named by what computed them: operator, step and micro-batch (random state and
// running statistics are versioned with these), and the contents that were read.
[[nodiscard]] inline Content start_of(const Occurrence& occurrence) {
  return mix_content(mix_content(occurrence.op.value + 1, occurrence.step), occurrence.micro_batch);
}

[[nodiscard]] inline std::uint64_t key_of(const Occurrence& occurrence) {
  return (static_cast<std::uint64_t>(occurrence.op.value) << 32U) |
         (static_cast<std::uint64_t>(occurrence.step) << 16U) | occurrence.micro_batch;
}

[[nodiscard]] inline bool reads_content(Access access) {
  return access == Access::kRead || access == Access::kMutate;
}

// The contents that the run without policies reads and leaves behind.
struct ExpectedContents {
  std::unordered_map<std::uint64_t, Content> read;  // content that each occurrence reads
  IdVector<StorageId, Content> at_end;
};

[[nodiscard]] ExpectedContents expected_contents(const TrainingGraph& graph,
                                                 const ProgramOrder& plain);

}  // namespace tidemark
