#include "policies/solver/checkmate_relaxation.hpp"

#include <algorithm>
#include <utility>

#include "policies/solver/linear_builder.hpp"

namespace tidemark {
namespace checkmate_relaxation_detail {
namespace {

using Variable = LinearBuilder::Variable;

class Relaxation {
 public:
  Relaxation(const RematProblem& problem, std::int64_t budget)
      : problem_(problem),
        n_(problem.size()),
        unit_(static_cast<double>(std::max<std::int64_t>(problem.base_cost, 1)) / n_),
        budget_(static_cast<double>(std::max<std::int64_t>(budget, 1))),
        evaluated_(n_),
        resident_(n_) {
    for (NodeIndex t = 0; t < n_; ++t) {
      for (NodeIndex i = 0; i < t; ++i) {
        evaluated_[t].push_back(program_.variable(static_cast<double>(problem.cost[i]) / unit_,
                                                  problem.once[i] ? 0 : 1));
        resident_[t].push_back(program_.variable(0));
      }
    }
    for (NodeIndex t = 0; t < n_; ++t) {
      add_dependencies(t);
      add_memory(t);
    }
  }

  LinearProgram finish() { return program_.finish(); }
  [[nodiscard]] double unit() const { return unit_; }
  [[nodiscard]] Variable resident(NodeIndex t, NodeIndex i) const { return resident_[t][i]; }

 private:
  void add_dependencies(NodeIndex t) {
    for (NodeIndex v = 0; v <= t; ++v) {
      for (const NodeIndex u : problem_.deps[v]) {
        const LinearBuilder::Row row = program_.at_least(v == t ? 1 : 0);
        row.add(evaluated_[t][u], 1);
        row.add(resident_[t][u], 1);
        if (v < t) row.add(evaluated_[t][v], -1);
      }
    }
    for (NodeIndex i = 0; i < t; ++i) {
      const LinearBuilder::Row once = program_.at_least(-1);
      once.add(resident_[t][i], -1);
      once.add(evaluated_[t][i], -1);
    }
  }

  [[nodiscard]] double share(std::int64_t bytes) const {
    return static_cast<double>(bytes) / budget_;
  }

  void add_memory(NodeIndex t) {
    Variable before = LinearBuilder::kNone;
    std::vector<std::pair<Variable, double>> freed;  // freed after the node before
    freed_of_.assign(n_, {});
    for (NodeIndex k = 0; k <= t; ++k) {
      // A part of its input takes nothing while it is made, but both are there then.
      const double both = std::max(0.0, -share(problem_.workspace[k]));
      const Variable used = program_.variable(0, 1 + both);
      // R[t,t] = 1 moves to the right.
      const LinearBuilder::Row row = program_.equality((k == 0 ? share(problem_.fixed) : 0) +
                                                       (k == t ? share(problem_.bytes[k]) : 0));
      row.add(used, 1);
      row.add(before, -1);
      if (k == 0) {
        for (NodeIndex i = 0; i < t; ++i)
          row.add(resident_[t][i], -share(problem_.bytes[i]));
      }
      if (k < t) row.add(evaluated_[t][k], -share(problem_.bytes[k]));
      for (const auto& [variable, bytes] : freed)
        row.add(variable, bytes);
      add_workspace(t, k, used);
      before = used;
      freed.clear();
      if (k == t) break;  // a value freed after the stage's end does not enter the next
      for (const NodeIndex i : problem_.deps[k])
        add_free(t, i, k, freed);
      add_free(t, k, k, freed);
    }
    add_exits(t);
  }

  void add_workspace(NodeIndex t, NodeIndex k, Variable used) {
    if (problem_.workspace[k] == 0) return;
    const double workspace = share(problem_.workspace[k]);
    const LinearBuilder::Row room = program_.at_least(-1 + (k == t ? workspace : 0));
    room.add(used, -1);
    if (k < t) room.add(evaluated_[t][k], -workspace);
  }

