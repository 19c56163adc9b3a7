#include "policies/solver/closure_bound.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "policies/solver/max_flow.hpp"

namespace tidemark {
namespace closure_bound_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChoicesHandedOn = 8;  // choices that are handed on
constexpr int kPrices = 40;                  // prices that are tried at most

// The line that touches the bound, which is concave in the price, at one price.
struct Line {
  double price = 0;
  double value = 0;
  double slope = 0;  // bytes that are kept above the room
  std::vector<NodeIndex> recomputed;
};

// A decision about r_i.
struct Decision {
  NodeIndex node;
  bool recomputed;
};
using Decisions = std::vector<Decision>;

struct Relaxed {
  double cost = 0;
  double price = 0;
  std::optional<Line> low;   // keeps too much
  std::optional<Line> high;  // fits
};

class CutRelaxation {
 public:
  CutRelaxation(const RematProblem& problem, const ClosureCut& cut, Clock::time_point deadline)
      : problem_(problem), cut_(cut), deadline_(deadline), needed_(cut.node), input_(cut.node) {
    for (const NodeIndex i : cut.needed)
      needed_[i] = true;
    for (const NodeIndex dep : problem.deps[cut.node])
      input_[dep] = true;
    double total = 0;
    least_ = std::numeric_limits<double>::infinity();
    for (NodeIndex i = 0; i < cut.node; ++i) {
      total += cost(i);
      if (problem.bytes[i] == 0 || problem.cost[i] == 0) continue;
      least_ = std::min(least_, cost(i) / bytes(i));
      most_ = std::max(most_, total / bytes(i));
    }
    trivial_ = most_ <= least_;
    least_ /= 2;
    most_ = std::max(most_, 4 * least_);
  }

  [[nodiscard]] Relaxed relax(const Decisions& decisions, double enough, double price) const;
  [[nodiscard]] double cost_of(const std::vector<NodeIndex>& nodes) const {
    double sum = 0;
    for (const NodeIndex i : nodes)
      sum += cost(i);
    return sum;
  }
  // Returns the node of the greatest weight among those that the two lines treat differently.
  [[nodiscard]] std::optional<NodeIndex> undecided(const Relaxed& relaxed) const;

 private:
  // Vertices: r_i, then a_i (i is there after v, kept or recomputed), source, sink. Choosing r_i
  // gains price bytes_i - cost_i and takes a_i and the a's of its inputs along; an a_i that nothing
  // else needs costs price bytes_i.
  // Returns nothing where the deadline comes first.
  [[nodiscard]] std::optional<Line> at(double price, const Decisions& decisions) const {
    const NodeIndex n = cut_.node;
    FlowNetwork network(2 * std::size_t{n} + 2);
    const std::uint32_t source = 2 * n;
    const std::uint32_t sink = source + 1;
    double all = 1;
    double forced = 0;
    double gains = 0;
    double fixed = 0;  // gains of decided nodes
    std::vector<int> decided(n, kOpen);
    for (const Decision& decision : decisions)
      decided[decision.node] = decision.recomputed ? kRecomputed : kNever;
    for (NodeIndex i = 0; i < n; ++i)
      all += price * bytes(i) + cost(i);
    for (NodeIndex i = 0; i < n; ++i) {
      if (input_[i]) continue;
      const double held = price * bytes(i);
      if (needed_[i]) {
        forced += held;
      } else {
        network.add_edge(n + i, sink, held);
      }
      if (decided[i] == kNever) network.add_edge(i, sink, all);
      if (problem_.once[i] || decided[i] == kNever) continue;
      if (decided[i] == kRecomputed) {
        fixed += held - cost(i);
        network.add_edge(source, i, all);
      } else if (held > cost(i)) {
        gains += held - cost(i);
        network.add_edge(source, i, held - cost(i));
      } else {
        continue;
      }
      take_along(i, all, network);
    }
    const std::optional<double> flow = network.run(source, sink, deadline_);
    if (!flow) return std::nullopt;
    Line result{.price = price};
    const double room = static_cast<double>(cut_.room);
    // The possible error of the sums is subtracted.
    result.value = forced - fixed - (gains - *flow) - price * room -
                   1e-9 * (forced + std::abs(fixed) + gains + price * room);
    result.slope = -room;
    add_choice(network, result);
    return result;
  }
  // Makes the choice of r_i take a_i and the a's of its inputs along.
  void take_along(NodeIndex i, double all, FlowNetwork& network) const {
    const NodeIndex n = cut_.node;
    if (!needed_[i]) network.add_edge(i, n + i, all);
    for (const NodeIndex dep : problem_.deps[i]) {
      if (!input_[dep] && !needed_[dep]) network.add_edge(i, n + dep, all);
    }
  }
  // Adds to a line the nodes that the cut chooses to recompute, and the bytes that it keeps.
  void add_choice(const FlowNetwork& network, Line& line) const {
    const NodeIndex n = cut_.node;
    for (NodeIndex i = 0; i < n; ++i) {
      const bool there = needed_[i] || network.reaches(n + i);
      if (network.reaches(i)) {
        line.recomputed.push_back(i);
      } else if (!input_[i] && there) {
        line.slope += bytes(i);
      }
    }
  }

  enum { kOpen, kRecomputed, kNever };
  [[nodiscard]] double bytes(NodeIndex i) const { return static_cast<double>(problem_.bytes[i]); }
  [[nodiscard]] double cost(NodeIndex i) const { return static_cast<double>(problem_.cost[i]); }

