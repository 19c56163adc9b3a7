// What evicting a storage would cost: its own operators and those of its evicted neighbourhood
// (DTR, Kirisame et al. 2021, section 4: e*, the equivalence classes of h_DTR-eq, and MSPS of
// Peng et al. 2020).
//
// A neighbourhood is walked only when the storage is a candidate, and no further than its score may
// still win. What was found is kept as a lower bound: evictions only add to a neighbourhood. When a
// storage comes back, the bounds that counted it fall; each evicted storage (or class) therefore
// lists the candidates that watch it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "policies/eviction/online/storage_edges.hpp"

namespace tidemark {

enum class StorageState : std::uint8_t { kNever, kMaterial, kEvicted, kBanished };

enum class Neighbourhood : std::uint8_t {
  kNone,
  kAncestors,  // evicted, reached through evicted storages only
  kBoth,       // ancestors and descendants, each summed by itself
  kSet,        // the same as one set, with its latest access
  kClasses,    // union-find classes of adjacent evicted storages, never split
};

class EvictedCosts {
 public:
  struct Evaluation {
    std::int64_t cost = 0;
    std::int64_t last_access = 0;  // of the storage; kSet: the latest of the set
    bool exact = false;            // false: stopped early, the cost is a lower bound
  };

  // The tables of edges must live longer.
  EvictedCosts(std::size_t storages, const Rows<StorageEdge>& producers,
               const Rows<StorageEdge>& consumers, Neighbourhood kind);

  // Operators below `count` exist for the program by now.
  void define_operators(std::uint32_t count) { defined_ = count; }
  [[nodiscard]] std::uint32_t newest_operator() const { return defined_ - 1; }
  void add_cost(std::uint32_t s, std::int64_t cost);
  [[nodiscard]] std::int64_t cost(std::uint32_t s) const { return cost_[s]; }
  [[nodiscard]] StorageState state(std::uint32_t s) const { return state_[s]; }
  [[nodiscard]] bool material(std::uint32_t s) const {
    return state_[s] == StorageState::kMaterial;
  }
  [[nodiscard]] std::int64_t last_access(std::uint32_t s) const { return last_access_[s]; }
  void access(std::uint32_t s, std::int64_t clock) { last_access_[s] = clock; }

  void materialize(std::uint32_t s);
  void evict(std::uint32_t s);
  void banish(std::uint32_t s);

  // The cost of evicting `s`, walked until it exceeds `limit` or `most` storages were counted.
  Evaluation evaluate(std::uint32_t s, std::int64_t limit, std::size_t most);
  // kClasses: the sum over directly adjacent evicted storages of their class's cost, and at least
  // their own: a class that two of them share counts twice. Without the cost of `s` itself.
  [[nodiscard]] std::int64_t adjacent_cost(std::uint32_t s);
  [[nodiscard]] std::int64_t lower_bound(std::uint32_t s) const { return bound_[s]; }
  // A lower bound on Evaluation::last_access.
  [[nodiscard]] std::int64_t latest_access(std::uint32_t s) const {
    return latest_.empty() ? last_access_[s] : std::max(last_access_[s], latest_[s]);
  }
  // Storages whose bounds changed since the list was last cleared, possibly several times.
  std::vector<std::uint32_t>& changed() { return changed_; }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Watch {
    std::uint32_t storage = 0;  // whose bound counts what is watched
    std::uint32_t round = 0;    // valid while it is the storage's
    std::uint32_t next = kNone;
  };
  struct WatchList {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  struct Walk {
    std::int64_t limit = 0;
    std::size_t most = 0;
    Evaluation found;
  };

  [[nodiscard]] bool evicted(std::uint32_t s) const { return state_[s] == StorageState::kEvicted; }
  bool walk(const Rows<StorageEdge>& edges, std::uint32_t from, Walk& walk);
  bool sum_classes(const Rows<StorageEdge>& edges, std::uint32_t from, Walk& walk);
  void begin_marks();
  void set_bound(std::uint32_t s, std::int64_t bound);
  void forget(std::uint32_t s) {
    if (!latest_.empty()) latest_[s] = 0;
    set_bound(s, cost_[s]);
  }
  void watch(std::uint32_t subject, std::uint32_t s);
  void purge_watches();
  void leave(std::uint32_t s);
  void join_classes(std::uint32_t s);
  void leave_class(std::uint32_t s);
  [[nodiscard]] std::uint32_t find(std::uint32_t node);
  std::uint32_t merge(std::uint32_t a, std::uint32_t b);

  const Rows<StorageEdge>& producers_;
  const Rows<StorageEdge>& consumers_;
  Neighbourhood kind_;
  std::uint32_t defined_ = 0;
  std::vector<StorageState> state_;
  std::vector<std::int64_t> cost_;
  std::vector<std::int64_t> last_access_;
  std::vector<std::int64_t> bound_;
  std::vector<std::int64_t> latest_;  // kSet: the latest access that `bound_` saw
  std::vector<std::uint32_t> round_;  // counts the changes of what a storage watches
  std::vector<std::uint32_t> changed_;

  std::vector<std::uint32_t> mark_;  // of the walk that counted a storage or class last
  std::uint32_t last_mark_ = 0;
  std::vector<std::uint32_t> stack_;
  std::vector<std::uint32_t> counted_;  // storages or classes of this evaluation

  std::vector<WatchList> watched_;  // by storage; kClasses: by class
  std::vector<Watch> watches_;
  std::uint32_t free_watch_ = kNone;
  std::size_t purge_at_ = 0;

  // Union-find, a node for every eviction.
  std::vector<std::uint32_t> node_;  // of an evicted storage
  std::vector<std::uint32_t> parent_;
  std::vector<std::uint32_t> rank_;
  std::vector<std::int64_t> total_;          // of a root
  std::vector<std::int64_t> cost_in_class_;  // with which a storage joined
};

}  // namespace tidemark
