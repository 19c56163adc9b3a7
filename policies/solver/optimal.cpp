#include "policies/solver/optimal.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "policies/remat/reachability.hpp"
#include "policies/solver/block_chain.hpp"
#include "policies/solver/chen.hpp"
#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/exact_search.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/min_cut.hpp"
#include "policies/solver/neighbourhood_search.hpp"
#include "policies/solver/stage_relaxation.hpp"

namespace tidemark {
namespace optimal_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kOnceFault =
    "what may run only once and is read later takes more than the budget beside what is computed";

constexpr NodeIndex kAlwaysSolved = 40;
constexpr std::int64_t kStatesPerIteration = 500;  // for the exact search on larger graphs
constexpr std::int64_t kMostStates = 5'000'000;
constexpr std::size_t kStages = 48;  // stages of a chain that rotor's plans are made of, at most
constexpr std::size_t kMostCompared = 2000;  // nodes up to which simpler policies are asked last
constexpr int kChoicesTried = 9;             // choices of the bound that are tried as starts
constexpr int kSmallerBudgets = 24;          // steps from the least budget to that of keeping all
constexpr int kSmallerBudgetsTried = 8;      // the nearest below the budget

class Planner {
 public:
  Planner(const RematProblem& problem, const PlanRequest& request)
      : problem_(problem), request_(request), start_(Clock::now()) {}

  PlanResult run() {
    if (auto fault = footprint_fault(problem_, request_.budget.count)) {
      return {.status = PlanStatus::kInfeasible, .reason = *std::move(fault)};
    }
    Schedule once(problem_.size());
    std::iota(once.begin(), once.end(), NodeIndex{0});
    consider(evaluated(problem_, once));
    if (request_.known != nullptr &&
        !class_fault(problem_, *request_.known, request_.schedule_class)) {
      consider(evaluated(problem_, *request_.known));
    }
    bound_ =
        cut_bound(problem_, request_.budget.count, request_.schedule_class, at(0.2), &choices_);
    if (bound_ >= kNoSchedule) return {.status = PlanStatus::kInfeasible, .reason = kOnceFault};
    if (!done()) search(once);
    return result();
  }

 private:
  void search(const Schedule& once) {
    if (problem_.size() > kMostCompared) {
      // Its neighbourhood search takes long to fit a large graph, which simpler policies do at
      // once.
      start_from_policies(0.3);
      if (done()) return;
    }
    if (problem_.size() <= kExactNodes) {
      search_small(once);
    } else {
      search_large(once);
    }
  }

  void search_large(const Schedule& once) {
    improve(once, 1, 0.1, false);  // eviction with look-ahead
    start_from_less(once);
    start_from_cuts();
    if (best_ && !done()) improve(once, iterations(), 0.15, false);
    if (!done()) start_from_blocks();
    if (!done()) combine_cuts();
    if (!done() && problem_.size() <= kMostCompared) start_from_policies(0.8);
    if (!done()) reach_budget(once, iterations(), 0.97);
  }

  void search_small(const Schedule& once) {
    // Small graphs are solved in the time that a first neighbourhood search takes.
    reach_budget(once, problem_.size() <= kAlwaysSolved ? 2'000 : 20'000, 0.3);
    if (impossible_ || done()) return;
    start_from_less(once);
    if (!done() && request_.schedule_class != ScheduleClass::kUnrestricted) combine_cuts();
    if (done()) return;
    if (problem_.size() > kAlwaysSolved) start_from_policies(0.8);
    if (done()) return;
    solve();
    if (!done() && !complete_) improve(once, iterations(), 0.97, true);
  }

  // Improves the best plan; where no plan fits yet, also from a constructed one.
  void reach_budget(const Schedule& once, std::int64_t iterations, double share) {
    improve(once, iterations, share, false);
    if (!best_ && construct()) improve(once, iterations, share, true);
  }

  // Starts from plans for less memory, as a schedule that fits in less fits here. These
  // budgets depend on the graph only, not on the requested one: plans of larger budgets are
  // measured against the same ones of less.
  void start_from_less(const Schedule& once) {
    const std::int64_t low = problem_.footprint(problem_.largest_footprint());
    const std::int64_t high = evaluate(problem_, once).peak;
    int tried = 0;
    for (int step = kSmallerBudgets; step-- > 0 && tried < kSmallerBudgetsTried && !done();) {
      const std::int64_t budget = low + (high - low) / kSmallerBudgets * step;
      if (budget >= request_.budget.count) continue;
      ++tried;
      NeighbourhoodOptions less = options(1, at(0.15), false);
      less.budget = budget;
      less.seed = request_.seed;
      const auto found = neighbourhood_search(problem_, once, less);
      if (!found) break;
      consider(*found);
      start_from(found->schedule, at(0.15));
    }
  }

