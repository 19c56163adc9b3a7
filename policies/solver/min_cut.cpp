#include "policies/solver/min_cut.hpp"

#include <algorithm>
#include <cmath>

#include "policies/remat/keep_set.hpp"
#include "policies/solver/max_flow.hpp"

namespace tidemark {

std::vector<bool> min_cut_saved(const RematProblem& problem, double price) {
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
  network.run(source, sink);
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
  std::vector<std::vector<bool>> cuts{min_cut_saved(problem, 0)};
  // A value may be dear because all its ancestors have to be recomputed with it.
  high *= static_cast<double>(problem.size());
  for (int k = 0; k <= kPrices && low > 0; ++k) {
    const double price = low * std::pow(high / low, static_cast<double>(k) / kPrices) * (1 + 1e-9);
    std::vector<bool> saved = min_cut_saved(problem, price);
    if (saved != cuts.back()) cuts.push_back(std::move(saved));
  }
  for (const std::vector<bool>& saved : cuts)
    choice.consider(keep_schedule(problem, saved));
}

Schedule saved_share_schedule(const RematProblem& problem, double share) {
  constexpr std::size_t kLevels = 2000;
  std::vector<bool> saved = min_cut_saved(problem, 0);
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
