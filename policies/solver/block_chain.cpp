#include "policies/solver/block_chain.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "graph/core/saturated.hpp"
#include "policies/solver/neighbourhood_search.hpp"

namespace tidemark {
namespace block_chain_detail {
namespace {

constexpr std::int64_t kSlots = 1000;
constexpr std::int64_t kUnknown = -1;
constexpr int kRooms = 10;  // rooms that are tried
constexpr NodeIndex kOutside = ~NodeIndex{0};

// A way to go through one stage.
struct StagePlan {
  Schedule forward;  // by place in the stage: forward nodes, then backward nodes
  Schedule backward;
  std::int64_t kept = 0;          // bytes between the two, the output included
  std::int64_t forward_peak = 0;  // bytes of the stage's own values, workspaces included
  std::int64_t backward_peak = 0;
  std::int64_t cost = 0;
};

// Identifies a stage's problem: two stages with equal signatures are the same problem.
using Signature = std::vector<std::int64_t>;

class BlockChain {
 public:
  BlockChain(const RematProblem& problem, const BlockChainOptions& options)
      : problem_(problem), options_(options), stages_(stages_of(problem, options.stages)) {
    place_.assign(problem.size(), kOutside);
    stage_.assign(problem.size(), 0);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      NodeIndex place = 0;
      for (const auto* part : {&stages_[s].forward, &stages_[s].backward}) {
        for (const NodeIndex node : *part) {
          place_[node] = place++;
          stage_[node] = s;
        }
      }
    }
    std::map<Signature, std::size_t> known;
    for (std::size_t s = 0; s < stages_.size() && stages_.size() > 1; ++s) {
      const auto [at, fresh] = known.try_emplace(signature(s), plans_.size());
      if (fresh) plans_.push_back(make_plans(s));
      plans_of_.push_back(at->second);
      least_before_.push_back(least_before_.back() + least_cost(plans_[at->second]));
      describe_passage(s);
      describe_gradients(s);
    }
  }
  [[nodiscard]] std::size_t stages() const { return stages_.size(); }

  // Returns nothing if no estimated combination fits.
  std::optional<Schedule> solve(std::int64_t room) {
    if (room <= 0) return std::nullopt;
    slot_ = std::max<std::int64_t>(1, room / kSlots);
    const std::int64_t memory = room / slot_;
    levels_ = static_cast<std::size_t>(memory) + 1;
    measure_in_slots();
    states_.assign(stages_.size() * stages_.size() * levels_, Choice{});
    const std::size_t last = stages_.size() - 1;
    if (cost(0, last, memory) >= kInfinite) return std::nullopt;
    schedule_.clear();
    computed_.assign(problem_.size(), false);
    build(0, last, memory);
    return schedule_;
  }

 private:
  struct Choice {
    std::int64_t cost = kUnknown;
    std::uint32_t plan = 0;
    std::uint32_t split = 0;  // > 0: the stage whose input is kept while those before run through
  };

  [[nodiscard]] std::vector<NodeIndex> nodes_of(std::size_t s) const {
    std::vector<NodeIndex> nodes = stages_[s].forward;
    nodes.insert(nodes.end(), stages_[s].backward.begin(), stages_[s].backward.end());
    return nodes;
  }
  [[nodiscard]] std::int64_t slots(std::int64_t bytes) const { return (bytes + slot_ / 2) / slot_; }
  // Returns the least bytes of which slots() is more than `memory`.
  [[nodiscard]] std::int64_t beyond(std::int64_t memory) const {
    return (memory + 1) * slot_ - slot_ / 2;
  }
  void measure_in_slots() {
    kept_slots_.clear();
    for (const std::vector<StagePlan>& plans : plans_) {
      kept_slots_.emplace_back();
      for (const StagePlan& plan : plans)
        kept_slots_.back().push_back(slots(plan.kept));
    }
    output_slots_.clear();
    for (const std::int64_t bytes : output_)
      output_slots_.push_back(slots(bytes));
  }

  [[nodiscard]] Signature signature(std::size_t s) const {
    Signature result{static_cast<std::int64_t>(stages_[s].forward.size()),
                     static_cast<std::int64_t>(place_[stages_[s].output])};
    for (const NodeIndex node : nodes_of(s)) {
      result.insert(result.end(), {problem_.cost[node], problem_.bytes[node],
                                   problem_.workspace[node], problem_.once[node] ? 1 : 0, -1});
      for (const NodeIndex dep : problem_.deps[node]) {
        if (stage_[dep] == s) result.push_back(place_[dep]);
      }
    }
    return result;
  }