  // Computes the bound of several cuts together, for the classes that keep to the list's order, and
  // schedules from its relaxations, which are of every class.
  void combine_cuts() {
    if (choices_.empty()) return;
    std::vector<CutChoice> roundings;
    const std::int64_t combined = combined_bound(
        problem_, request_.budget.count, choices_.back().node, bound_, at(0.35), &roundings);
    if (request_.schedule_class != ScheduleClass::kUnrestricted) bound_ = combined;
    if (!done()) start_from_roundings(roundings);
  }

  // Starts from the relaxations' roundings than which none is both cheaper and of a lower peak.
  void start_from_roundings(const std::vector<CutChoice>& roundings) {
    std::vector<Solution> starts;
    starts.reserve(roundings.size());
    for (const CutChoice& choice : roundings) {
      if (Clock::now() > at(0.45)) break;
      starts.push_back(evaluated(problem_, schedule_of(problem_, choice)));
    }
    std::stable_sort(starts.begin(), starts.end(), [](const Solution& a, const Solution& b) {
      return std::pair(a.evaluation.cost, a.evaluation.peak) <
             std::pair(b.evaluation.cost, b.evaluation.peak);
    });
    std::int64_t peak = std::numeric_limits<std::int64_t>::max();
    for (const Solution& start : starts) {
      if (start.evaluation.peak >= peak || done()) continue;
      peak = start.evaluation.peak;
      start_from(start.schedule, at(0.5));
    }
  }

  // Starts from the bound's own choice: if one moment of the step decides, it is nearly a schedule.
  void start_from_cuts() {
    for (auto choice = choices_.rbegin(); choice != choices_.rend(); ++choice) {
      if (choice - choices_.rbegin() == kChoicesTried) break;
      start_from(schedule_of(problem_, *choice), at(0.3));
    }
  }

  // Starts from the best plans inside each block, if the graph is a chain of blocks. That start is
  // improved on its own: the result of a search from another start is elsewhere.
  void start_from_blocks() {
    std::optional<Solution> best;
    for (Schedule& schedule :
         block_chain_schedules(problem_, request_.budget.count,
                               {.plans = 32, .seed = request_.seed, .deadline = at(0.5)})) {
      if (class_fault(problem_, schedule, request_.schedule_class)) continue;
      Solution next = evaluated(problem_, std::move(schedule));
      if (next.evaluation.peak > request_.budget.count) continue;
      if (!best || next.evaluation.cost < best->evaluation.cost) best = std::move(next);
    }
    if (!best) return;
    consider(*best);
    if (done()) return;
    const auto found =
        neighbourhood_search(problem_, best->schedule, options(iterations(), at(0.75), false));
    if (found) consider(*found);
  }

  // Starts from the plans of simpler policies, which are plans of this one, too, until `share` of
  // the time is over.
  void start_from_policies(double share) {
    const auto start = [&](const std::optional<Solution>& found) {
      if (!found || done()) return;
      if (class_fault(problem_, found->schedule, request_.schedule_class)) return;
      consider(*found);
      start_from(found->schedule, at(share));
    };
    ScheduleChoice choice(problem_, request_, "optimal", start_);
    choice.give_until(0.4 * share);
    for (const std::string_view over : {"articulation", "layers"})
      consider_chen(problem_, over, choice);
    choice.give_until(0.6 * share);
    consider_min_cuts(problem_, choice);
    choice.give_until(0.8 * share);
    if (const std::vector<Stage> stages = stages_of(problem_, kStages); stages.size() > 1) {
      for (Schedule& schedule : first_stages_schedules(problem_, stages))
        choice.consider(std::move(schedule));
      const BlockChainOptions whole{
          .stages = kStages, .plans = 0, .deadline = choice.candidates_end()};
      for (Schedule& schedule : block_chain_schedules(problem_, request_.budget.count, whole))
        choice.consider(std::move(schedule));
    }
    choice.use_room(0.9 * share);
    start(choice.cheapest());
  }

