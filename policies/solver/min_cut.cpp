#include "policies/solver/min_cut.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "policies/remat/keep_set.hpp"
#include "policies/remat/spread_evenly.hpp"
#include "policies/solver/max_flow.hpp"

namespace tidemark {

std::optional<std::vector<bool>> min_cut_saved(const RematProblem& problem, double price,
                                               std::chrono::steady_clock::time_point deadline) {
  const auto forward = static_cast<NodeIndex>(forward_nodes(problem).size());
  // Vertices: r_i, a_i by forward node, source, sink. Chosen, on the source's side: r_i gains
  // price bytes_i - cost_i, a_i costs price bytes_i, and r_i takes its a's along.
  const NodeIndex source = 2 * forward;
  const NodeIndex sink = source + 1;
  FlowNetwork network(sink + 1);
  double all = 1;
  std::vector<bool> read(forward);
  for (NodeIndex i = 0; i < forward; ++i) {
    all += price * static_cast<double>(problem.bytes[i]);
    read[i] = !problem.readers[i].empty() && problem.readers[i].back() >= forward;
  }
  for (NodeIndex i = 0; i < forward; ++i) {
    const double saved = price * static_cast<double>(problem.bytes[i]);
    const double gain = saved - static_cast<double>(problem.cost[i]);
    if (gain > 0 && !problem.once[i]) network.add_edge(source, i, gain);
    network.add_edge(i, forward + i, all);
    for (const NodeIndex dep : problem.deps[i])
      network.add_edge(i, forward + dep, all);
    if (!read[i]) network.add_edge(forward + i, sink, saved);
  }
  if (!network.run(source, sink, deadline)) return std::nullopt;
  std::vector<bool> result(problem.size());
  for (NodeIndex i = 0; i < forward; ++i) {
    const bool again = network.reaches(i);
    result[i] = (read[i] || network.reaches(forward + i)) && !again;
  }
  return result;
}

void consider_min_cuts(const RematProblem& problem, ScheduleChoice& choice) {
  constexpr int kPrices = 60;
  double low = 0;
  double high = 0;
  for (const NodeIndex i : forward_nodes(problem)) {
    if (problem.bytes[i] == 0 || problem.cost[i] == 0) continue;
    const double ratio =
        static_cast<double>(problem.cost[i]) / static_cast<double>(problem.bytes[i]);
    low = low == 0 ? ratio : std::min(low, ratio);
    high = std::max(high, ratio);
  }
  // A value may be dear because all its ancestors have to be recomputed with it.
  high *= static_cast<double>(problem.size());
  std::vector<double> prices;
  for (int k = kPrices; k >= 0 && low > 0; --k)
    prices.push_back(low * std::pow(high / low, static_cast<double>(k) / kPrices) * (1 + 1e-9));
  prices.push_back(0);
  std::unordered_set<std::vector<bool>> considered;
  for (const double price : spread_evenly(std::move(prices))) {
    const std::optional<std::vector<bool>> saved =
        min_cut_saved(problem, price, choice.candidates_end());
    if (!saved) return;
    if (considered.insert(*saved).second) choice.consider(keep_schedule(problem, *saved));
  }
}

Schedule saved_share_schedule(const RematProblem& problem, double share) {
  constexpr std::size_t kLevels = 2000;
  std::vector<bool> saved = *min_cut_saved(problem, 0);
  std::vector<NodeIndex> items;
  std::int64_t total = 0;
  for (NodeIndex i = 0; i < problem.size(); ++i) {
    if (!saved[i] || problem.once[i] || problem.bytes[i] == 0) continue;
    items.push_back(i);
    total += problem.bytes[i];
  }
  if (share >= 1 || total == 0) return keep_schedule(problem, saved);
  const auto room = static_cast<std::size_t>(share * static_cast<double>(kLevels));
  // best[m]: the most cost that saving m levels spares.
  std::vector<std::int64_t> best(room + 1, 0);
  std::vector<std::vector<bool>> taken(items.size(), std::vector<bool>(room + 1));
  const auto levels = [&](std::size_t k) {  // rounded up
    const double part = static_cast<double>(problem.bytes[items[k]]) / static_cast<double>(total);
    return static_cast<std::size_t>(std::ceil(part * static_cast<double>(kLevels) - 1e-9));
  };
  for (std::size_t k = 0; k < items.size(); ++k) {
    const std::size_t size = levels(k);
    for (std::size_t m = room + 1; m-- > size;) {
      const std::int64_t with = best[m - size] + problem.cost[items[k]];
      if (with <= best[m]) continue;
      best[m] = with;
      taken[k][m] = true;
    }
  }
  std::size_t left = room;
  for (std::size_t k = items.size(); k-- > 0;) {
    saved[items[k]] = taken[k][left];
    if (taken[k][left]) left -= levels(k);
  }
  return keep_schedule(problem, saved);
}

}  // namespace tidemark