  // Adds the rows that free a resident value once or let it enter the next stage.
  void add_exits(NodeIndex t) {
    for (NodeIndex i = 0; i < t; ++i) {
      const LinearBuilder::Row row = program_.at_least(0);
      row.add(resident_[t][i], 1);
      row.add(evaluated_[t][i], 1);
      for (const Variable free : freed_of_[i])
        row.add(free, -1);
      if (t + 1 < n_) row.add(resident_[t + 1][i], -1);
    }
  }

  void add_free(NodeIndex t, NodeIndex i, NodeIndex k,
                std::vector<std::pair<Variable, double>>& freed) {
    if (problem_.bytes[i] == 0) return;
    const std::vector<NodeIndex>& readers = problem_.readers[i];
    if (std::binary_search(readers.begin(), readers.end(), t)) return;  // the stage's end reads it
    const Variable free = program_.variable(0);
    const LinearBuilder::Row computed = program_.at_least(0);
    computed.add(evaluated_[t][k], 1);
    computed.add(free, -1);
    if (t + 1 < n_) {
      const LinearBuilder::Row kept = program_.at_least(-1);
      kept.add(free, -1);
      kept.add(resident_[t + 1][i], -1);
    }
    for (auto j = std::upper_bound(readers.begin(), readers.end(), k); j != readers.end() && *j < t;
         ++j) {
      const LinearBuilder::Row read = program_.at_least(-1);
      read.add(free, -1);
      read.add(evaluated_[t][*j], -1);
    }
    freed.emplace_back(free, share(problem_.bytes[i]));
    freed_of_[i].push_back(free);
  }

  const RematProblem& problem_;
  NodeIndex n_;
  double unit_;    // costs are divided by it
  double budget_;  // and bytes by it
  LinearBuilder program_;
  std::vector<std::vector<Variable>> evaluated_, resident_;  // by stage and node
  std::vector<std::vector<Variable>> freed_of_;  // for the stage that is being added, by node
};

}  // namespace
}  // namespace checkmate_relaxation_detail

CheckmateRelaxation relax_checkmate(const RematProblem& problem, std::int64_t budget,
                                    const LinearOptions& options) {
  checkmate_relaxation_detail::Relaxation relaxation(problem, budget);
  const LinearProgram program = relaxation.finish();
  const LinearResult solved = solve(program, options);
  const auto base = static_cast<double>(problem.base_cost);
  CheckmateRelaxation result;
  for (NodeIndex t = 0; t < problem.size(); ++t) {
    std::vector<double>& stage = result.resident.emplace_back();
    for (NodeIndex i = 0; i < t; ++i)
      stage.push_back(solved.x[static_cast<std::size_t>(relaxation.resident(t, i))]);
  }
  // The guard covers the rounding of the sums.
  result.lower_bound =
      base + std::max(0.0, relaxation.unit() * (solved.lower_bound - 1e-9 * problem.size()));
  result.objective = base + relaxation.unit() * solved.objective;
  result.converged = solved.converged;
  return result;
}

Schedule complete_stages(const RematProblem& problem,
                         const std::vector<std::vector<bool>>& resident) {
  const NodeIndex n = problem.size();
  Schedule schedule;
  std::vector<bool> there(n);  // enters the stage: kept and computed before
  for (NodeIndex t = 0; t < n; ++t) {
    std::vector<bool> evaluate(n);
    evaluate[t] = true;
    for (NodeIndex i = 0; t + 1 < n && i < t; ++i)
      evaluate[i] = resident[t + 1][i] && !there[i];
    for (NodeIndex v = t + 1; v-- > 0;) {
      if (!evaluate[v]) continue;
      for (const NodeIndex dep : problem.deps[v])
        evaluate[dep] = evaluate[dep] || !there[dep];
    }
    for (NodeIndex v = 0; v <= t; ++v) {
      if (evaluate[v]) schedule.push_back(v);
    }
    for (NodeIndex i = 0; t + 1 < n && i <= t; ++i)
      there[i] = resident[t + 1][i];
  }
  return schedule;
}

}  // namespace tidemark