  // Returns the problem of the stage alone, without values from outside. Between forward and
  // backward it has a node that reads the output and leaves `kept` bytes for the stage.
  [[nodiscard]] RematProblem inside(std::size_t s, std::int64_t budget, std::int64_t kept) const {
    RematProblem local;
    const auto forward = static_cast<NodeIndex>(stages_[s].forward.size());
    const NodeIndex output = place_[stages_[s].output];
    const auto add = [&](std::int64_t cost, std::int64_t bytes, std::int64_t workspace, bool back,
                         bool once, std::vector<NodeIndex> deps) {
      local.cost.push_back(cost);
      local.bytes.push_back(bytes);
      local.workspace.push_back(workspace);
      local.backward.push_back(back);
      local.once.push_back(once);
      local.block.push_back(kNoBlock);
      local.off_main_path.push_back(false);
      local.base_cost += cost;
      local.deps.push_back(std::move(deps));
    };
    for (const NodeIndex node : nodes_of(s)) {
      if (local.size() == forward) add(0, 0, budget - kept, true, true, {output});
      std::vector<NodeIndex> deps;
      for (const NodeIndex dep : problem_.deps[node]) {
        if (stage_[dep] == s) deps.push_back(place_[dep] + (place_[dep] >= forward ? 1 : 0));
      }
      add(problem_.cost[node], problem_.bytes[node], problem_.workspace[node],
          problem_.backward[node], problem_.once[node], std::move(deps));
    }
    if (local.size() == forward) add(0, 0, budget - kept, true, true, {output});
    local.readers.resize(local.size());
    for (NodeIndex node = 0; node < local.size(); ++node) {
      for (const NodeIndex dep : local.deps[node])
        local.readers[dep].push_back(node);
    }
    return local;
  }

  [[nodiscard]] StagePlan measured(const RematProblem& local, const Schedule& schedule,
                                   NodeIndex turn) const {
    StagePlan plan;
    std::vector<std::size_t> newest(local.size());
    std::vector<std::size_t> ends(schedule.size());
    for (std::size_t p = 0; p < schedule.size(); ++p) {
      for (const NodeIndex dep : local.deps[schedule[p]])
        ends[newest[dep]] = p;
      newest[schedule[p]] = p;
      ends[p] = p;
    }
    std::vector<std::int64_t> freed(schedule.size());
    for (std::size_t p = 0; p < schedule.size(); ++p)
      freed[ends[p]] += local.bytes[schedule[p]];
    std::int64_t live = 0;
    bool back = false;
    for (std::size_t p = 0; p < schedule.size(); ++p) {
      const NodeIndex node = schedule[p];
      plan.cost += local.cost[node];
      live += local.bytes[node];
      if (node == turn) {
        back = true;
        plan.kept = live;
      } else {
        std::int64_t& peak = back ? plan.backward_peak : plan.forward_peak;
        peak = std::max(peak, live + local.workspace[node]);
        (back ? plan.backward : plan.forward).push_back(node > turn ? node - 1 : node);
      }
      live -= freed[p];
    }
    return plan;
  }

  [[nodiscard]] std::vector<StagePlan> make_plans(std::size_t s) const {
    const auto turn = static_cast<NodeIndex>(stages_[s].forward.size());
    constexpr std::int64_t kAmple = std::int64_t{1} << 56;
    const RematProblem free = inside(s, kAmple, kAmple);
    Schedule once(free.size());
    std::iota(once.begin(), once.end(), NodeIndex{0});
    std::vector<StagePlan> plans{measured(free, once, turn)};
    const StagePlan all = plans.front();
    const std::int64_t least = free.bytes[place_[stages_[s].output]];
    const std::int64_t peak = std::max(all.forward_peak, all.backward_peak);
    for (int k = 0; k < options_.plans && all.kept > least; ++k) {
      if (std::chrono::steady_clock::now() > options_.deadline) break;
      const auto share = static_cast<double>(k) / options_.plans;
      const std::int64_t kept =
          least + static_cast<std::int64_t>(share * static_cast<double>(all.kept - least));
      const RematProblem local = inside(s, peak, kept);
      if (peak < kept) continue;
      const auto found = neighbourhood_search(local, once,
                                              {.budget = peak,
                                               .lower_bound = local.base_cost,
                                               .anneal = true,
                                               .iterations = options_.iterations,
                                               .seed = options_.seed,
                                               .deadline = options_.deadline});
      if (found) plans.push_back(measured(local, found->schedule, turn));
    }
    return plans;
  }

