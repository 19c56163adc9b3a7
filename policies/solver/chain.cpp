#include "policies/solver/chain.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/remat/reversal.hpp"

namespace tidemark {

namespace chain_detail {
namespace {

// Returns why the graph is no chain, or nothing.
std::optional<std::string> chain_fault(const RematProblem& problem, NodeIndex n) {
  if (problem.size() != 2 * n) {
    return fmt::format("{} forward nodes are followed by {} others", n, problem.size() - n);
  }
  for (NodeIndex v = 0; v < n; ++v) {
    const std::vector<NodeIndex> expected =
        v == 0 ? std::vector<NodeIndex>{} : std::vector<NodeIndex>{v - 1};
    if (problem.deps[v] != expected) {
      return fmt::format("forward node {} reads {}", v,
                         problem.deps[v].empty()
                             ? "nothing"
                             : fmt::format("{}", fmt::join(problem.deps[v], ", ")));
    }
    const NodeIndex back = 2 * n - 1 - v;
    if (!problem.backward[back]) return fmt::format("node {} is not backward", back);
    for (const NodeIndex dep : problem.deps[back]) {
      if (dep == v || dep + 1 == v || dep + 1 == back) continue;
      return fmt::format("backward node {} reads node {}", back, dep);
    }
  }
  return std::nullopt;
}

}  // namespace
}  // namespace chain_detail

bool is_chain(const RematProblem& problem) {
  return !chain_detail::chain_fault(problem, forward_count(problem));
}

NodeIndex chain_length(const RematProblem& problem, std::string_view policy) {
  const NodeIndex n = forward_count(problem);
  if (const auto fault = chain_detail::chain_fault(problem, n)) {
    throw UserError(fmt::format(
        "{} is for chains, where every forward node reads the one before it and has one backward "
        "node, in reverse order; in this graph {}. Choose another policy",
        policy, *fault));
  }
  return n;
}

Schedule revolve_schedule(const RematProblem& problem, int checkpoints) {
  const NodeIndex n = chain_length(problem, "revolve");
  if (n > kLongestReversal) {
    throw UserError(
        fmt::format("revolve is for chains of up to {} forward nodes, since its work grows with "
                    "their square, and this one has {}. Choose another policy",
                    kLongestReversal, n));
  }
  const std::vector<std::vector<int>> repeats =
      revolve_repeats(static_cast<int>(n), std::min(checkpoints, static_cast<int>(n) - 1));
  Schedule schedule;
  for (NodeIndex v = 0; v < n; ++v)
    schedule.push_back(v);
  for (NodeIndex v = n; v-- > 0;) {
    for (const int again : repeats[v])
      schedule.push_back(static_cast<NodeIndex>(again));
    schedule.push_back(2 * n - 1 - v);
  }
  return schedule;
}

namespace chain_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStates = 2'000'000;  // states of the recurrence, before sizes are rounded

// Stages are 1 .. n, as in the paper; stage s is forward node s - 1.
class Rotor {
 public:
  // Sizes are counted in multiples of `slot`, rounded up.
  Rotor(const RematProblem& problem, NodeIndex n, std::int64_t slot, Clock::time_point deadline)
      : problem_(problem),
        deadline_(deadline),
        n_(n),
        slot_(slot),
        limit_(slot == 1 ? kStates : std::numeric_limits<std::size_t>::max()) {}

  // False when there are too many states, or no time is left.
  bool solve(std::int64_t memory) {
    cost(1, n_, memory);
    return states_.size() < limit_;
  }
  [[nodiscard]] std::int64_t best(std::int64_t memory) { return cost(1, n_, memory); }
  Schedule schedule(std::int64_t memory) {
    build(1, n_, memory);
    return std::move(schedule_);
  }

 private:
  struct Key {
    NodeIndex s, t;
    std::int64_t memory;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& k) const {
      return (static_cast<std::size_t>(k.memory) * 0x9e3779b97f4a7c15U) ^
             ((std::size_t{k.s} << 32 | k.t) * 0xff51afd7ed558ccdU);
    }
  };
  struct Choice {
    std::int64_t cost = kInfinite;
    NodeIndex split =
        0;  // 0: the first stage is fused; else the stage before which its input stays
  };

