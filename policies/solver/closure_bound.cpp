#include "policies/solver/closure_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/solver/max_flow.hpp"

namespace tidemark {
namespace {

constexpr int kPrices = 24;  // that are tried, by bisection

struct Priced {
  double value = 0;
  double kept = 0;  // bytes
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
  [[nodiscard]] Priced at(double price) const {
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
    Priced result;
    const double room = static_cast<double>(cut_.room);
    // What the sums may be wrong by is taken off.
    result.value = forced - (gains - flow) - price * room - 1e-9 * (forced + gains + price * room);
    for (NodeIndex i = 0; i < n; ++i) {
      const bool there = needed_[i] || network.reaches(n + i);
      if (!input_[i] && there && !network.reaches(i)) result.kept += bytes(i);
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

double closure_bound(const RematProblem& problem, const ClosureCut& cut) {
  const Cut priced(problem, cut);
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  double total = 0;
  for (NodeIndex i = 0; i < cut.node; ++i) {
    total += static_cast<double>(problem.cost[i]);
    if (problem.bytes[i] == 0 || problem.cost[i] == 0) continue;
    low =
        std::min(low, static_cast<double>(problem.cost[i]) / static_cast<double>(problem.bytes[i]));
    high = std::max(high, total / static_cast<double>(problem.bytes[i]));
  }
  if (high <= low) return 0;
  low /= 2;
  high = std::max(high, 4 * low);
  double best = 0;
  // The value is concave in the price: while too much is kept, a higher price is better.
  for (int k = 0; k < kPrices; ++k) {
    const double price = std::sqrt(low * high);
    const Priced result = priced.at(price);
    best = std::max(best, result.value);
    (result.kept > static_cast<double>(cut.room) ? low : high) = price;
  }
  return best;
}

}  // namespace tidemark
