#include "policies/solver/lower_bound.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "policies/solver/closure_bound.hpp"

namespace tidemark {
namespace lower_bound_detail {
namespace {

constexpr std::size_t kClosures = 80;    // cuts
constexpr int kRelaxations = 200;        // relaxations of the tightest cut
constexpr std::int64_t kLevels = 16384;  // levels of cost in the table of cheapest_cover
constexpr std::int64_t kFewestLevels = 1024;
constexpr std::int64_t kMostEntries = 100'000'000;  // items x levels, where there are more levels

// Sorts by descending bytes per cost; free items first.
void sort_by_ratio(std::vector<KnapsackItem>& items) {
  std::stable_sort(items.begin(), items.end(), [](const KnapsackItem& a, const KnapsackItem& b) {
    return static_cast<double>(a.cost) * static_cast<double>(b.bytes) <
           static_cast<double>(b.cost) * static_cast<double>(a.bytes);
  });
}

// Returns the least cost of items that are dropped in the order of ratios, or less if a single one
// is enough at the end.
std::int64_t greedy_cover(const std::vector<KnapsackItem>& items, std::int64_t excess) {
  std::int64_t cost = 0;
  std::int64_t best = kNoSchedule;
  for (const KnapsackItem& item : items) {
    if (item.bytes >= excess) {
      best = std::min(best, cost + item.cost);
    } else {
      cost += item.cost;
      excess -= item.bytes;
    }
  }
  return best;
}

// The certain part of the order of first computations, seen from one node v.
struct Order {
  std::vector<bool> before;  // v comes from it, or the list has it before v
  std::vector<bool> after;   // it comes from v, or the list has it after v
};

Order order_around(const RematProblem& problem, NodeIndex v, bool fixed_order) {
  const NodeIndex n = problem.size();
  Order order{.before = std::vector<bool>(n), .after = std::vector<bool>(n)};
  const auto any = [](const std::vector<NodeIndex>& nodes, const std::vector<bool>& in,
                      NodeIndex v0) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](NodeIndex node) { return node == v0 || in[node]; });
  };
  for (NodeIndex i = v + 1; i < n; ++i)
    order.after[i] = fixed_order || any(problem.deps[i], order.after, v);
  for (NodeIndex i = v; i-- > 0;)
    order.before[i] = fixed_order || any(problem.readers[i], order.before, v);
  return order;
}

// Returns an upper limit of the bytes by which each node's cut exceeds the budget: of all nodes,
// those count that come before it in the list and are read after it.
std::vector<std::int64_t> most_excess(const RematProblem& problem, std::int64_t budget) {
  std::vector<std::int64_t> excess(problem.size());
  std::vector<std::int64_t> ended(problem.size());  // bytes whose last reader is the node
  std::int64_t across = 0;
  for (NodeIndex v = 0; v < problem.size(); ++v) {
    across -= ended[v];
    excess[v] = problem.footprint(v) + across - budget;
    // An input that is read later counts once.
    for (const NodeIndex dep : problem.deps[v])
      excess[v] -= problem.readers[dep].back() > v ? problem.bytes[dep] : 0;
    if (problem.readers[v].empty()) continue;
    across += problem.bytes[v];
    ended[problem.readers[v].back()] += problem.bytes[v];
  }
  return excess;
}

// The values that may be dropped among those that must be in memory or recomputed when v is
// computed.
struct NodeCut {
  ClosureCut closure;
  std::vector<KnapsackItem> items;
  std::int64_t excess = 0;   // bytes that have to be dropped
  std::int64_t at_most = 0;  // cost of some choice
};

