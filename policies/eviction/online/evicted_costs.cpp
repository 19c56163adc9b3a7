#include "policies/eviction/online/evicted_costs.hpp"

#include <algorithm>

namespace tidemark {

EvictedCosts::EvictedCosts(std::size_t storages, const Rows<StorageEdge>& producers,
                           const Rows<StorageEdge>& consumers, Neighbourhood kind)
    : producers_(producers),
      consumers_(consumers),
      kind_(kind),
      state_(storages, StorageState::kNever),
      cost_(storages),
      last_access_(storages),
      bound_(storages),
      round_(storages),
      purge_at_(std::max<std::size_t>(1024, 8 * storages)) {
  if (kind == Neighbourhood::kNone) return;
  if (kind == Neighbourhood::kClasses) {
    node_.resize(storages);
    cost_in_class_.resize(storages);
  } else {
    mark_.resize(storages);
    watched_.resize(storages);
  }
  if (kind == Neighbourhood::kSet) latest_.resize(storages);
}

void EvictedCosts::add_cost(std::uint32_t s, std::int64_t cost) {
  cost_[s] += cost;
  if (kind_ == Neighbourhood::kNone || bound_[s] < cost_[s]) {
    bound_[s] = cost_[s];
    changed_.push_back(s);
  }
}

void EvictedCosts::set_bound(std::uint32_t s, std::int64_t bound) {
  ++round_[s];
  bound_[s] = bound;
  changed_.push_back(s);
}

void EvictedCosts::materialize(std::uint32_t s) {
  const bool back = evicted(s);
  state_[s] = StorageState::kMaterial;
  if (kind_ == Neighbourhood::kNone) return;
  forget(s);
  if (back) leave(s);
}

void EvictedCosts::evict(std::uint32_t s) {
  state_[s] = StorageState::kEvicted;
  if (kind_ == Neighbourhood::kNone) return;
  ++round_[s];
  if (kind_ == Neighbourhood::kClasses) join_classes(s);
}

void EvictedCosts::banish(std::uint32_t s) {
  const bool was_evicted = evicted(s);
  state_[s] = StorageState::kBanished;
  if (kind_ != Neighbourhood::kNone && was_evicted) leave(s);
}

void EvictedCosts::leave(std::uint32_t s) {
  if (kind_ == Neighbourhood::kClasses) return leave_class(s);
  std::uint32_t at = watched_[s].head;
  while (at != kNone) {
    const Watch watch = watches_[at];
    if (round_[watch.storage] == watch.round) forget(watch.storage);
    watches_[at].next = free_watch_;
    free_watch_ = at;
    at = watch.next;
  }
  watched_[s] = {};
}

// Two marks for an evaluation: one for each direction.
void EvictedCosts::begin_marks() {
  if (last_mark_ >= std::numeric_limits<std::uint32_t>::max() - 3) {
    std::fill(mark_.begin(), mark_.end(), 0);
    last_mark_ = 0;
  }
  last_mark_ += 2;
}

// Adds the evicted storages reached along `edges`. False when the walk was stopped.
bool EvictedCosts::walk(const Rows<StorageEdge>& edges, std::uint32_t from, Walk& walk) {
  stack_.assign(1, from);
  while (!stack_.empty()) {
    const std::uint32_t s = stack_.back();
    stack_.pop_back();
    for (const StorageEdge& edge : edges[s]) {
      if (edge.op >= defined_) break;
      const std::uint32_t other = edge.storage;
      if (!evicted(other) || mark_[other] == last_mark_) continue;
      if (walk.found.cost > walk.limit || counted_.size() >= walk.most) return false;
      // Views make an ancestor that is a descendant too possible; a set has it once.
      const bool again = kind_ == Neighbourhood::kSet && mark_[other] + 1 == last_mark_;
      mark_[other] = last_mark_;
      counted_.push_back(other);
      if (!again) walk.found.cost += cost_[other];
      walk.found.last_access = std::max(walk.found.last_access, last_access_[other]);
      stack_.push_back(other);
    }
  }
  return true;
}

bool EvictedCosts::sum_classes(const Rows<StorageEdge>& edges, std::uint32_t from, Walk& walk) {
  for (const StorageEdge& edge : edges[from]) {
    if (edge.op >= defined_) break;
    if (!evicted(edge.storage)) continue;
    const std::uint32_t root = find(node_[edge.storage]);
    if (mark_[root] == last_mark_) continue;
    if (walk.found.cost > walk.limit || counted_.size() >= walk.most) return false;
    mark_[root] = last_mark_;
    counted_.push_back(root);
    walk.found.cost += total_[root];
  }
  return true;
}

EvictedCosts::Evaluation EvictedCosts::evaluate(std::uint32_t s, std::int64_t limit,
                                                std::size_t most) {
  Walk w{.limit = limit, .most = most, .found = {cost_[s], last_access_[s], true}};
  if (kind_ == Neighbourhood::kNone) return w.found;
  counted_.clear();
  begin_marks();
  bool whole = true;
  if (kind_ == Neighbourhood::kClasses) {
    whole = sum_classes(producers_, s, w) && sum_classes(consumers_, s, w);
  } else {
    whole = walk(producers_, s, w);
    if (whole && kind_ != Neighbourhood::kAncestors) {
      ++last_mark_;
      whole = walk(consumers_, s, w);
    }
    if (kind_ != Neighbourhood::kSet) w.found.last_access = last_access_[s];
  }
  w.found.exact = whole;
  // A bound that does not rise keeps what it watches.
  if (w.found.cost > bound_[s] || w.found.last_access > latest_access(s)) {
    if (!latest_.empty()) latest_[s] = w.found.last_access;
    set_bound(s, std::max(bound_[s], w.found.cost));
    for (const std::uint32_t subject : counted_)
      watch(subject, s);
  }
  return w.found;
}

std::int64_t EvictedCosts::adjacent_cost(std::uint32_t s) {
  std::int64_t sum = 0;
  for (const Rows<StorageEdge>* edges : {&producers_, &consumers_}) {
    for (const StorageEdge& edge : (*edges)[s]) {
      if (edge.op >= defined_) break;
      if (!evicted(edge.storage)) continue;
      sum += std::max(total_[find(node_[edge.storage])], cost_[edge.storage]);
    }
  }
  return sum;
}

void EvictedCosts::watch(std::uint32_t subject, std::uint32_t s) {
  if (free_watch_ == kNone && watches_.size() >= purge_at_) purge_watches();
  std::uint32_t at = free_watch_;
  if (at == kNone) {
    at = static_cast<std::uint32_t>(watches_.size());
    watches_.emplace_back();
  } else {
    free_watch_ = watches_[at].next;
  }
  WatchList& list = watched_[subject];
  watches_[at] = {s, round_[s], list.head};
  list.head = at;
  if (list.tail == kNone) list.tail = at;
}

// Drops the watches of bounds that changed since.
void EvictedCosts::purge_watches() {
  std::size_t kept = 0;
  for (WatchList& list : watched_) {
    std::uint32_t at = list.head;
    list = {};
    while (at != kNone) {
      Watch& watch = watches_[at];
      const std::uint32_t next = watch.next;
      const bool valid = round_[watch.storage] == watch.round;
      watch.next = valid ? list.head : free_watch_;
      (valid ? list.head : free_watch_) = at;
      if (valid && list.tail == kNone) list.tail = at;
      kept += valid ? 1 : 0;
      at = next;
    }
  }
  purge_at_ = std::max(purge_at_, 2 * kept);
}

std::uint32_t EvictedCosts::find(std::uint32_t node) {
  while (parent_[node] != node) {
    parent_[node] = parent_[parent_[node]];
    node = parent_[node];
  }
  return node;
}

std::uint32_t EvictedCosts::merge(std::uint32_t a, std::uint32_t b) {
  if (a == b) return a;
  if (rank_[a] < rank_[b]) std::swap(a, b);
  if (rank_[a] == rank_[b]) ++rank_[a];
  parent_[b] = a;
  total_[a] += total_[b];
  WatchList& into = watched_[a];
  WatchList& from = watched_[b];
  if (from.head != kNone) {
    watches_[from.tail].next = into.head;
    if (into.tail == kNone) into.tail = from.tail;
    into.head = from.head;
    from = {};
  }
  return a;
}

void EvictedCosts::join_classes(std::uint32_t s) {
  auto root = static_cast<std::uint32_t>(parent_.size());
  node_[s] = root;
  parent_.push_back(root);
  rank_.push_back(0);
  total_.push_back(cost_[s]);
  mark_.push_back(0);
  watched_.emplace_back();
  cost_in_class_[s] = cost_[s];
  for (const Rows<StorageEdge>* edges : {&producers_, &consumers_}) {
    for (const StorageEdge& edge : (*edges)[s]) {
      if (edge.op >= defined_) break;
      if (evicted(edge.storage)) root = merge(root, find(node_[edge.storage]));
    }
  }
}

// The class keeps its connections: what `s` joined stays together.
void EvictedCosts::leave_class(std::uint32_t s) {
  const std::uint32_t root = find(node_[s]);
  const std::int64_t cost = cost_in_class_[s];
  total_[root] -= cost;
  std::uint32_t at = watched_[root].head;
  WatchList kept;
  while (at != kNone) {
    const std::uint32_t next = watches_[at].next;
    const std::uint32_t x = watches_[at].storage;
    const bool valid = round_[x] == watches_[at].round;
    if (valid) {
      bound_[x] = std::max(cost_[x], bound_[x] - cost);
      changed_.push_back(x);
      watches_[at].next = kept.head;
      kept.head = at;
      if (kept.tail == kNone) kept.tail = at;
    } else {
      watches_[at].next = free_watch_;
      free_watch_ = at;
    }
    at = next;
  }
  watched_[root] = kept;
  // Whoever touched the class only through `s` does not touch it any more.
  for (const Rows<StorageEdge>* edges : {&producers_, &consumers_}) {
    for (const StorageEdge& edge : (*edges)[s]) {
      if (edge.op >= defined_) break;
      if (material(edge.storage)) forget(edge.storage);
    }
  }
}

}  // namespace tidemark
