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

#include "policies/solver/checkmate_relaxation.hpp"
#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/neighbourhood_search.hpp"
#include "policies/solver/stage_relaxation.hpp"

namespace tidemark {
namespace checkmate_lp_detail {
namespace {

using Clock = std::chrono::steady_clock;
using Fractions = std::vector<std::vector<double>>;  // S* by stage and node
using Kept = std::vector<std::vector<bool>>;

// Largest number of nodes of a graph that is relaxed node by node with the paper's memory rows.
constexpr NodeIndex kWholeProgramNodes = 128;
// Limits of the program with longer stages, in entries of its matrix and iterations; those after
// the first program start where it ended.
constexpr std::size_t kMatrixEntries = 200'000;
constexpr int kFirstIterations = 4'000;
constexpr int kNextIterations = 1'000;
// Largest number of nodes of a graph whose stages are all rounded together: a table of what is
// resident has its square.
constexpr NodeIndex kRoundedNodes = 8'000;
// Iterations that bring memory within the budget if no single eviction helps.
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
    if (problem_.size() > kRoundedNodes) {
      note += fmt::format("; one stage is rounded at a time, since there are more than {} nodes",
                          kRoundedNodes);
    }
    if (!whole || !fits_) {
      const std::string closed = close();
      note += note.empty() || closed.empty() ? closed : "; " + closed;
    }
    std::vector<Schedule> candidates;
    for (Solution& one : roundings_)
      candidates.push_back(std::move(one.schedule));
    ScheduleChoice choice(problem_, request_, "checkmate_lp", begin_);
    choice.give_until(0.97);
    for (Schedule& schedule : candidates)
      choice.consider(std::exchange(schedule, {}));
    // Rounding up leaves room that the relaxation has counted on.
    choice.use_room(0.97);
    PlanResult result = choice.result();
    result.note = std::move(note);
    // The relaxation is no bound for schedules outside its class.
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

  // Solves the paper's program, with a stage for each node.
  void round_single_nodes() {
    LinearOptions options{.tolerance = 1e-5, .deadline = at(0.6)};
    const CheckmateRelaxation full = relax_checkmate(problem_, request_.budget.count, options);
    bound_ = full.lower_bound;
    const auto complete = [&](const Kept& kept) { return complete_stages(problem_, kept); };
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

  // Solves programs with longer stages, one after the other, alike except for the room.
  void round_stages() {
    const std::vector<NodeIndex> ends = stage_ends(problem_, request_.budget.count, kMatrixEntries);
    stages_ = ends.size();
    const auto complete = [&](const Kept& kept) {
      return complete_stages(problem_, spread_over_nodes(problem_, ends, kept));
    };
    LinearOptions options{.tolerance = 1e-4, .iterations = kFirstIterations, .deadline = at(0.4)};
    StageRelaxation relaxed = relax_stages(problem_, request_.budget.count, ends, options);
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
    return static_cast<std::int64_t>(static_cast<double>(request_.budget.count) * allowance);
  }
  [[nodiscard]] std::vector<NodeIndex> single_nodes() const {
    std::vector<NodeIndex> ends(problem_.size());
    std::iota(ends.begin(), ends.end(), NodeIndex{0});
    return ends;
  }

  // Tries `thresholds` - 1 of them evenly spread over (0, 1), then so many random roundings.
  template <class Complete>
  void round(const Fractions& resident, const std::vector<NodeIndex>& ends, int thresholds,
             int random, Complete complete) {
    if (problem_.size() > kRoundedNodes) return;
    for (int k = 1; k < thresholds && Clock::now() < at(0.8); ++k) {
      const double threshold = static_cast<double>(k) / thresholds;
      consider(complete(kept(resident, ends, [&](double s) { return s >= threshold; })));
    }
    for (int k = 0; k < random && Clock::now() < at(0.8); ++k) {
      consider(complete(kept(resident, ends, [&](double s) {
        return static_cast<double>(rng_() >> 11) * 0x1.0p-53 < s;
      })));
    }
  }

  // Rounds the values that enter one stage and keeps all else.
  void round_one_stage(const Fractions& resident, const std::vector<NodeIndex>& ends) {
    for (const CutChoice& choice :
         single_stage_roundings(problem_, request_.budget.count, ends, resident)) {
      if (fits_ && Clock::now() > at(0.8)) return;
      consider(schedule_of(problem_, choice));
    }
  }

  // Keeps a value that may be computed only once until its last reader.
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
    Solution solution = evaluated(problem_, std::move(schedule));
    fits_ = fits_ || solution.evaluation.peak <= request_.budget.count;
    roundings_.push_back(std::move(solution));
  }

  // Returns the roundings than which none is both cheaper and of a lower peak, the cheapest first.
  [[nodiscard]] std::vector<Schedule> best_roundings() {
    std::stable_sort(roundings_.begin(), roundings_.end(),
                     [](const Solution& a, const Solution& b) {
                       return std::pair(a.evaluation.cost, a.evaluation.peak) <
                              std::pair(b.evaluation.cost, b.evaluation.peak);
                     });
    std::vector<Schedule> best;
    std::int64_t peak = std::numeric_limits<std::int64_t>::max();
    for (const Solution& one : roundings_) {
      if (one.evaluation.peak >= peak) continue;
      peak = one.evaluation.peak;
      best.push_back(one.schedule);
    }
    return best;
  }

  // Repairs the best roundings: eviction with look-ahead or, if nothing fits then, random changes
  // until a schedule does. Returns in words what was done to the cheapest that fits.
  [[nodiscard]] std::string close() {
    constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::max();
    std::int64_t cheapest = kNothing;
    for (const Solution& one : roundings_) {
      if (one.evaluation.peak > request_.budget.count || !of_class(one.schedule)) continue;
      cheapest = std::min(cheapest, one.evaluation.cost);
    }
    std::string done;
    const auto keep = [&](std::optional<Solution> found, const char* how) {
      if (!found || found->evaluation.cost >= cheapest) return;
      cheapest = found->evaluation.cost;
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

  // Ends at the first schedule that fits and does not look for cheaper ones.
  [[nodiscard]] NeighbourhoodOptions closing(std::int64_t repairs) const {
    return {.budget = request_.budget.count,
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
  bool fits_ = false;  // whether some candidate fits
  double bound_ = 0;   // bound of the relaxation under the whole budget
  std::size_t stages_ = 0;
};

}  // namespace
}  // namespace checkmate_lp_detail

PlanResult plan_checkmate_lp(const RematProblem& problem, const PlanRequest& request) {
  if (footprint_fault(problem, request.budget.count)) {
    return choose_schedule(problem, request, "checkmate_lp", {});
  }
  return checkmate_lp_detail::CheckmateRounding(problem, request).run();
}

}  // namespace tidemark