NodeCut cut_at(const RematProblem& problem, NodeIndex v, std::int64_t budget, bool fixed_order) {
  const Order order = order_around(problem, v, fixed_order);
  NodeCut cut;
  cut.excess = problem.footprint(v) - budget;
  cut.closure.node = v;
  cut.closure.room = -cut.excess;
  for (NodeIndex i = 0; i < v; ++i) {
    const std::vector<NodeIndex>& readers = problem.readers[i];
    const bool read_after = std::any_of(readers.begin(), readers.end(),
                                        [&](NodeIndex reader) { return order.after[reader]; });
    if (!order.before[i] || !read_after) continue;
    if (std::binary_search(problem.deps[v].begin(), problem.deps[v].end(), i)) continue;
    if (!problem.once[i]) cut.items.push_back({problem.cost[i], problem.bytes[i]});
    cut.closure.needed.push_back(i);
    cut.excess += problem.bytes[i];
  }
  if (cut.excess <= 0) return cut;
  sort_by_ratio(cut.items);
  cut.at_most = greedy_cover(cut.items, cut.excess);
  return cut;
}

// Returns the nodes at whose cuts a budget may be exceeded. Those that exceed it most come first,
// since time may not suffice for all of them.
std::vector<NodeIndex> exceeding_nodes(const RematProblem& problem, std::int64_t budget) {
  const std::vector<std::int64_t> excess = most_excess(problem, budget);
  std::vector<NodeIndex> exceeding;
  for (NodeIndex v = 0; v < problem.size(); ++v) {
    if (excess[v] > 0) exceeding.push_back(v);
  }
  std::stable_sort(exceeding.begin(), exceeding.end(),
                   [&](NodeIndex a, NodeIndex b) { return excess[a] > excess[b]; });
  return exceeding;
}

}  // namespace
}  // namespace lower_bound_detail

std::int64_t cheapest_cover(std::vector<KnapsackItem> items, std::int64_t excess) {
  if (excess <= 0) return 0;
  std::int64_t total = 0;
  std::int64_t unit = 0;
  std::erase_if(items, [](const KnapsackItem& item) { return item.bytes == 0; });
  for (const KnapsackItem& item : items) {
    total += item.bytes;
    unit = std::gcd(unit, item.cost);
  }
  if (total < excess) return kNoSchedule;
  lower_bound_detail::sort_by_ratio(items);
  const std::int64_t enough = lower_bound_detail::greedy_cover(items, excess);
  if (enough == 0) return 0;
  const std::int64_t finest =
      std::clamp(lower_bound_detail::kMostEntries / static_cast<std::int64_t>(items.size()),
                 lower_bound_detail::kFewestLevels, lower_bound_detail::kLevels);
  unit = std::max<std::int64_t>({unit, 1, enough / finest});
  // most[c]: the most bytes that are dropped for c units.
  const auto levels = static_cast<std::size_t>(enough / unit);
  std::vector<std::int64_t> most(levels + 1, 0);
  for (const KnapsackItem& item : items) {
    const auto cost = static_cast<std::size_t>(item.cost / unit);
    for (std::size_t c = levels + 1; c-- > cost;)
      most[c] = std::max(most[c], most[c - cost] + item.bytes);
  }
  for (std::size_t c = 0; c <= levels; ++c) {
    if (most[c] >= excess) return static_cast<std::int64_t>(c) * unit;
  }
  return enough;
}