  const RematProblem& problem_;
  const ClosureCut& cut_;
  Clock::time_point deadline_;
  std::vector<bool> needed_, input_;
  double least_ = 0;  // lower limit of the prices that are tried
  double most_ = 0;
  bool trivial_ = false;
};

// Returns the price where a rising and a falling line meet; nothing if the bound there is at most
// `enough`, or hardly above the best one that is known.
std::optional<double> price_between(const Line& low, const Line& high, double best, double enough) {
  const double meet = (high.value - high.slope * high.price - low.value + low.slope * low.price) /
                      (low.slope - high.slope);
  const double ceiling = low.value + low.slope * (meet - low.price);
  if (ceiling <= enough || ceiling <= best * (1 + 1e-7)) return std::nullopt;
  if (meet <= low.price || meet >= high.price) return std::nullopt;
  return meet;
}

Relaxed CutRelaxation::relax(const Decisions& decisions, double enough, double price) const {
  Relaxed best;
  if (trivial_) return best;
  if (price < least_ || price > most_) price = std::sqrt(least_ * most_);
  // While too much is kept, a higher price is better. Once two lines are known that rise and fall,
  // the best price is looked for where they meet; nothing is above that.
  std::optional<Line>& low = best.low;
  std::optional<Line>& high = best.high;
  double step = 2;
  for (int k = 0; k < kPrices; ++k) {
    std::optional<Line> line = at(price, decisions);
    if (!line) break;
    if (line->value > best.cost) {
      best.cost = line->value;
      best.price = price;
    }
    (line->slope > 0 ? low : high) = std::move(line);
    if (low && high) {
      const std::optional<double> next = price_between(*low, *high, best.cost, enough);
      if (!next) break;
      price = *next;
    } else {
      const double next = std::clamp(low ? price * step : price / step, least_, most_);
      if (next == price) break;
      price = next;
      step *= step;
    }
  }
  return best;
}

std::optional<NodeIndex> CutRelaxation::undecided(const Relaxed& relaxed) const {
  if (!relaxed.low || !relaxed.high) return std::nullopt;
  std::vector<NodeIndex> differ;
  std::set_symmetric_difference(relaxed.low->recomputed.begin(), relaxed.low->recomputed.end(),
                                relaxed.high->recomputed.begin(), relaxed.high->recomputed.end(),
                                std::back_inserter(differ));
  std::optional<NodeIndex> best;
  double most = -1;
  for (const NodeIndex i : differ) {
    const double weight = cost(i) + relaxed.price * bytes(i);
    if (weight <= most) continue;
    most = weight;
    best = i;
  }
  return best;
}

}  // namespace
}  // namespace closure_bound_detail

ClosureBound closure_bound(const RematProblem& problem, const ClosureCut& cut, double enough,
                           double price, std::chrono::steady_clock::time_point deadline) {
  closure_bound_detail::Relaxed relaxed =
      closure_bound_detail::CutRelaxation(problem, cut, deadline).relax({}, enough, price);
  ClosureBound result{.cost = relaxed.cost, .price = relaxed.price};
  if (relaxed.high) result.recomputed.push_back(std::move(relaxed.high->recomputed));
  return result;
}

ClosureBound closure_branch_and_bound(const RematProblem& problem, const ClosureCut& cut,
                                      int relaxations,
                                      std::chrono::steady_clock::time_point deadline) {
  const closure_bound_detail::CutRelaxation branching(problem, cut, deadline);
  struct Leaf {
    double bound = 0;
    double price = 0;
    closure_bound_detail::Decisions decisions;
    std::optional<NodeIndex> next;
  };
  const auto later = [](const Leaf& a, const Leaf& b) {
    return a.bound != b.bound ? a.bound > b.bound : a.decisions.size() < b.decisions.size();
  };
  std::vector<Leaf> open;
  std::vector<std::pair<double, std::vector<NodeIndex>>> choices;
  const auto add = [&](closure_bound_detail::Decisions decisions, double least, double price) {
    closure_bound_detail::Relaxed relaxed = branching.relax(decisions, 0, price);
    const std::optional<NodeIndex> next = branching.undecided(relaxed);
    if (relaxed.high) {
      const double cost = branching.cost_of(relaxed.high->recomputed);
      choices.emplace_back(cost, std::move(relaxed.high->recomputed));
    }
    open.push_back({std::max(least, relaxed.cost), relaxed.price, std::move(decisions), next});
    std::push_heap(open.begin(), open.end(), later);
  };
  add({}, 0, 0);
  for (int solved = 1; solved < relaxations && open.front().next; solved += 2) {
    if (std::chrono::steady_clock::now() > deadline) break;
    std::pop_heap(open.begin(), open.end(), later);
    const Leaf leaf = std::move(open.back());
    open.pop_back();
    for (const bool again : {true, false}) {
      closure_bound_detail::Decisions decisions = leaf.decisions;
      decisions.push_back({*leaf.next, again});
      add(std::move(decisions), leaf.bound, leaf.price);
    }
  }
  ClosureBound result{.cost = open.front().bound, .price = open.front().price};
  std::stable_sort(choices.begin(), choices.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  // Equal blocks give the same choice many times.
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  choices.erase(std::unique(choices.begin(), choices.end(), same), choices.end());
  for (std::size_t k =
           choices.size() - std::min(choices.size(), closure_bound_detail::kChoicesHandedOn);
       k < choices.size(); ++k)
    result.recomputed.push_back(std::move(choices[k].second));
  return result;
}

}  // namespace tidemark
