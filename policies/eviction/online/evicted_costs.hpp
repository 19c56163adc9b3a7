// The cost of evicting a storage: its own operators and those of its evicted neighbourhood
// (DTR, Kirisame et al. 2021, section 4: e*, the equivalence classes of h_DTR-eq, and MSPS of
// Peng et al. 2020).
//
// A neighbourhood is walked only when the storage is a candidate, and no further than its score may
// still win. The result is kept as a lower bound: evictions only add to a neighbourhood. When a
// storage comes back, the bounds that counted it fall; each evicted storage (or class) therefore
// lists the candidates that watch it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "graph/core/large_table.hpp"
#include "policies/eviction/online/storage_edges.hpp"
#include "policies/eviction/online/storage_record.hpp"

namespace tidemark {

enum class StorageState : std::uint8_t { kNever, kMaterial, kEvicted, kBanished };

enum class Neighbourhood : std::uint8_t {
  kNone,
  kAncestors,  // evicted, reached through evicted storages only
  kBoth,       // ancestors and descendants, each summed by itself
  kSet,        // ancestors and descendants as one set, with its latest access
  kClasses,    // union-find classes of adjacent evicted storages, never split
};

class EvictedCosts {
 public:
  struct Evaluation {
    std::int64_t cost = 0;
    std::int64_t last_access = 0;  // last access to the storage; kSet: the latest of the set
    bool exact = false;            // false: stopped early, the cost is a lower bound
  };

  // The edges must live longer.
  EvictedCosts(std::size_t storages, const StorageEdges& edges, Neighbourhood kind);

  // Declares that the program has defined the operators below `count`.
  void define_operators(std::uint32_t count) { defined_ = count; }
  [[nodiscard]] std::uint32_t newest_operator() const { return defined_ - 1; }
  void add_cost(std::uint32_t s, std::int64_t cost);
  [[nodiscard]] std::int64_t cost(std::uint32_t s) const { return records_[s].cost; }
  // The pool keeps its own fields in it.
  [[nodiscard]] StorageRecord& record(std::uint32_t s) { return records_[s]; }
  [[nodiscard]] const StorageRecord& record(std::uint32_t s) const { return records_[s]; }
  [[nodiscard]] StorageState state(std::uint32_t s) const { return state_[s]; }
  [[nodiscard]] bool material(std::uint32_t s) const {
    return state_[s] == StorageState::kMaterial;
  }
  [[nodiscard]] std::int64_t last_access(std::uint32_t s) const { return records_[s].last_access; }
  void access(std::uint32_t s, std::int64_t clock) { records_[s].last_access = clock; }

  void materialize(std::uint32_t s);
  void evict(std::uint32_t s);
  void banish(std::uint32_t s);

  // Returns the cost of evicting `s`, walked until it exceeds `limit` or `most` storages were
  // counted.
  Evaluation evaluate(std::uint32_t s, std::int64_t limit, std::size_t most);
  // kClasses: returns the sum over directly adjacent evicted storages of their class's cost, and at
  // least their own: a class that two of them share counts twice. The cost of `s` itself is not in
  // it.
  [[nodiscard]] std::int64_t adjacent_cost(std::uint32_t s);
  [[nodiscard]] std::int64_t lower_bound(std::uint32_t s) const { return records_[s].bound; }
  // Prefetches what evaluate() will read first.
  void bring_near(std::uint32_t s) const {
    __builtin_prefetch(&records_[s]);
    edges_.bring_near(s);
  }
  void bring_neighbours_near(std::uint32_t s) const { edges_.bring_row_near(s); }
  // Returns a lower bound on Evaluation::last_access.
  [[nodiscard]] std::int64_t latest_access(std::uint32_t s) const {
    return latest_.empty() ? last_access(s) : std::max(last_access(s), latest_[s]);
  }
  // Returns the storages whose bounds changed since the list was last cleared, possibly several
  // times.
  std::vector<std::uint32_t>& changed() { return changed_; }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Watch {
    std::uint32_t storage = 0;  // the storage whose bound counts what is watched
    std::uint32_t version = 0;  // valid while equal to StorageRecord::version
    std::uint32_t next = kNone;
  };
  struct WatchList {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  // A node of the union-find forest, one for every eviction. Its parent is apart, in parents_.
  struct alignas(32) Class {
    std::int64_t total = 0;  // cost of the class, at a root
    std::uint32_t rank = 0;
    std::uint32_t mark = 0;  // the last evaluation that counted the class
    WatchList watched;
  };
  struct Walk {
    std::int64_t limit = 0;
    std::size_t most = 0;
    Evaluation found;
  };

  [[nodiscard]] bool evicted(std::uint32_t s) const { return state_[s] == StorageState::kEvicted; }
  using EdgesOf = std::span<const StorageEdge> (StorageEdges::*)(std::uint32_t) const;
  bool walk(EdgesOf edges, std::uint32_t from, Walk& walk);
  bool sum_classes(std::uint32_t from, Walk& walk);
  [[nodiscard]] Evaluation sum_known_classes(std::uint32_t s);
  void begin_marks();
  void set_bound(std::uint32_t s, std::int64_t bound);
  void forget(std::uint32_t s) {
    if (!latest_.empty()) latest_[s] = 0;
    records_[s].beside.count = ClassesBeside::kUnknown;
    set_bound(s, cost(s));
  }
  void watch(std::uint32_t subject, std::uint32_t s);
  void purge_watches();
  void leave(std::uint32_t s);
  void join_classes(std::uint32_t s);
  void leave_class(std::uint32_t s);
  void add_beside(std::uint32_t s, std::uint32_t root);
  [[nodiscard]] std::uint32_t find(std::uint32_t node);
  [[nodiscard]] std::uint32_t class_of(std::uint32_t s) {  // root of its class
    return records_[s].at = find(records_[s].at);
  }
  [[nodiscard]] WatchList& watched(std::uint32_t subject) {
    return kind_ == Neighbourhood::kClasses ? classes_[subject].watched : watched_[subject];
  }
  std::uint32_t merge(std::uint32_t a, std::uint32_t b);

  const StorageEdges& edges_;
  Neighbourhood kind_;
  std::uint32_t defined_ = 0;
  std::vector<StorageState> state_;  // all that is read of most neighbours
  LargeTable<StorageRecord> records_;
  std::vector<std::int64_t> latest_;  // kSet: the latest access that the bound saw
  std::vector<std::uint32_t> changed_;

  std::uint32_t last_mark_ = 0;
  std::vector<std::uint32_t> stack_;
  std::vector<std::uint32_t> counted_;  // storages or classes that this evaluation counted

  LargeTable<WatchList> watched_;  // watches of each storage; kClasses has them in its classes
  LargeTable<Watch> watches_;
  std::uint32_t free_watch_ = kNone;
  std::size_t purge_at_ = 0;

  LargeTable<Class> classes_;
  LargeTable<std::uint32_t> parents_;        // by class; all that find() reads
  std::vector<std::int64_t> cost_in_class_;  // cost with which a storage joined its class
};

}  // namespace tidemark
