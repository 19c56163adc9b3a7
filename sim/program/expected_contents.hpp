// The contents that a program must compute: symbolic names of what the run without policies reads
// and leaves behind.
#pragma once

#include <cstddef>
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

// Whether an operator gathers parameters or keeps shares of them: the same in all micro-batches of
// a step.
[[nodiscard]] inline bool gathers_parameters(const TrainingGraph& graph, OperatorId id) {
  return graph.operators[id].part == OperatorPart::kGather;
}

// Contents are named by what computed them: operator, step and micro-batch (random state and
// running statistics are versioned with these), and the contents that were read. What gathers
// parameters makes the same in all micro-batches of a step.
[[nodiscard]] Content start_of(const TrainingGraph& graph, const Occurrence& occurrence);

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
  // The operator in whose place an operator recomputes (Operator::recomputed_by); invalid for those
  // that run in the plain order. It must read what that order has made of the results of the other
  // one, and leaves these behind.
  IdVector<OperatorId, OperatorId> stands_in_for;

  // Returns the content that an occurrence leaves in the storage that its touch `index` writes;
  // `hash`: the content that it has read.
  [[nodiscard]] Content written(const TrainingGraph& graph, const Occurrence& occurrence,
                                StorageId storage, std::size_t index, Content hash) const;
};

[[nodiscard]] ExpectedContents expected_contents(const TrainingGraph& graph,
                                                 const ProgramOrder& plain);

}  // namespace tidemark