  void describe_passage(std::size_t s) {
    const NodeIndex output = stages_[s].output;
    output_.push_back(problem_.bytes[output]);
    std::int64_t live = 0;
    std::int64_t peak = 0;
    std::int64_t cost = 0;
    std::vector<NodeIndex> last(problem_.size(), 0);
    for (const NodeIndex node : stages_[s].forward) {
      for (const NodeIndex dep : problem_.deps[node])
        last[dep] = node;
    }
    for (const NodeIndex node : stages_[s].forward) {
      live += problem_.bytes[node];
      peak = std::max(peak, live + problem_.workspace[node]);
      cost += problem_.once[node] ? 0 : problem_.cost[node];
      for (const NodeIndex dep : problem_.deps[node]) {
        if (last[dep] == node && stage_[dep] == s) live -= problem_.bytes[dep];
      }
      if (last[node] == 0 && node != output) live -= problem_.bytes[node];
    }
    through_peak_.push_back(peak);
    through_cost_.push_back(cost);
  }
  // Gradients are split: those that the next stage downwards takes, and those that stay.
  void describe_gradients(std::size_t s) {
    std::int64_t stays = 0;
    for (const NodeIndex node : stages_[s].backward) {
      const std::vector<NodeIndex>& readers = problem_.readers[node];
      if (readers.empty()) continue;
      const NodeIndex last = readers.back();
      if (last + 1 == problem_.size() || stage_[last] + 1 < s) stays += problem_.bytes[node];
    }
    stays_before_.push_back(stays_before_.back() + stays);
    std::int64_t given = 0;
    std::vector<bool> seen(problem_.size());
    for (const NodeIndex node : stages_[s].backward) {
      for (const NodeIndex dep : problem_.deps[node]) {
        if (!problem_.backward[dep] || stage_[dep] != s + 1 || seen[dep]) continue;
        seen[dep] = true;
        if (problem_.readers[dep].back() + 1 != problem_.size()) given += problem_.bytes[dep];
      }
    }
    gradient_.push_back(given);
  }

  [[nodiscard]] std::int64_t stays(std::size_t first, std::size_t last) const {
    return stays_before_[last + 1] - stays_before_[first];
  }
  // Whether stages s..t can begin with the plan; `beyond`: see there.
  [[nodiscard]] bool fits(const StagePlan& plan, std::size_t s, std::size_t t,
                          std::int64_t beyond) const {
    return gradient_[t] + plan.forward_peak < beyond &&
           gradient_[s] + plan.backward_peak + stays(s + 1, t) < beyond;
  }

  [[nodiscard]] static std::int64_t least_cost(const std::vector<StagePlan>& plans) {
    std::int64_t least = kInfinite;
    for (const StagePlan& plan : plans)
      least = std::min(least, plan.cost);
    return least;
  }
  // Returns the cost of stages s..t if there were memory for each one's cheapest plan, which no
  // combination is below: what cannot be better by it is not looked at.
  [[nodiscard]] std::int64_t least(std::size_t s, std::size_t t) const {
    return least_before_[t + 1] - least_before_[s];
  }
  [[nodiscard]] Choice& state(std::size_t s, std::size_t t, std::int64_t memory) {
    return states_[(s * stages_.size() + t) * levels_ + static_cast<std::size_t>(memory)];
  }
  std::int64_t cost(std::size_t s, std::size_t t, std::int64_t memory) {
    if (memory < 0) return kInfinite;
    if (const std::int64_t known = state(s, t, memory).cost; known != kUnknown) return known;
    Choice best{.cost = kInfinite};
    const std::vector<StagePlan>& plans = plans_[plans_of_[s]];
    const std::vector<std::int64_t>& kept = kept_slots_[plans_of_[s]];
    const std::int64_t least_rest = least(s, t) - least(s, s);
    const std::int64_t too_much = beyond(memory);
    for (std::size_t k = 0; k < plans.size(); ++k) {
      if (plans[k].cost + least_rest >= best.cost || !fits(plans[k], s, t, too_much)) continue;
      const std::int64_t rest = s == t ? 0 : cost(s + 1, t, memory - kept[k]);
      if (rest < kInfinite && rest + plans[k].cost < best.cost)
        best = {rest + plans[k].cost, static_cast<std::uint32_t>(k), 0};
    }
    std::int64_t through = 0;
    for (std::size_t split = s + 1; split <= t; ++split) {
      const std::size_t j = split - 1;
      const std::int64_t input = j > s ? output_[j - 1] : 0;
      if (gradient_[t] + input + through_peak_[j] >= too_much) break;
      through += through_cost_[j];
      if (through + least(s, t) >= best.cost) break;
      const std::int64_t later = cost(split, t, memory - output_slots_[j]);
      if (later >= kInfinite || through + later + least(s, j) >= best.cost) continue;
      const std::int64_t earlier = cost(s, j, memory - slots(stays(split, t)));
      if (earlier >= kInfinite || through + later + earlier >= best.cost) continue;
      best = {through + later + earlier, 0, static_cast<std::uint32_t>(split)};
    }
    state(s, t, memory) = best;
    return best.cost;
  }

