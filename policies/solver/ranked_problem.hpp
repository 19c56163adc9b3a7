// A rematerialization problem as the exact search sees it: sets of nodes are bit sets, on which the
// nodes that a schedule still needs, lacks and must pay for are computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/remat/node_set.hpp"
#include "policies/remat/problem.hpp"

namespace tidemark {

// Bits are ranks: nodes by ascending cost per byte, so that members of a set come in the order in
// which a fractional knapsack drops them.
template <std::size_t W>
class RankedProblem {
 public:
  using Set = NodeSet<W>;

  // Values that some node outside `computed` reads, and all ancestors of such nodes.
  struct Need {
    Set direct;
    Set useful;
  };

  // `fixed_order`: first evaluations come in the order of the list.
  RankedProblem(const RematProblem& problem, std::int64_t budget, bool fixed_order)
      : problem_(problem),
        budget_(budget),
        n_(problem.size()),
        fixed_order_(fixed_order),
        unit_(cost_unit(problem)) {
    rank_nodes();
    describe_cuts();
    if (fixed_order_) find_prefix_needs();
  }

  [[nodiscard]] NodeIndex node(std::uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] std::int64_t cost(std::uint32_t rank) const { return cost_[rank]; }
  [[nodiscard]] std::int64_t bytes(std::uint32_t rank) const { return bytes_[rank]; }
  [[nodiscard]] const Set& deps(std::uint32_t rank) const { return deps_[rank]; }
  [[nodiscard]] bool once(std::uint32_t rank) const { return once_.has(rank); }

  [[nodiscard]] Need need_of(const Set& computed) const {
    // In fixed order the need depends on the number of computed nodes only.
    if (fixed_order_) return prefix_needs_[computed.count()];
    Need need;
    (all_ - computed).for_each([&](std::uint32_t r) {
      need.direct = need.direct | deps_[r];
      need.useful = need.useful | ancestors_[r];
    });
    return need;
  }

  // Returns the nodes that have to be recomputed, in the end, from these residents.
  [[nodiscard]] Set missing(const Set& computed, const Set& resident, const Set& direct) const {
    Set result = (direct & computed) - resident;
    Set frontier = result;
    while (!frontier.empty()) {
      Set inputs;
      frontier.for_each([&](std::uint32_t r) { inputs = inputs | deps_[r]; });
      frontier = (inputs - resident) - result;
      result = result | frontier;
    }
    return result;
  }
  [[nodiscard]] std::int64_t cost_of(const Set& set) const {
    std::int64_t sum = 0;
    set.for_each([&](std::uint32_t r) { sum += cost_[r]; });
    return sum;
  }
  [[nodiscard]] std::int64_t bytes_of(const Set& set) const {
    std::int64_t sum = 0;
    set.for_each([&](std::uint32_t r) { sum += bytes_[r]; });
    return sum;
  }

  // Returns a bound of the extra cost still to come.
  [[nodiscard]] std::int64_t bound(const Set& computed, const Set& resident,
                                   const Set& direct) const {
    const Set lost = missing(computed, resident, direct);
    if (!(lost & once_).empty()) return kInfinite;
    const std::int64_t again = cost_of(lost);
    double dropped = 0;
    const std::int64_t all = bytes_of(resident);
    (all_ - computed).for_each([&](std::uint32_t v) {
      if (all <= room_[v]) return;
      const Set held = resident & after_[v];
      std::int64_t excess = bytes_of(held) - room_[v];
      if (excess <= 0) return;
      double cost = 0;
      held.until([&](std::uint32_t r) {
        if (once_.has(r)) return false;
        if (bytes_[r] >= excess) {
          cost += static_cast<double>(cost_[r]) * static_cast<double>(excess) /
                  static_cast<double>(std::max<std::int64_t>(bytes_[r], 1));
          return true;
        }
        cost += static_cast<double>(cost_[r]);
        excess -= bytes_[r];
        return false;
      });
      dropped = std::max(dropped, cost);
    });
    // Rounded up to what a cost can be; the guard covers the sum's rounding.
    const double units = dropped / static_cast<double>(unit_) * (1 - 1e-12) - 1e-6;
    return again + (units <= 0 ? 0 : static_cast<std::int64_t>(std::ceil(units)) * unit_);
  }

 private:
  void rank_nodes() {
    node_of_.resize(n_);
    std::iota(node_of_.begin(), node_of_.end(), 0U);
    std::stable_sort(node_of_.begin(), node_of_.end(), [&](NodeIndex a, NodeIndex b) {
      // cost / bytes; nodes that free nothing come last
      const auto ratio = [&](NodeIndex i) {
        return problem_.bytes[i] == 0
                   ? std::numeric_limits<double>::infinity()
                   : static_cast<double>(problem_.cost[i]) / static_cast<double>(problem_.bytes[i]);
      };
      return ratio(a) < ratio(b);
    });
    rank_of_.resize(n_);
    for (std::uint32_t r = 0; r < n_; ++r) {
      rank_of_[node_of_[r]] = r;
      cost_.push_back(problem_.cost[node_of_[r]]);
      bytes_.push_back(problem_.bytes[node_of_[r]]);
      all_.add(r);
      if (problem_.once[node_of_[r]]) once_.add(r);
    }
    deps_.resize(n_);
    ancestors_.resize(n_);
    for (NodeIndex node = 0; node < n_; ++node) {
      const std::uint32_t r = rank_of_[node];
      for (const NodeIndex dep : problem_.deps[node]) {
        deps_[r].add(rank_of_[dep]);
        ancestors_[r].add(rank_of_[dep]);
        ancestors_[r] = ancestors_[r] | ancestors_[rank_of_[dep]];
      }
    }
  }

  // Describes the cut at each v: the room beside v and its inputs, and the values read after it
  // whatever the order.
  void describe_cuts() {
    room_.resize(n_);
    after_.resize(n_);
    for (NodeIndex v = 0; v < n_; ++v) {
      const std::uint32_t r = rank_of_[v];
      room_[r] = budget_ - problem_.footprint(v);
      for (NodeIndex later = v + 1; later < n_; ++later) {
        const bool follows = fixed_order_ || ancestors_[rank_of_[later]].has(r);
        if (follows) after_[r] = after_[r] | deps_[rank_of_[later]];
      }
      after_[r] = after_[r] - deps_[r];
      after_[r].remove(r);
    }
  }

  void find_prefix_needs() {
    prefix_needs_.resize(n_ + 1);
    for (NodeIndex k = n_; k-- > 0;) {
      const std::uint32_t r = rank_of_[k];
      prefix_needs_[k].direct = prefix_needs_[k + 1].direct | deps_[r];
      prefix_needs_[k].useful = prefix_needs_[k + 1].useful | ancestors_[r];
    }
  }

  const RematProblem& problem_;
  std::int64_t budget_;
  NodeIndex n_;
  bool fixed_order_;
  std::int64_t unit_;
  // Tables by rank, except rank_of_.
  std::vector<NodeIndex> node_of_;
  std::vector<std::uint32_t> rank_of_;
  std::vector<std::int64_t> cost_, bytes_, room_;
  std::vector<Set> deps_, ancestors_, after_;
  Set all_;
  Set once_;                        // never recomputed
  std::vector<Need> prefix_needs_;  // needs by number of computed nodes, in fixed order
};

}  // namespace tidemark
