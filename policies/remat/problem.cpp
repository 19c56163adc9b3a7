#include "policies/remat/problem.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

std::int64_t RematProblem::footprint(NodeIndex node) const {
  std::int64_t sum = fixed + bytes[node] + workspace[node];
  for (const NodeIndex dep : deps[node])
    sum += bytes[dep];
  return sum;
}

NodeIndex RematProblem::largest_footprint() const {
  NodeIndex largest = 0;
  for (NodeIndex node = 1; node < size(); ++node) {
    if (footprint(node) > footprint(largest)) largest = node;
  }
  return largest;
}

RematProblem remat_problem(const CostGraph& graph) {
  RematProblem problem;
  problem.fixed = graph.fixed_bytes.count;
  problem.readers.resize(graph.nodes.size());
  for (const CostNodeId id : ids_of(graph.nodes)) {
    const CostNode& node = graph.nodes[id];
    problem.cost.push_back(node.cost);
    problem.bytes.push_back(node.bytes.count);
    problem.workspace.push_back(node.part ? -node.bytes.count : node.workspace.count);
    problem.backward.push_back(node.kind == Phase::kBackward);
    problem.once.push_back(node.once);
    problem.block.push_back(node.block);
    problem.off_main_path.push_back(node.off_main_path);
    problem.layer.push_back(node.layer);
    problem.operator_kind.push_back(node.operator_kind);
    problem.base_cost += node.cost;
    std::vector<NodeIndex>& deps = problem.deps.emplace_back();
    for (const CostNodeId dep : node.deps) {
      deps.push_back(static_cast<NodeIndex>(dep.index()));
      problem.readers[dep.index()].push_back(static_cast<NodeIndex>(id.index()));
    }
    std::sort(deps.begin(), deps.end());
  }
  return problem;
}

NodeIndex forward_count(const RematProblem& problem) {
  NodeIndex count = 0;
  while (count < problem.size() && !problem.backward[count])
    ++count;
  return count;
}

std::string_view name_of(ScheduleClass schedule_class) {
  switch (schedule_class) {
    case ScheduleClass::kCheckmate:
      return "checkmate";
    case ScheduleClass::kFixed:
      return "fixed";
    case ScheduleClass::kUnrestricted:
      return "unrestricted";
  }
  throw InternalError("a schedule class without a name");
}

Evaluation evaluate(const RematProblem& problem, std::span<const NodeIndex> schedule) {
  constexpr std::size_t kNever = ~std::size_t{0};
  std::vector<std::size_t> newest(problem.size(), kNever);  // position of the newest copy, by node
  std::vector<std::size_t> last_reader(schedule.size());    // by position of the copy
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    const NodeIndex node = schedule[p];
    last_reader[p] = p;
    for (const NodeIndex dep : problem.deps[node]) {
      if (newest[dep] == kNever) {
        throw InternalError(
            fmt::format("a schedule computes node {} before its input {}", node, dep));
      }
      last_reader[newest[dep]] = p;
    }
    newest[node] = p;
  }
  for (NodeIndex node = 0; node < problem.size(); ++node) {
    if (newest[node] == kNever) {
      throw InternalError(fmt::format("a schedule never computes node {}", node));
    }
  }
  std::vector<std::int64_t> freed(schedule.size());  // bytes freed after a position
  for (std::size_t p = 0; p < schedule.size(); ++p)
    freed[last_reader[p]] += problem.bytes[schedule[p]];

  Evaluation result;
  std::int64_t live = problem.fixed;
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    const NodeIndex node = schedule[p];
    result.peak = std::max(result.peak, live + problem.bytes[node] + problem.workspace[node]);
    result.cost += problem.cost[node];
    live += problem.bytes[node] - freed[p];
  }
  return result;
}

std::optional<std::string> class_fault(const RematProblem& problem,
                                       std::span<const NodeIndex> schedule,
                                       ScheduleClass schedule_class) {
  std::vector<bool> computed(problem.size());
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    const NodeIndex node = schedule[p];
    if (computed[node] && problem.once[node]) {
      return fmt::format("position {} recomputes node {}, which may run only once", p, node);
    }
    computed[node] = true;
  }
  if (schedule_class == ScheduleClass::kUnrestricted) return std::nullopt;
  const bool checkmate = schedule_class == ScheduleClass::kCheckmate;
  NodeIndex seen = 0;  // first evaluations so far; they are nodes 0 .. seen - 1
  NodeIndex from = 0;  // the least node that may be recomputed in this stage
  bool ended = false;
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    const NodeIndex node = schedule[p];
    if (node > seen) {
      return fmt::format("position {} evaluates node {} for the first time before node {}", p, node,
                         seen);
    }
    if (node == seen) {
      ++seen;
      from = 0;
      ended = seen == problem.size() && p + 1 < schedule.size();
      continue;
    }
    if (checkmate && node < from) {
      return fmt::format("position {} evaluates node {} after node {} in one stage", p, node,
                         from - 1);
    }
    from = node + 1;
  }
  if (checkmate && ended) return "something runs after the first evaluation of the last node";
  return std::nullopt;
}

Solution evaluated(const RematProblem& problem, Schedule schedule) {
  Solution solution{.schedule = std::move(schedule), .evaluation = {}};
  solution.evaluation = evaluate(problem, solution.schedule);
  return solution;
}

std::int64_t cost_unit(const RematProblem& problem) {
  std::int64_t unit = 0;
  for (const std::int64_t cost : problem.cost)
    unit = std::gcd(unit, cost);
  return std::max<std::int64_t>(unit, 1);
}

}  // namespace tidemark
