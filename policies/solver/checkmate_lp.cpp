#include "policies/solver/checkmate_lp.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/linear_builder.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/neighbourhood_search.hpp"
#include "policies/solver/stage_relaxation.hpp"

namespace tidemark {
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
    std::vector<std::pair<Variable, double>> freed;  // after the node before
    freed_of_.assign(n_, {});
    for (NodeIndex k = 0; k <= t; ++k) {
      // What is part of its input takes nothing while it is made, but both are there then.
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
      if (k == t) break;  // what goes after the stage's end does not enter the next
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

  // What is there goes once or enters the next stage.
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
  std::vector<std::vector<Variable>> freed_of_;  // of the stage that is being added, by node
};

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

namespace {

using Clock = std::chrono::steady_clock;
using Fractions = std::vector<std::vector<double>>;  // S* by stage and node
using Kept = std::vector<std::vector<bool>>;

// Graphs of at most this many nodes are relaxed node by node with the paper's memory rows.
constexpr NodeIndex kWholeProgramNodes = 128;
// Of the program with longer stages, in entries of its matrix and iterations; those after the first
// program start where it ended.
constexpr std::size_t kMatrixEntries = 200'000;
constexpr int kFirstIterations = 4'000;
constexpr int kNextIterations = 1'000;
// Iterations in which memory is brought within the budget where no single eviction helps.
constexpr std::int64_t kRepairs = 20'000;

class CheckmateRounding {
 public:
  CheckmateRounding(const RematProblem& problem, const PlanRequest& request)
      : problem_(problem), request_(request), rng_(request.seed), begin_(Clock::now()) {}

  PlanResult run() {
    const bool whole = problem_.size() <= kWholeProgramNodes;
    whole ? round_single_nodes() : round_stages();
    std::string note;
    if (!whole) {
      note = fmt::format(
          "the relaxation has {} stages, each of which ends with the first "
          "evaluation of a node, in place of {}, and counts memory there",
          stages_, problem_.size());
    }
    if (!whole || !fits_) {
      const std::string closed = close();
      note += note.empty() || closed.empty() ? closed : "; " + closed;
    }
    std::vector<Schedule> candidates;
    for (Solution& one : roundings_)
      candidates.push_back(std::move(one.schedule));
    PlanResult result = choose_schedule(problem_, request_, "checkmate_lp", std::move(candidates));
    result.note = std::move(note);
    // The relaxation says nothing about schedules outside its class.
    const bool bounded = request_.schedule_class == ScheduleClass::kCheckmate ||
                         (!whole && request_.schedule_class == ScheduleClass::kFixed);
    if (bounded && result.lower_bound) {
      const std::int64_t unit = cost_unit(problem_);
      const auto bound =
          static_cast<std::int64_t>(std::floor(bound_ / static_cast<double>(unit) * (1 - 1e-9))) *
          unit;
      result.lower_bound = std::max(*result.lower_bound, bound);
    }
    return result;
  }

 private:
  [[nodiscard]] Clock::time_point at(double share) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(request_.time_limit * share);
  }

  // The paper's program, a stage for each node.
  void round_single_nodes() {
    LinearOptions options{.tolerance = 1e-5, .deadline = at(0.6)};
    const CheckmateRelaxation full = relax_checkmate(problem_, request_.budget, options);
    bound_ = full.lower_bound;
    const auto complete = [&](Kept kept) { return complete_stages(problem_, kept); };
    round(full.resident, single_nodes(), 40, 20, complete);
    // Rounding up takes memory: the paper leaves it some. The bound is that of the whole budget.
    for (const double allowance : {0.95, 0.9, 0.8, 0.7}) {
      if (fits_) break;
      options.deadline = at(0.6 + (1 - allowance));
      const std::int64_t part = part_of_budget(allowance);
      if (footprint_fault(problem_, part) || Clock::now() > at(0.9)) break;
      round(relax_checkmate(problem_, part, options).resident, single_nodes(), 40, 20, complete);
    }
    if (!fits_) round_one_stage(full.resident, single_nodes());
  }

  // The program with longer stages. One program after the other, all alike but for the room.
  void round_stages() {
    const std::vector<NodeIndex> ends = stage_ends(problem_, request_.budget, kMatrixEntries);
    stages_ = ends.size();
    const auto complete = [&](Kept kept) {
      return complete_stages(problem_, spread_over_nodes(problem_, ends, kept));
    };
    LinearOptions options{.tolerance = 1e-4, .iterations = kFirstIterations, .deadline = at(0.4)};
    StageRelaxation relaxed = relax_stages(problem_, request_.budget, ends, options);
    bound_ = relaxed.lower_bound;
    round(relaxed.resident, ends, 20, 5, complete);
    round_one_stage(relaxed.resident, ends);
    options.iterations = kNextIterations;
    for (const double allowance : {0.95, 0.9, 0.85, 0.8, 0.75, 0.7}) {
      const std::int64_t part = part_of_budget(allowance);
      if (footprint_fault(problem_, part) || Clock::now() > at(0.6)) break;
      options.deadline = std::min(at(0.7), Clock::now() + (at(0.3) - at(0.25)));
      const LinearResult before = std::move(relaxed.solved);
      options.start = &before;
      relaxed = relax_stages(problem_, part, ends, options);
      round(relaxed.resident, ends, 20, 5, complete);
      round_one_stage(relaxed.resident, ends);
    }
  }

