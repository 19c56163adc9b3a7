#include "policies/solver/closure_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "policies/solver/max_flow.hpp"

namespace tidemark {
namespace {

constexpr int kPrices = 40;  // that are tried at most

// The line that touches the value, concave in the price, at one price.
struct Line {
  double price = 0;
  double value = 0;
  double slope = 0;  // bytes that are kept above the room
  std::vector<NodeIndex> again;
};

class Cut {
 public:
  Cut(const RematProblem& problem, const ClosureCut& cut)
      : problem_(problem), cut_(cut), needed_(cut.node), input_(cut.node) {
    for (const NodeIndex i : cut.needed)
      needed_[i] = true;
    for (const NodeIndex dep : problem.deps[cut.node])
      input_[dep] = true;
  }

  // Vertices r_i, then a_i (i is there after v, kept or computed again), source, sink. Choosing r_i
  // gains price bytes_i - cost_i and takes a_i and the a's of its inputs along; an a_i that nothing
  // else needs costs price bytes_i.
  [[nodiscard]] Line at(double price) const {
    const NodeIndex n = cut_.node;
    FlowNetwork network(2 * std::size_t{n} + 2);
    const std::uint32_t source = 2 * n;
    const std::uint32_t sink = source + 1;
    double all = 1;
    double forced = 0;
    double gains = 0;
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
      if (problem_.once[i] || held <= cost(i)) continue;
      gains += held - cost(i);
      network.add_edge(source, i, held - cost(i));
      if (!needed_[i]) network.add_edge(i, n + i, all);
      for (const NodeIndex dep : problem_.deps[i]) {
        if (!input_[dep] && !needed_[dep]) network.add_edge(i, n + dep, all);
      }
    }
    const double flow = network.run(source, sink);
    Line result{.price = price};
    const double room = static_cast<double>(cut_.room);
    // What the sums may be wrong by is taken off.
    result.value = forced - (gains - flow) - price * room - 1e-9 * (forced + gains + price * room);
    result.slope = -room;
    for (NodeIndex i = 0; i < n; ++i) {
      const bool there = needed_[i] || network.reaches(n + i);
      if (network.reaches(i)) {
        result.again.push_back(i);
      } else if (!input_[i] && there) {
        result.slope += bytes(i);
      }
    }
    return result;
  }

 private:
  [[nodiscard]] double bytes(NodeIndex i) const { return static_cast<double>(problem_.bytes[i]); }
  [[nodiscard]] double cost(NodeIndex i) const { return static_cast<double>(problem_.cost[i]); }

  const RematProblem& problem_;
  const ClosureCut& cut_;
  std::vector<bool> needed_, input_;
};

}  // namespace

ClosureBound closure_bound(const RematProblem& problem, const ClosureCut& cut, double enough,
                           double price) {
  const Cut priced(problem, cut);
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  double total = 0;
  for (NodeIndex i = 0; i < cut.node; ++i) {
    total += static_cast<double>(problem.cost[i]);
    if (problem.bytes[i] == 0 || problem.cost[i] == 0) continue;
    least = std::min(least,
                     static_cast<double>(problem.cost[i]) / static_cast<double>(problem.bytes[i]));
    most = std::max(most, total / static_cast<double>(problem.bytes[i]));
  }
  ClosureBound best;
  if (most <= least) return best;
  least /= 2;
  most = std::max(most, 4 * least);
  if (price < least || price > most) price = std::sqrt(least * most);
  // While too much is kept, a higher price is better. Once two lines are known that rise and fall,
  // the best price is looked for where they meet; nothing is above that.
  std::optional<Line> low;
  std::optional<Line> high;
  double step = 2;
  for (int k = 0; k < kPrices; ++k) {
    Line line = priced.at(price);
    if (line.value > best.cost) {
      best.cost = line.value;
      best.price = price;
    }
    (line.slope > 0 ? low : high) = std::move(line);
    if (low && high) {
      const double next =
          (high->value - high->slope * high->price - low->value + low->slope * low->price) /
          (low->slope - high->slope);
      const double ceiling = low->value + low->slope * (next - low->price);
      if (ceiling <= enough || ceiling <= best.cost * (1 + 1e-7)) break;
      if (next <= low->price || next >= high->price) break;
      price = next;
    } else {
      price = low ? price * step : price / step;
      step *= step;
      if (price < least || price > most) break;
    }
  }
  if (high) best.again = std::move(high->again);
  return best;
}

}  // namespace tidemark
