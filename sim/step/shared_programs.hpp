// Programs that steps share whose graphs differ in sizes alone: the points of a sweep over
// micro-batches or sequences.
//
//   graph structure --order, liveness, policies, lower, verify-->  program    once
//   graph           --sizes, prices------------------------------>  step       for each point
//
// The program is known before the policies are asked where each of them decides by structure
// (Policy::decides_by_structure). Others decide for each graph, and the program is known if they
// decided as they did before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/analysis/same_structure.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/saved_tensors.hpp"
#include "sim/program/step_program.hpp"
#include "sim/step/planned_step.hpp"

namespace tidemark {

// The structure that a model shares with others; see SharedPrograms::structure_of().
using StructureId = Id<struct StructureTag>;

// A verified program with what it was lowered from, the sizes excepted.
struct SharedProgram {
  ProgramOrder order;
  std::vector<std::pair<GapId, Decision>> decisions;  // all gaps that are decided
  std::vector<Throttle> throttles;
  StepProgram program;  // with the sizes of the graph that it was made for
  std::vector<SavedTensor> saved;
  std::vector<PolicyOutcome> outcomes;  // by policy, as listed
};

// Whether lowering makes the same instructions of the plan as of the one behind `known`, in a graph
// of the same structure.
[[nodiscard]] bool is_planned_alike(const SharedProgram& known, const PlannedStep& planned);

// Returns the program with what it was made from; none where its sizes do not all follow from the
// graph.
[[nodiscard]] std::optional<SharedProgram> shared_program(const TrainingGraph& graph,
                                                          const PlannedStep& planned,
                                                          const StepProgram& program,
                                                          const LibraryWorkspaces& libraries);

// Keeps the programs that were used last. May be used by several threads.
class SharedPrograms {
 public:
  // `most_instructions`: in all programs that are kept, about 60 bytes each.
  explicit SharedPrograms(std::size_t most_instructions = 2'000'000)
      : most_instructions_(most_instructions) {}

  // Returns the same id for graphs that differ in sizes alone.
  [[nodiscard]] StructureId structure_of(const TrainingGraph& graph);

  // Returns the program that is kept under a key; null if none is. The key names the structure and
  // everything else that the program follows from.
  [[nodiscard]] std::shared_ptr<const SharedProgram> find(const std::string& key);
  // Keeps a program in place of the one that has the key so far.
  void keep(const std::string& key, std::shared_ptr<const SharedProgram> program);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const SharedProgram> program;
  };

  std::size_t most_instructions_;
  std::mutex mutex_;
  std::map<StructureDigest, StructureId> structures_;  // of all that were met, some 70 bytes each
  std::list<Entry> entries_;                           // last used first
  std::size_t instructions_ = 0;
};

}  // namespace tidemark