  void run(std::size_t s, const Schedule& places) {
    const std::vector<NodeIndex> nodes = nodes_of(s);
    for (const NodeIndex place : places) {
      const NodeIndex node = nodes[place];
      if (problem_.once[node] && computed_[node]) continue;
      computed_[node] = true;
      schedule_.push_back(node);
    }
  }
  void build(std::size_t s, std::size_t t, std::int64_t memory) {
    const Choice choice = state(s, t, memory);
    if (choice.split == 0) {
      const StagePlan& plan = plans_[plans_of_[s]][choice.plan];
      run(s, plan.forward);
      if (s < t) build(s + 1, t, memory - slots(plan.kept));
      run(s, plan.backward);
      return;
    }
    for (std::size_t j = s; j < choice.split; ++j) {
      Schedule places(stages_[j].forward.size());
      std::iota(places.begin(), places.end(), NodeIndex{0});
      run(j, places);
    }
    build(choice.split, t, memory - output_slots_[choice.split - 1]);
    build(s, choice.split - 1, memory - slots(stays(choice.split, t)));
  }

  const RematProblem& problem_;
  BlockChainOptions options_;
  std::vector<Stage> stages_;
  std::vector<NodeIndex> place_;               // by node, in its stage
  std::vector<std::size_t> stage_;             // by node
  std::vector<std::vector<StagePlan>> plans_;  // plans of distinct stages
  std::vector<std::size_t> plans_of_;          // by stage
  std::vector<std::int64_t> least_before_{0};  // least costs of all stages before each one
  // Bytes by stage: its output; gradients that its backward takes.
  std::vector<std::int64_t> output_, gradient_;
  std::vector<std::int64_t> stays_before_{0};  // gradients that all stages before each one leave
  std::vector<std::int64_t> through_peak_, through_cost_;  // of its forward that keeps its output
  std::int64_t slot_ = 1;
  std::vector<std::vector<std::int64_t>> kept_slots_;  // StagePlan::kept of plans_
  std::vector<std::int64_t> output_slots_;
  std::size_t levels_ = 0;  // levels of memory
  std::vector<Choice> states_;
  Schedule schedule_;
  std::vector<bool> computed_;
};

}  // namespace
}  // namespace block_chain_detail

std::vector<Schedule> block_chain_schedules(const RematProblem& problem, std::int64_t budget,
                                            const BlockChainOptions& options) {
  // Plans for the stages may take two thirds of the time; the rest is for combining them.
  BlockChainOptions inside = options;
  using Clock = std::chrono::steady_clock;
  const auto now = Clock::now();
  if (options.deadline != Clock::time_point::max())
    inside.deadline = now + (options.deadline - now) * 2 / 3;
  block_chain_detail::BlockChain chain(problem, inside);
  if (chain.stages() < 2) return {};
  std::vector<Schedule> schedules;
  // Bisection for the room that the budget just holds: `low` is expected to fit, `high` is not.
  const auto room = static_cast<double>(budget - problem.fixed);
  double low = 0.5, high = 1.2, share = 1;
  for (int k = 0; k < block_chain_detail::kRooms && Clock::now() <= options.deadline; ++k) {
    std::optional<Schedule> schedule = chain.solve(saturated(room * share));
    const bool fits = schedule && evaluate(problem, *schedule).peak <= budget;
    // If nothing is found more room is needed, and it will not fit.
    if (!schedule && share >= 1) break;
    (fits || !schedule ? low : high) = share;
    if (schedule) schedules.push_back(*std::move(schedule));
    share = k == 0 ? (fits ? 1.03 : 0.97) : (low + high) / 2;
  }
  return schedules;
}

}  // namespace tidemark
