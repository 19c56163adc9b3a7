#include "tests/policies/solver/least_cost.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace tidemark::testing {

std::optional<std::int64_t> least_cost(const RematProblem& problem, std::int64_t budget,
                                       ScheduleClass schedule_class) {
  using State = std::tuple<unsigned, unsigned, unsigned>;
  std::map<State, std::int64_t> known;
  std::priority_queue<std::pair<std::int64_t, State>> queue;
  const auto reach = [&](const State& state, std::int64_t cost) {
    const auto [it, fresh] = known.emplace(state, cost);
    if (!fresh && it->second <= cost) return;
    it->second = cost;
    queue.push({-cost, state});
  };
  reach({0, 0, 0}, 0);
  const unsigned all = (1U << problem.size()) - 1;
  while (!queue.empty()) {
    const auto [negative, state] = queue.top();
    queue.pop();
    const std::int64_t cost = -negative;
    if (known.at(state) < cost) continue;
    const auto [computed, resident, last] = state;
    if (computed == all) return cost;
    std::int64_t used = problem.fixed;
    for (NodeIndex i = 0; i < problem.size(); ++i)
      used += (resident >> i & 1U) != 0 ? problem.bytes[i] : 0;
    for (NodeIndex i = 0; i < problem.size(); ++i) {
      if ((resident >> i & 1U) != 0) {
        reach({computed, resident & ~(1U << i), last}, cost);
        continue;
      }
      const bool ready = std::all_of(problem.deps[i].begin(), problem.deps[i].end(),
                                     [&](NodeIndex dep) { return (resident >> dep & 1U) != 0; });
      const bool first = (computed >> i & 1U) == 0;
      if (!ready || used + problem.bytes[i] + problem.workspace[i] > budget) continue;
      if (first && schedule_class != ScheduleClass::kUnrestricted && computed != (1U << i) - 1) {
        continue;
      }
      const bool staged = schedule_class == ScheduleClass::kCheckmate;
      if (staged && !first && i < last) continue;
      reach({computed | 1U << i, resident | 1U << i, staged && !first ? i + 1 : 0},
            cost + problem.cost[i]);
    }
  }
  return std::nullopt;
}

}  // namespace tidemark::testing
