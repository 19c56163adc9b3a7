#include "policies/remat/reachability.hpp"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/remat/node_set.hpp"

namespace tidemark {
namespace reachability_detail {
namespace {

// Returns the node and its ancestors, ascending.
std::vector<NodeIndex> with_ancestors(const RematProblem& problem, NodeIndex node) {
  std::vector<bool> leads(problem.size());
  leads[node] = true;
  std::vector<NodeIndex> nodes;
  for (NodeIndex i = node + 1; i-- > 0;) {
    if (!leads[i]) continue;
    nodes.push_back(i);
    for (const NodeIndex dep : problem.deps[i])
      leads[dep] = true;
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

template <std::size_t W>
class BackwardSearch {
  using Set = NodeSet<W>;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct State {
    Set needed;
    std::uint32_t parent = kNone;
    std::uint32_t computed = kNone;  // last one computed, to get from here to the parent
  };
  struct Open {
    Set needed;
    std::uint32_t state;
    friend bool operator<(const Open& a, const Open& b) {
      for (std::size_t w = W; w-- > 0;) {
        if (a.needed.words[w] != b.needed.words[w]) return a.needed.words[w] > b.needed.words[w];
      }
      return false;
    }
  };
  struct Hash {
    std::size_t operator()(const Set& set) const { return set.hash(); }
  };

 public:
  BackwardSearch(const RematProblem& problem, std::int64_t budget, std::vector<NodeIndex> nodes,
                 const std::vector<bool>& resident)
      : problem_(problem), room_(budget - problem.fixed), nodes_(std::move(nodes)) {
    std::vector<std::uint32_t> local(problem.size(), kNone);
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      local[nodes_[i]] = i;
      Set& deps = deps_.emplace_back();
      for (const NodeIndex dep : problem.deps[nodes_[i]])
        deps.add(local[dep]);
      if (resident[nodes_[i]]) resident_.add(i);
    }
  }

  ReachResult run(std::size_t state_limit) {
    Set target;
    target.add(static_cast<std::uint32_t>(nodes_.size() - 1));
    push(target, kNone, kNone);
    ReachResult result;
    while (!open_.empty()) {
      const std::uint32_t index = open_.top().state;
      open_.pop();
      if (resident_.contains(states_[index].needed)) {
        result.reach = Reach::kReached;
        for (std::uint32_t s = index; states_[s].parent != kNone; s = states_[s].parent)
          result.schedule.push_back(nodes_[states_[s].computed]);
        result.states = states_.size();
        return result;
      }
      if (states_.size() >= state_limit) {
        result.states = states_.size();
        return result;
      }
      expand(index);
    }
    result.reach = Reach::kImpossible;
    result.states = states_.size();
    return result;
  }

 private:
  void expand(std::uint32_t index) {
    const Set needed = states_[index].needed;
    std::int64_t bytes = 0;
    needed.for_each([&](std::uint32_t i) { bytes += problem_.bytes[nodes_[i]]; });
    // A value whose inputs are all needed anyway may as well come last: what remains is less.
    std::uint32_t free = kNone;
    needed.for_each([&](std::uint32_t i) {
      if (needed.contains(deps_[i]) && bytes + problem_.workspace[nodes_[i]] <= room_) free = i;
    });
    needed.for_each([&](std::uint32_t i) {
      if (free != kNone && i != free) return;
      std::int64_t during = bytes + problem_.workspace[nodes_[i]];
      (deps_[i] - needed).for_each([&](std::uint32_t d) { during += problem_.bytes[nodes_[d]]; });
      if (during > room_) return;
      Set before = needed | deps_[i];
      before.remove(i);
      push(before, index, i);
    });
  }

  void push(const Set& needed, std::uint32_t parent, std::uint32_t computed) {
    if (!seen_.insert(needed).second) return;
    states_.push_back({needed, parent, computed});
    open_.push({needed, static_cast<std::uint32_t>(states_.size() - 1)});
  }

  const RematProblem& problem_;
  std::int64_t room_;
  std::vector<NodeIndex> nodes_;  // by local index
  std::vector<Set> deps_;
  Set resident_;
  std::vector<State> states_;
  std::unordered_set<Set, Hash> seen_;
  std::priority_queue<Open> open_;
};

// Memory along a construction: needed values stay; of the rest, the one that is read last is freed
// first.
class Residents {
 public:
  Residents(const RematProblem& problem, std::int64_t budget)
      : problem_(problem), budget_(budget), resident_(problem.size()), used_(problem.fixed) {}

  [[nodiscard]] const std::vector<bool>& resident() const { return resident_; }

  // Runs `schedule`, which computes `node` for the first time at its end.
  void run(const Schedule& schedule, NodeIndex node) {
    // needed[k]: resident before computation k and read by it or later ones.
    std::vector<bool> needed(problem_.size());
    std::vector<std::vector<bool>> before(schedule.size());
    for (std::size_t k = schedule.size(); k-- > 0;) {
      needed[schedule[k]] = false;
      for (const NodeIndex dep : problem_.deps[schedule[k]])
        needed[dep] = true;
      before[k] = needed;
    }
    for (std::size_t k = 0; k < schedule.size(); ++k)
      compute(schedule[k], before[k], node);
  }

 private:
  void compute(NodeIndex i, const std::vector<bool>& needed, NodeIndex node) {
    if (resident_[i]) drop(i);
    while (used_ + problem_.bytes[i] + problem_.workspace[i] > budget_) {
      std::optional<NodeIndex> last;
      NodeIndex last_use = 0;
      for (NodeIndex v = 0; v < problem_.size(); ++v) {
        if (!resident_[v] || needed[v] || problem_.bytes[v] == 0) continue;
        const NodeIndex use = next_use(v, node);
        if (!last || use > last_use) last = v;
        if (last == v) last_use = use;
      }
      if (!last) throw InternalError(fmt::format("a construction has no room for node {}", i));
      drop(*last);
    }
    resident_[i] = true;
    used_ += problem_.bytes[i];
  }
  void drop(NodeIndex i) {
    resident_[i] = false;
    used_ -= problem_.bytes[i];
  }
  // Returns the first reader from `node` on.
  [[nodiscard]] NodeIndex next_use(NodeIndex v, NodeIndex node) const {
    const std::vector<NodeIndex>& readers = problem_.readers[v];
    const auto next = std::lower_bound(readers.begin(), readers.end(), node);
    return next == readers.end() ? problem_.size() : *next;
  }

  const RematProblem& problem_;
  std::int64_t budget_;
  std::vector<bool> resident_;
  std::int64_t used_;
};

}  // namespace
}  // namespace reachability_detail

ReachResult reach_node(const RematProblem& problem, std::int64_t budget, NodeIndex node,
                       const std::vector<bool>& resident, std::size_t state_limit) {
  std::vector<NodeIndex> nodes = reachability_detail::with_ancestors(problem, node);
  const auto search = [&]<std::size_t W>() {
    return reachability_detail::BackwardSearch<W>(problem, budget, std::move(nodes), resident)
        .run(state_limit);
  };
  if (nodes.size() <= 64) return search.template operator()<1>();
  if (nodes.size() <= 128) return search.template operator()<2>();
  if (nodes.size() <= 256) return search.template operator()<4>();
  if (nodes.size() <= 1024) return search.template operator()<16>();
  return {};
}

Construction construct_schedule(const RematProblem& problem, std::int64_t budget,
                                std::size_t state_limit_per_node,
                                std::chrono::steady_clock::time_point deadline) {
  Construction result;
  reachability_detail::Residents residents(problem, budget);
  for (NodeIndex node = 0; node < problem.size(); ++node) {
    const ReachResult found =
        reach_node(problem, budget, node, residents.resident(), state_limit_per_node);
    const bool late = std::chrono::steady_clock::now() > deadline;
    result.reach = late && found.reach == Reach::kReached ? Reach::kStopped : found.reach;
    result.node = node;
    if (result.reach != Reach::kReached) return result;
    residents.run(found.schedule, node);
    result.schedule.insert(result.schedule.end(), found.schedule.begin(), found.schedule.end());
  }
  return result;
}

}  // namespace tidemark
