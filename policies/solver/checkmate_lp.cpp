#include "policies/solver/checkmate_lp.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "policies/solver/lower_bound.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {
namespace {

using Index = int;

// Rows of equalities and of inequalities (>=), collected apart.
class Program {
 public:
  Index variable(double cost, double upper = 1) {
    program_.c.push_back(cost);
    program_.upper.push_back(upper);
    return static_cast<Index>(program_.c.size()) - 1;
  }
  struct Row {
    std::vector<LinearProgram::Entry>* into;
    int row;
    void add(Index variable, double factor) const {
      if (variable >= 0 && factor != 0) into->push_back({row, variable, factor});
    }
  };
  Row equality(double right) { return begin(program_.a, program_.b, right); }
  Row at_least(double right) { return begin(greater_, greater_right_, right); }

  LinearProgram finish() {
    program_.equalities = program_.b.size();
    for (LinearProgram::Entry entry : greater_) {
      entry.row += static_cast<int>(program_.equalities);
      program_.a.push_back(entry);
    }
    program_.b.insert(program_.b.end(), greater_right_.begin(), greater_right_.end());
    return std::move(program_);
  }

 private:
  static Row begin(std::vector<LinearProgram::Entry>& into, std::vector<double>& right,
                   double value) {
    right.push_back(value);
    return {&into, static_cast<int>(right.size()) - 1};
  }
  LinearProgram program_;
  std::vector<LinearProgram::Entry> greater_;
  std::vector<double> greater_right_;
};

constexpr Index kNone = -1;
constexpr int kThresholds = 40;
constexpr int kRandomRoundings = 20;

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
  [[nodiscard]] Index resident(NodeIndex t, NodeIndex i) const { return resident_[t][i]; }

 private:
  void add_dependencies(NodeIndex t) {
    for (NodeIndex v = 0; v <= t; ++v) {
      for (const NodeIndex u : problem_.deps[v]) {
        const Program::Row row = program_.at_least(v == t ? 1 : 0);
        row.add(evaluated_[t][u], 1);
        row.add(resident_[t][u], 1);
        if (v < t) row.add(evaluated_[t][v], -1);
      }
    }
    for (NodeIndex i = 0; i < t; ++i) {
      const Program::Row once = program_.at_least(-1);
      once.add(resident_[t][i], -1);
      once.add(evaluated_[t][i], -1);
    }
  }

  [[nodiscard]] double share(std::int64_t bytes) const {
    return static_cast<double>(bytes) / budget_;
  }