  [[nodiscard]] std::int64_t slots(std::int64_t bytes) const { return (bytes + slot_ - 1) / slot_; }
  [[nodiscard]] NodeIndex back(NodeIndex s) const { return 2 * n_ - s; }
  [[nodiscard]] std::int64_t u_f(NodeIndex s) const { return problem_.cost[s - 1]; }
  [[nodiscard]] std::int64_t u_b(NodeIndex s) const { return problem_.cost[back(s)]; }
  // a: output of a stage; the network's input is part of the fixed bytes.
  [[nodiscard]] std::int64_t a(NodeIndex s) const {
    return s == 0 ? 0 : slots(problem_.bytes[s - 1]);
  }
  // delta: gradient of a stage's output, which the next stage's backward makes.
  [[nodiscard]] std::int64_t delta(NodeIndex s) const {
    return s == n_ ? 0 : slots(problem_.bytes[back(s + 1)]);
  }
  [[nodiscard]] std::int64_t o_f(NodeIndex s) const { return slots(problem_.workspace[s - 1]); }
  // The backward's overhead holds the gradient that it makes.
  [[nodiscard]] std::int64_t o_b(NodeIndex s) const {
    return slots(problem_.workspace[back(s)]) + slots(problem_.bytes[back(s)]);
  }
  [[nodiscard]] std::int64_t m_all(NodeIndex s, NodeIndex t) const {
    return std::max(delta(t) + a(s) + o_f(s), delta(s) + a(s) + o_b(s));
  }
  [[nodiscard]] std::int64_t m_none(NodeIndex s, NodeIndex t) const {
    std::int64_t most = delta(t) + a(s) + o_f(s);
    for (NodeIndex j = s + 1; j < t; ++j)
      most = std::max(most, delta(t) + a(j - 1) + a(j) + o_f(j));
    return most;
  }

  std::int64_t cost(NodeIndex s, NodeIndex t, std::int64_t memory) {
    if (s == t) return memory >= m_all(s, s) ? u_f(s) + u_b(s) : kInfinite;
    if (memory < 0) return kInfinite;
    const Key key{s, t, memory};
    if (const auto known = states_.find(key); known != states_.end()) return known->second.cost;
    if ((states_.size() & 255U) == 0 && Clock::now() > deadline_) limit_ = 0;
    if (states_.size() >= limit_) return kInfinite;
    Choice best;
    if (memory >= m_all(s, t)) {
      const std::int64_t rest = cost(s + 1, t, memory - a(s));
      if (rest < kInfinite) best.cost = u_f(s) + rest + u_b(s);
    }
    if (memory >= m_none(s, t)) {
      std::int64_t forward = 0;
      for (NodeIndex split = s + 1; split <= t; ++split) {
        forward += u_f(split - 1);
        const std::int64_t later = cost(split, t, memory - a(split - 1));
        if (later >= kInfinite || forward + later >= best.cost) continue;
        const std::int64_t earlier = cost(s, split - 1, memory);
        if (earlier >= kInfinite || forward + later + earlier >= best.cost) continue;
        best = {forward + later + earlier, split};
      }
    }
    states_.emplace(key, best);
    return best.cost;
  }

  void build(NodeIndex s, NodeIndex t, std::int64_t memory) {
    const NodeIndex split = s == t ? 0 : states_.at({s, t, memory}).split;
    if (split == 0) {
      schedule_.push_back(s - 1);
      if (s < t) build(s + 1, t, memory - a(s));
      schedule_.push_back(back(s));
      return;
    }
    for (NodeIndex k = s; k < split; ++k)
      schedule_.push_back(k - 1);
    build(split, t, memory - a(split - 1));
    build(s, split - 1, memory);
  }

  const RematProblem& problem_;
  Clock::time_point deadline_;
  NodeIndex n_;
  std::int64_t slot_;
  std::size_t limit_;  // limit of the number of states
  std::unordered_map<Key, Choice, Hash> states_;
  Schedule schedule_;
};

}  // namespace
}  // namespace chain_detail

std::optional<RotorPlan> rotor_schedule(const RematProblem& problem, std::int64_t budget,
                                        std::chrono::steady_clock::time_point deadline) {
  const NodeIndex n = chain_length(problem, "rotor");
  const std::int64_t room = budget - problem.fixed;
  if (room < 0) return std::nullopt;
  // A table of stages x stages x slots stays within some millions.
  const std::int64_t slots =
      std::clamp<std::int64_t>(10'000'000 / (std::int64_t{n} * n + 1), 50, 1000);
  for (const std::int64_t slot : {std::int64_t{1}, room / slots + 2}) {
    chain_detail::Rotor rotor(problem, n, slot, deadline);
    const std::int64_t memory = room / slot;
    if (!rotor.solve(memory)) continue;
    const std::int64_t cost = rotor.best(memory);
    if (cost >= kInfinite) return std::nullopt;
    return RotorPlan{rotor.schedule(memory), cost};
  }
  return std::nullopt;
}

}  // namespace tidemark
