// Rematerialization on a cost graph: find the order in which to compute the nodes, with repeats, so
// that the bytes resident at once stay within a budget at the least total cost.
//
// Memory is counted as in the schema "remat-acceptance-v1":
//   during compute(i): fixed + resident values (inputs included) + bytes[i] + workspace[i]
//   after it the workspace is freed and the output resident; a value is freed right after its last
//   reader, at no cost; nothing has to be resident at the end.
//
// Costs and sizes are integers of the problem's own units: nanoseconds and whole bytes for a
// step's. They are not typed as Duration and Bytes, since a recorded problem may use other units.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/import/cost_graph.hpp"

namespace tidemark {

using NodeIndex = std::uint32_t;  // position in the cost graph's list, a topological order

struct RematProblem {
  std::vector<std::int64_t> cost;   // cost of each node in abstract units of time
  std::vector<std::int64_t> bytes;  // bytes of the output
  // Bytes during compute only. For a part of its input, its own bytes are subtracted here, never
  // more.
  std::vector<std::int64_t> workspace;
  std::vector<std::vector<NodeIndex>> deps;
  std::vector<std::vector<NodeIndex>> readers;  // the nodes that name it as a dependency, ascending
  std::vector<bool> backward;                   // whether each node belongs to backward
  std::vector<bool> once;                       // whether each node may not be recomputed
  std::vector<int> block;                       // repeated block of each node, or kNoBlock
  std::vector<bool> off_main_path;              // one per node, see CostNode::off_main_path
  std::vector<std::string> layer;               // layer of each node; empty for a part of a problem
  std::vector<std::string> operator_kind;       // "softmax", or "" for no operator; likewise empty
  std::int64_t fixed = 0;                       // bytes resident all the time
  std::int64_t base_cost = 0;                   // cost of computing every node once

  [[nodiscard]] NodeIndex size() const { return static_cast<NodeIndex>(cost.size()); }
  // Fixed bytes, inputs, output and workspace of one node: the minimum over all schedules.
  [[nodiscard]] std::int64_t footprint(NodeIndex node) const;
  [[nodiscard]] NodeIndex largest_footprint() const;  // the first such node; size() > 0
};

// A cost above that of every schedule; a few of them can be added.
inline constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

[[nodiscard]] RematProblem remat_problem(const CostGraph& graph);
// Returns the number of nodes before the first of backward.
[[nodiscard]] NodeIndex forward_count(const RematProblem& problem);

// Sets of schedules, each containing the one before.
enum class ScheduleClass : std::uint8_t {
  kCheckmate,     // between two first evaluations nodes run in ascending order, each at most once,
                  // and nothing runs after the first evaluation of the last node
  kFixed,         // first evaluations in the order of the list, any recomputation between them
  kUnrestricted,  // first evaluations in any topological order
};
inline constexpr ScheduleClass kScheduleClasses[] = {
    ScheduleClass::kCheckmate, ScheduleClass::kFixed, ScheduleClass::kUnrestricted};
[[nodiscard]] std::string_view name_of(ScheduleClass schedule_class);  // "checkmate", ...

using Schedule = std::vector<NodeIndex>;  // nodes as computed, repeats included

struct Evaluation {
  std::int64_t peak = 0;
  std::int64_t cost = 0;
};

// Evaluates `schedule`: its peak and its cost. Throws InternalError if it computes a node before
// one of its inputs or never computes some node.
[[nodiscard]] Evaluation evaluate(const RematProblem& problem, std::span<const NodeIndex> schedule);
// Returns why the schedule is not one of the class, or nothing. No class recomputes nodes that may
// run only once.
[[nodiscard]] std::optional<std::string> class_fault(const RematProblem& problem,
                                                     std::span<const NodeIndex> schedule,
                                                     ScheduleClass schedule_class);

// A schedule with its peak and cost.
struct Solution {
  Schedule schedule;
  Evaluation evaluation;
};
[[nodiscard]] Solution evaluated(const RematProblem& problem, Schedule schedule);

// Returns the greatest common divisor of all costs: every schedule costs a multiple of it.
[[nodiscard]] std::int64_t cost_unit(const RematProblem& problem);

}  // namespace tidemark