  void add_memory(NodeIndex t) {
    Index before = kNone;
    std::vector<std::pair<Index, double>> freed;  // after the node before
    freed_of_.assign(n_, {});
    for (NodeIndex k = 0; k <= t; ++k) {
      const Index used = program_.variable(0);
      // R[t,t] = 1 moves to the right.
      const Program::Row row = program_.equality((k == 0 ? share(problem_.fixed) : 0) +
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
      if (k == t) break;  // what goes after the stage's end does not enter the next
      for (const NodeIndex i : problem_.deps[k])
        add_free(t, i, k, freed);
      add_free(t, k, k, freed);
    }
    add_exits(t);
  }

  void add_workspace(NodeIndex t, NodeIndex k, Index used) {
    if (problem_.workspace[k] == 0) return;
    const double workspace = share(problem_.workspace[k]);
    const Program::Row room = program_.at_least(-1 + (k == t ? workspace : 0));
    room.add(used, -1);
    if (k < t) room.add(evaluated_[t][k], -workspace);
  }

  // What is there goes once or enters the next stage.
  void add_exits(NodeIndex t) {
    for (NodeIndex i = 0; i < t; ++i) {
      const Program::Row row = program_.at_least(0);
      row.add(resident_[t][i], 1);
      row.add(evaluated_[t][i], 1);
      for (const Index free : freed_of_[i])
        row.add(free, -1);
      if (t + 1 < n_) row.add(resident_[t + 1][i], -1);
    }
  }

  void add_free(NodeIndex t, NodeIndex i, NodeIndex k,
                std::vector<std::pair<Index, double>>& freed) {
    if (problem_.bytes[i] == 0) return;
    const std::vector<NodeIndex>& readers = problem_.readers[i];
    if (std::binary_search(readers.begin(), readers.end(), t)) return;  // the stage's end reads it
    const Index free = program_.variable(0);
    const Program::Row computed = program_.at_least(0);
    computed.add(evaluated_[t][k], 1);
    computed.add(free, -1);
    if (t + 1 < n_) {
      const Program::Row kept = program_.at_least(-1);
      kept.add(free, -1);
      kept.add(resident_[t + 1][i], -1);
    }
    for (auto j = std::upper_bound(readers.begin(), readers.end(), k); j != readers.end() && *j < t;
         ++j) {
      const Program::Row read = program_.at_least(-1);
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
  Program program_;
  std::vector<std::vector<Index>> evaluated_, resident_;  // by stage and node
  std::vector<std::vector<Index>> freed_of_;  // of the stage that is being added, by node
};

// What may run only once stays until its last reader.
template <class Keep>
std::vector<std::vector<bool>> rounded(const RematProblem& problem,
                                       const std::vector<std::vector<double>>& resident,
                                       Keep keep) {
  std::vector<std::vector<bool>> result;
  for (const std::vector<double>& stage : resident) {
    std::vector<bool>& kept = result.emplace_back(resident.size());
    for (NodeIndex i = 0; i < stage.size(); ++i) {
      const std::vector<NodeIndex>& readers = problem.readers[i];
      const bool later = !readers.empty() && readers.back() + 1 >= result.size();
      kept[i] = keep(stage[i]) || (problem.once[i] && later);
    }
  }
  return result;
}

}  // namespace

CheckmateRelaxation relax_checkmate(const RematProblem& problem, std::int64_t budget,
                                    const LinearOptions& options) {
  Relaxation relaxation(problem, budget);
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
  std::vector<bool> there(n);  // enters the stage, really: kept and computed before
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

PlanResult plan_checkmate_lp(const RematProblem& problem, const PlanRequest& request) {
  if (problem.size() > kCheckmateLpNodes) {
    return {.status = PlanStatus::kUnknown,
            .lower_bound = cut_bound(problem, request.budget, request.schedule_class),
            .reason = fmt::format("checkmate_lp takes graphs of at most {} nodes, and this has {}; "
                                  "optimal takes any",
                                  kCheckmateLpNodes, problem.size())};
  }
  if (footprint_fault(problem, request.budget)) {
    return choose_schedule(problem, request, "checkmate_lp", {});
  }
  std::mt19937_64 rng(request.seed);
  std::vector<Schedule> candidates;
  const auto add_roundings = [&](const CheckmateRelaxation& relaxed) {
    for (int k = 1; k < kThresholds; ++k) {
      const double threshold = static_cast<double>(k) / kThresholds;
      candidates.push_back(complete_stages(
          problem, rounded(problem, relaxed.resident, [&](double s) { return s >= threshold; })));
    }
    for (int k = 0; k < kRandomRoundings; ++k) {
      candidates.push_back(
          complete_stages(problem, rounded(problem, relaxed.resident, [&](double s) {
                            return static_cast<double>(rng() >> 11) * 0x1.0p-53 < s;
                          })));
    }
  };
  const auto fits = [&](const Schedule& schedule) {
    return replay(problem, schedule).peak <= request.budget;
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto at = [&](double share) {
    return begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       request.time_limit * share);
  };
  LinearOptions options{.tolerance = 1e-5, .deadline = at(0.6)};
  const CheckmateRelaxation full = relax_checkmate(problem, request.budget, options);
  add_roundings(full);
  // Rounding up takes memory: the paper leaves it some. The bound is that of the whole budget.
  for (const double allowance : {0.95, 0.9, 0.8, 0.7}) {
    if (std::any_of(candidates.begin(), candidates.end(), fits)) break;
    options.deadline = at(0.6 + (1 - allowance));
    const auto part = static_cast<std::int64_t>(static_cast<double>(request.budget) * allowance);
    if (footprint_fault(problem, part) || std::chrono::steady_clock::now() > at(0.9)) break;
    add_roundings(relax_checkmate(problem, part, options));
  }
  PlanResult result = choose_schedule(problem, request, "checkmate_lp", std::move(candidates));
  // The relaxation says nothing about schedules outside the class.
  if (request.schedule_class == ScheduleClass::kCheckmate && result.lower_bound) {
    const std::int64_t unit = cost_unit(problem);
    const auto bound = static_cast<std::int64_t>(
                           std::floor(full.lower_bound / static_cast<double>(unit) * (1 - 1e-9))) *
                       unit;
    result.lower_bound = std::max(*result.lower_bound, bound);
  }
  return result;
}

}  // namespace tidemark
