// Communication of one rank in the last step.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/collective.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/mesh.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Operations of one kind in groups of one dimension and size. Receives are the other rank's sends.
struct Communication {
  MeshDimension group = MeshDimension::kData;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 0;  // ranks that take part in each; 0: the whole group
  std::int64_t count = 0;
  Bytes bytes;      // bytes of the whole tensors
  Duration busy{};  // time on the group's queue
  // The part of it that they took longer than alone, because others were on the same links.
  Duration shared{};
  // Compute waited for it; of several kinds in one group by their share of busy. A stage of a
  // pipeline that waits longer than its messages take waits for another stage to make them: that
  // is the bubble.
  Duration exposed{};
};

// Returns the communication by group, then by kind; only groups and kinds that were used.
[[nodiscard]] std::vector<Communication> communication_of(const TrainingGraph& graph,
                                                          const StepProgram& program,
                                                          const CostTable& costs,
                                                          const Scratch& scratch,
                                                          const RunResult& run);

// A stretch of the last step in which a rank communicates in one group; adjacent ones are merged.
// Messages are those that the rank sends.
struct CommunicationStretch {
  MeshDimension group = MeshDimension::kPipeline;
  Duration begin{};
  Duration end{};
};

// Returns them in the order of their issue, by the time of the run.
[[nodiscard]] std::vector<CommunicationStretch> communication_stretches(const TrainingGraph& graph,
                                                                        const StepProgram& program,
                                                                        const Scratch& scratch);

// Returns how many ranks take part in each: two in a message.
[[nodiscard]] int ranks_of(const Communication& communication, const Mesh& mesh);

}  // namespace tidemark