  [[nodiscard]] std::int64_t part_of_budget(double allowance) const {
    return static_cast<std::int64_t>(static_cast<double>(request_.budget) * allowance);
  }
  [[nodiscard]] std::vector<NodeIndex> single_nodes() const {
    std::vector<NodeIndex> ends(problem_.size());
    std::iota(ends.begin(), ends.end(), NodeIndex{0});
    return ends;
  }

  // `thresholds` - 1 of them evenly spread over (0, 1), then so many random roundings.
  template <class Complete>
  void round(const Fractions& resident, const std::vector<NodeIndex>& ends, int thresholds,
             int random, Complete complete) {
    for (int k = 1; k < thresholds; ++k) {
      const double threshold = static_cast<double>(k) / thresholds;
      consider(complete(kept(resident, ends, [&](double s) { return s >= threshold; })));
    }
    for (int k = 0; k < random; ++k) {
      consider(complete(kept(resident, ends, [&](double s) {
        return static_cast<double>(rng_() >> 11) * 0x1.0p-53 < s;
      })));
    }
  }

  // What enters one stage is rounded and all else kept.
  void round_one_stage(const Fractions& resident, const std::vector<NodeIndex>& ends) {
    for (const CutChoice& choice :
         single_stage_roundings(problem_, request_.budget, ends, resident))
      consider(schedule_of(problem_, choice));
  }

  // What may run only once stays until its last reader.
  template <class Keep>
  [[nodiscard]] Kept kept(const Fractions& resident, const std::vector<NodeIndex>& ends,
                          Keep keep) const {
    Kept result;
    for (std::size_t stage = 0; stage < resident.size(); ++stage) {
      std::vector<bool>& entering = result.emplace_back(problem_.size());
      const NodeIndex first = stage == 0 ? 0 : ends[stage - 1] + 1;
      for (NodeIndex i = 0; i < resident[stage].size(); ++i) {
        const std::vector<NodeIndex>& readers = problem_.readers[i];
        const bool later = !readers.empty() && readers.back() >= first;
        entering[i] = keep(resident[stage][i]) || (problem_.once[i] && later);
      }
    }
    return result;
  }

  void consider(Schedule schedule) {
    Solution solution = replayed(problem_, std::move(schedule));
    fits_ = fits_ || solution.replay.peak <= request_.budget;
    roundings_.push_back(std::move(solution));
  }

  // Roundings than which none is both cheaper and of a lower peak, the cheapest first.
  [[nodiscard]] std::vector<Schedule> best_roundings() {
    std::stable_sort(
        roundings_.begin(), roundings_.end(), [](const Solution& a, const Solution& b) {
          return std::pair(a.replay.cost, a.replay.peak) < std::pair(b.replay.cost, b.replay.peak);
        });
    std::vector<Schedule> best;
    std::int64_t peak = std::numeric_limits<std::int64_t>::max();
    for (const Solution& one : roundings_) {
      if (one.replay.peak >= peak) continue;
      peak = one.replay.peak;
      best.push_back(one.schedule);
    }
    return best;
  }

  // From the best roundings: eviction with look-ahead or, where nothing fits then, changes at
  // random until something does. What was done to the cheapest that fits, in words.
  [[nodiscard]] std::string close() {
    constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();
    std::int64_t cheapest = kNothing;
    for (const Solution& one : roundings_) {
      if (one.replay.peak > request_.budget || !of_class(one.schedule)) continue;
      cheapest = std::min(cheapest, one.replay.cost);
    }
    std::string done;
    const auto keep = [&](std::optional<Solution> found, const char* how) {
      if (!found || found->replay.cost >= cheapest) return;
      cheapest = found->replay.cost;
      done = how;
      roundings_.push_back(*std::move(found));
    };
    const std::vector<Schedule> best = best_roundings();
    for (const Schedule& schedule : best) {
      if (Clock::now() > at(0.9)) break;
      keep(neighbourhood_search(problem_, schedule, closing(0)),
           "values were evicted from a rounding that does not fit until it does");
    }
    for (auto schedule = best.begin(); schedule != best.end() && cheapest == kNothing; ++schedule) {
      if (Clock::now() > at(0.9)) break;
      keep(neighbourhood_search(problem_, *schedule, closing(kRepairs)),
           "no rounding fits, so that one was changed at random until it does");
    }
    return done;
  }
  [[nodiscard]] bool of_class(const Schedule& schedule) const {
    return !class_fault(problem_, schedule, request_.schedule_class);
  }

  // Ends at the first schedule that fits: what is cheaper is not looked for.
  [[nodiscard]] NeighbourhoodOptions closing(std::int64_t repairs) const {
    return {.budget = request_.budget,
            .checkmate = request_.schedule_class == ScheduleClass::kCheckmate,
            .lower_bound = kNoSchedule,
            .anneal = repairs > 0,
            .iterations = repairs,
            .seed = request_.seed,
            .deadline = at(0.95)};
  }

  const RematProblem& problem_;
  const PlanRequest& request_;
  std::mt19937_64 rng_;
  Clock::time_point begin_;
  std::vector<Solution> roundings_;
  bool fits_ = false;  // some candidate does
  double bound_ = 0;   // of the relaxation under the whole budget
  std::size_t stages_ = 0;
};

}  // namespace

PlanResult plan_checkmate_lp(const RematProblem& problem, const PlanRequest& request) {
  if (footprint_fault(problem, request.budget)) {
    return choose_schedule(problem, request, "checkmate_lp", {});
  }
  return CheckmateRounding(problem, request).run();
}

}  // namespace tidemark
