// The contents that a program must compute: symbolic names of what the run without policies reads
// and leaves behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

// A value by operator, step and micro-batch; T() where none was set.
template <class T>
class OccurrenceTable {
 public:
  OccurrenceTable(const TrainingGraph& graph, const ProgramOrder& order)
      : steps_(static_cast<std::size_t>(order.steps)),
        micro_batches_(static_cast<std::size_t>(order.micro_batches)),
        values_(graph.operators.size() * steps_ * micro_batches_) {}

  // Returns nothing for an occurrence outside of the order's steps and micro-batches.
  [[nodiscard]] T* find(const Occurrence& occurrence) {
    const std::size_t at = index_of(occurrence);
    return at < values_.size() ? &values_[at] : nullptr;
  }
  [[nodiscard]] const T* find(const Occurrence& occurrence) const {
    const std::size_t at = index_of(occurrence);
    return at < values_.size() ? &values_[at] : nullptr;
  }

 private:
  [[nodiscard]] std::size_t index_of(const Occurrence& occurrence) const {
    if (occurrence.step >= steps_ || occurrence.micro_batch >= micro_batches_)
      return values_.size();
    return (occurrence.op.index() * steps_ + occurrence.step) * micro_batches_ +
           occurrence.micro_batch;
  }

  std::size_t steps_;
  std::size_t micro_batches_;
  std::vector<T> values_;
};

[[nodiscard]] inline bool reads_content(Access access) {
  return access == Access::kRead || access == Access::kMutate;
}

// The contents that the run without policies reads and leaves behind.
struct ExpectedContents {
  ExpectedContents(const TrainingGraph& graph, const ProgramOrder& plain) : read(graph, plain) {}

  // Content that each occurrence reads; 0 where the plain run has none.
  OccurrenceTable<Content> read;
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