std::int64_t cut_bound(const RematProblem& problem, std::int64_t budget,
                       ScheduleClass schedule_class, std::chrono::steady_clock::time_point deadline,
                       std::vector<CutChoice>* choices) {
  using Clock = std::chrono::steady_clock;
  // Shares of the time that are over when no more cuts are looked at, and no more tables made.
  constexpr double kForCuts = 0.4;
  constexpr double kForCovers = 0.6;
  const Clock::time_point begin = Clock::now();
  const bool fixed_order = schedule_class != ScheduleClass::kUnrestricted;
  struct Tight {
    NodeIndex node;
    std::int64_t at_most;
  };
  std::vector<Tight> tight;
  const auto late = [&](double share) {
    if (deadline == Clock::time_point::max()) return false;
    const auto now = Clock::now();
    return now > begin + std::chrono::duration_cast<Clock::duration>((deadline - begin) * share);
  };
  for (const NodeIndex v : lower_bound_detail::exceeding_nodes(problem, budget)) {
    if (late(kForCuts)) break;
    const lower_bound_detail::NodeCut cut =
        lower_bound_detail::cut_at(problem, v, budget, fixed_order);
    if (cut.excess > 0) tight.push_back({v, cut.at_most});
  }
  std::sort(tight.begin(), tight.end(),
            [](const Tight& a, const Tight& b) { return a.node < b.node; });
  // Cuts that may be the greatest first, so that most need no table.
  std::stable_sort(tight.begin(), tight.end(),
                   [](const Tight& a, const Tight& b) { return a.at_most > b.at_most; });
  std::int64_t best = 0;
  for (const Tight& one : tight) {
    if (one.at_most <= best || late(kForCovers)) break;
    const lower_bound_detail::NodeCut cut =
        lower_bound_detail::cut_at(problem, one.node, budget, fixed_order);
    best = std::max(best, cheapest_cover(cut.items, cut.excess));
  }
  if (best >= kNoSchedule) return kNoSchedule;
  const std::int64_t unit = cost_unit(problem);
  // The cuts at which most has to be dropped, also with the consequences of dropping.
  double greatest = 0;
  double price = 0;
  const auto rise = [&](double to) {
    greatest = to;
    const double units = std::ceil(greatest / static_cast<double>(unit) - 1e-6);
    best = std::max(best, static_cast<std::int64_t>(units) * unit);
  };
  const auto hand_on = [&](NodeIndex node, std::vector<std::vector<NodeIndex>>& again) {
    for (std::size_t k = 0; choices != nullptr && k < again.size(); ++k)
      choices->push_back({node, std::move(again[k])});
  };
  std::optional<NodeIndex> tightest;
  for (std::size_t k = 0; k < std::min(tight.size(), lower_bound_detail::kClosures); ++k) {
    if (late(1)) break;
    const lower_bound_detail::NodeCut cut =
        lower_bound_detail::cut_at(problem, tight[k].node, budget, fixed_order);
    ClosureBound closure = closure_bound(problem, cut.closure, greatest, price, deadline);
    if (closure.cost <= greatest) continue;
    tightest = tight[k].node;
    price = closure.price;
    rise(closure.cost);
    hand_on(*tightest, closure.recomputed);
  }
  if (tightest) {
    const lower_bound_detail::NodeCut cut =
        lower_bound_detail::cut_at(problem, *tightest, budget, fixed_order);
    ClosureBound closure =
        closure_branch_and_bound(problem, cut.closure, lower_bound_detail::kRelaxations, deadline);
    if (closure.cost > greatest) rise(closure.cost);
    hand_on(*tightest, closure.recomputed);
  }
  return problem.base_cost + (best + unit - 1) / unit * unit;
}

Schedule schedule_of(const RematProblem& problem, const CutChoice& choice) {
  std::vector<bool> dropped(problem.size());
  for (const NodeIndex node : choice.recomputed)
    dropped[node] = true;
  Schedule schedule;
  std::priority_queue<NodeIndex> wanted;  // nodes to recompute before v, the latest first
  for (NodeIndex v = 0; v < problem.size(); ++v) {
    if (v > choice.node) {
      const auto want = [&](NodeIndex reader) {
        for (const NodeIndex dep : problem.deps[reader]) {
          if (!dropped[dep]) continue;
          dropped[dep] = false;
          wanted.push(dep);
        }
      };
      want(v);
      const auto before = static_cast<std::ptrdiff_t>(schedule.size());
      while (!wanted.empty()) {
        const NodeIndex i = wanted.top();
        wanted.pop();
        want(i);
        schedule.push_back(i);
      }
      std::reverse(schedule.begin() + before, schedule.end());
    }
    schedule.push_back(v);
  }
  return schedule;
}

}  // namespace tidemark