  // Returns false when nothing is left to do: it is proven that no schedule fits.
  bool construct() {
    Construction found = construct_schedule(problem_, request_.budget.count, 200'000, at(0.6));
    if (found.reach == Reach::kImpossible) {
      impossible_ = found.node;
      return false;
    }
    if (found.reach == Reach::kReached &&
        !class_fault(problem_, found.schedule, request_.schedule_class)) {
      consider(evaluated(problem_, std::move(found.schedule)));
    }
    return true;
  }

  void start_from(const Schedule& schedule, Clock::time_point deadline) {
    const auto found = neighbourhood_search(problem_, schedule, options(1, deadline, false));
    if (found) consider(*found);
  }

  [[nodiscard]] NeighbourhoodOptions options(std::int64_t iterations, Clock::time_point deadline,
                                             bool anneal) const {
    return {.budget = request_.budget.count,
            .checkmate = request_.schedule_class == ScheduleClass::kCheckmate,
            .lower_bound = bound_,
            .anneal = anneal,
            .iterations = iterations,
            .seed = request_.seed + searches_,
            .deadline = deadline};
  }

  void improve(const Schedule& once, std::int64_t iterations, double share, bool anneal) {
    const Schedule& from = best_ ? best_->schedule : once;
    const auto search = options(iterations, at(share), anneal);
    ++searches_;
    if (auto found = neighbourhood_search(problem_, from, search)) consider(*std::move(found));
  }

  void solve() {
    ExactOptions options{.budget = request_.budget.count,
                         .schedule_class = request_.schedule_class,
                         .deadline = at(0.7)};
    // Graphs of dozens of nodes are solved to the end; of larger ones the search mostly leaves a
    // part open, and where iterations limit the work, they limit that, too.
    if (problem_.size() > kAlwaysSolved && request_.iterations > 0) {
      const std::int64_t states = std::min(request_.iterations, kMostStates / kStatesPerIteration);
      options.state_limit = static_cast<std::size_t>(states * kStatesPerIteration);
    }
    if (best_) options.better_than = best_->evaluation.cost;
    const ExactResult exact = exact_search(problem_, options);
    complete_ = exact.complete;
    if (exact.schedule) consider(evaluated(problem_, *exact.schedule));
    bound_ = std::max(
        bound_, best_ ? std::min(exact.lower_bound, best_->evaluation.cost) : exact.lower_bound);
  }

  [[nodiscard]] Clock::time_point at(double share) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(request_.time_limit * share);
  }

  // Takes every schedule; keeps only one that is evaluated to be within the budget and the class.
  void consider(Solution solution) {
    if (solution.evaluation.peak > request_.budget.count) return;
    // Among schedules of equal cost the one with fewer computations is better: the host issues
    // each.
    const auto rank = [](const Solution& s) {
      return std::pair(s.evaluation.cost, s.schedule.size());
    };
    if (best_ && rank(*best_) <= rank(solution)) return;
    if (const auto fault = class_fault(problem_, solution.schedule, request_.schedule_class)) {
      throw InternalError(fmt::format("a schedule is not of class {}: {}",
                                      name_of(request_.schedule_class), *fault));
    }
    best_ = std::move(solution);
  }
  [[nodiscard]] std::int64_t iterations() const {
    return request_.iterations > 0 ? request_.iterations : std::int64_t{1} << 60;
  }
  [[nodiscard]] bool done() const { return best_ && best_->evaluation.cost <= bound_; }

  [[nodiscard]] PlanResult result() {
    if (best_) {
      return {.status = done() ? PlanStatus::kOptimal : PlanStatus::kFeasible,
              .solution = std::move(best_),
              .lower_bound = bound_};
    }
    if (impossible_) {
      return {.status = PlanStatus::kInfeasible,
              .reason =
                  fmt::format("node {} cannot be computed within {} ({} bytes), whatever is "
                              "dropped and recomputed for it",
                              *impossible_, format_bytes(request_.budget), request_.budget.count)};
    }
    if (complete_) {
      return {.status = PlanStatus::kInfeasible,
              .reason = fmt::format("an exhaustive search found no schedule of class {} that fits",
                                    name_of(request_.schedule_class))};
    }
    return {.status = PlanStatus::kUnknown,
            .lower_bound = bound_,
            .reason =
                "no schedule that fits was found in the time given, nor a proof that there "
                "is none"};
  }

  const RematProblem& problem_;
  const PlanRequest& request_;
  Clock::time_point start_;
  std::optional<Solution> best_;
  std::int64_t bound_ = 0;
  std::vector<CutChoice> choices_;
  std::uint64_t searches_ = 0;  // searches so far; each has its own random sequence
  bool complete_ = false;       // the exact search ended
  std::optional<NodeIndex> impossible_;
};

}  // namespace
}  // namespace optimal_detail

PlanResult plan_optimal(const RematProblem& problem, const PlanRequest& request) {
  return optimal_detail::Planner(problem, request).run();
}

}  // namespace tidemark
