#include "policies/eviction/online/evicted_costs.hpp"

#include <algorithm>

namespace tidemark {

EvictedCosts::EvictedCosts(std::size_t storages, const StorageEdges& edges, Neighbourhood kind)
    : edges_(edges),
      kind_(kind),
      state_(storages, StorageState::kNever),
      records_(storages),
      purge_at_(std::max<std::size_t>(1024, 8 * storages)) {
  if (kind == Neighbourhood::kNone) return;
  if (kind == Neighbourhood::kClasses) {
    cost_in_class_.resize(storages);
  } else {
    watched_.resize(storages);
  }
  if (kind == Neighbourhood::kSet) latest_.resize(storages);
}

void EvictedCosts::add_cost(std::uint32_t s, std::int64_t cost) {
  StorageRecord& record = records_[s];
  record.cost += cost;
  if (kind_ == Neighbourhood::kNone || record.bound < record.cost) {
    record.bound = record.cost;
    changed_.push_back(s);
  }
  if (kind_ != Neighbourhood::kClasses || state_[s] == StorageState::kNever) return;
  // A view: the inputs of its operator are adjacent to the storage from now on.
  record.beside.count = ClassesBeside::kUnknown;
  for (const StorageEdge& edge : edges_.both(s))
    records_[edge.storage].beside.count = ClassesBeside::kUnknown;
}

void EvictedCosts::set_bound(std::uint32_t s, std::int64_t bound) {
  ++records_[s].version;
  records_[s].bound = bound;
  changed_.push_back(s);
}

void EvictedCosts::materialize(std::uint32_t s) {
  const bool back = evicted(s);
  state_[s] = StorageState::kMaterial;
  if (kind_ == Neighbourhood::kNone) return;
  forget(s);
  if (back) leave(s);
  if (kind_ == Neighbourhood::kClasses) records_[s].at = 0;
}

void EvictedCosts::evict(std::uint32_t s) {
  state_[s] = StorageState::kEvicted;
  if (kind_ == Neighbourhood::kNone) return;
  ++records_[s].version;
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
    if (records_[watch.storage].version == watch.version) forget(watch.storage);
    watches_[at].next = free_watch_;
    free_watch_ = at;
    at = watch.next;
  }
  watched_[s] = {};
}

// Advances by two marks for an evaluation: one for each direction.
void EvictedCosts::begin_marks() {
  if (last_mark_ >= std::numeric_limits<std::uint32_t>::max() - 3) {
    for (Class& each : classes_)
      each.mark = 0;
    for (std::uint32_t s = 0; s < records_.size(); ++s) {
      if (kind_ != Neighbourhood::kClasses || !evicted(s)) records_[s].at = 0;
    }
    last_mark_ = 0;
  }
  last_mark_ += 2;
}

// Adds the evicted storages reached along `edges`. False when the walk was stopped.
bool EvictedCosts::walk(EdgesOf edges, std::uint32_t from, Walk& walk) {
  stack_.assign(1, from);
  while (!stack_.empty()) {
    const std::uint32_t s = stack_.back();
    stack_.pop_back();
    for (const StorageEdge& edge : (edges_.*edges)(s)) {
      if (edge.op >= defined_) break;
      const std::uint32_t other = edge.storage;
      if (!evicted(other)) continue;
      StorageRecord& record = records_[other];
      if (record.at == last_mark_) continue;
      if (walk.found.cost > walk.limit || counted_.size() >= walk.most) return false;
      // Views make an ancestor that is a descendant too possible; a set has it once.
      const bool again = kind_ == Neighbourhood::kSet && record.at + 1 == last_mark_;
      record.at = last_mark_;
      counted_.push_back(other);
      if (!again) walk.found.cost += record.cost;
      walk.found.last_access = std::max(walk.found.last_access, record.last_access);
      stack_.push_back(other);
    }
  }
  return true;
}

bool EvictedCosts::sum_classes(std::uint32_t from, Walk& walk) {
  for (const StorageEdge& edge : edges_.both(from)) {
    if (edge.op >= defined_ || !evicted(edge.storage)) continue;
    const std::uint32_t root = class_of(edge.storage);
    Class& each = classes_[root];
    if (each.mark == last_mark_) continue;
    if (walk.found.cost > walk.limit || counted_.size() >= walk.most) return false;
    each.mark = last_mark_;
    counted_.push_back(root);
    walk.found.cost += each.total;
  }
  return true;
}

EvictedCosts::Evaluation EvictedCosts::evaluate(std::uint32_t s, std::int64_t limit,
                                                std::size_t most) {
  Walk w{.limit = limit, .most = most, .found = {cost(s), last_access(s), true}};
  if (kind_ == Neighbourhood::kNone) return w.found;
  if (records_[s].beside.count != ClassesBeside::kUnknown) return sum_known_classes(s);
  counted_.clear();
  begin_marks();
  bool whole = true;
  if (kind_ == Neighbourhood::kClasses) {
    whole = sum_classes(s, w);
  } else {
    whole = walk(&StorageEdges::producers, s, w);
    if (whole && kind_ != Neighbourhood::kAncestors) {
      ++last_mark_;
      whole = walk(&StorageEdges::consumers, s, w);
    }
    if (kind_ != Neighbourhood::kSet) w.found.last_access = last_access(s);
  }
  w.found.exact = whole;
  const bool known =
      kind_ == Neighbourhood::kClasses && whole && counted_.size() <= ClassesBeside::kMost;
  if (known) {
    ClassesBeside& beside = records_[s].beside;
    std::copy(counted_.begin(), counted_.end(), beside.node.begin());
    beside.count = static_cast<std::uint32_t>(counted_.size());
  }
  // The watches stay when the bound does not rise.
  if (known || w.found.cost > lower_bound(s) || w.found.last_access > latest_access(s)) {
    if (!latest_.empty()) latest_[s] = w.found.last_access;
    set_bound(s, std::max(lower_bound(s), w.found.cost));
    for (const std::uint32_t subject : counted_)
      watch(subject, s);
  }
  return w.found;
}

EvictedCosts::Evaluation EvictedCosts::sum_known_classes(std::uint32_t s) {
  StorageRecord& record = records_[s];
  auto& [node, count] = record.beside;
  std::int64_t sum = record.cost;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t root = find(node[i]);
    const auto* const end = node.begin() + kept;
    if (std::find(node.begin(), node.begin() + kept, root) != end) continue;
    node[kept++] = root;
    sum += classes_[root].total;
  }
  count = kept;
  if (sum > record.bound) {  // all of them are watched
    record.bound = sum;
    changed_.push_back(s);
  }
  return {sum, record.last_access, true};
}

// Records that the class of `root` is adjacent to `s` from now on.
void EvictedCosts::add_beside(std::uint32_t s, std::uint32_t root) {
  auto& [node, count] = records_[s].beside;
  if (count == ClassesBeside::kUnknown) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    node[i] = find(node[i]);
    if (node[i] == root) return;
  }
  if (count == ClassesBeside::kMost) {
    count = ClassesBeside::kUnknown;
    return;
  }
  node[count++] = root;
  watch(root, s);
}

std::int64_t EvictedCosts::adjacent_cost(std::uint32_t s) {
  std::int64_t sum = 0;
  for (const StorageEdge& edge : edges_.both(s)) {
    if (edge.op >= defined_ || !evicted(edge.storage)) continue;
    sum += std::max(classes_[class_of(edge.storage)].total, cost(edge.storage));
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
  WatchList& list = watched(subject);
  watches_[at] = {s, records_[s].version, list.head};
  list.head = at;
  if (list.tail == kNone) list.tail = at;
}

// Drops the watches of bounds that changed since.
void EvictedCosts::purge_watches() {
  std::size_t kept = 0;
  const bool by_class = kind_ == Neighbourhood::kClasses;
  const auto subjects = static_cast<std::uint32_t>(by_class ? classes_.size() : watched_.size());
  for (std::uint32_t subject = 0; subject < subjects; ++subject) {
    WatchList& list = watched(subject);
    std::uint32_t at = list.head;
    list = {};
    while (at != kNone) {
      Watch& watch = watches_[at];
      const std::uint32_t next = watch.next;
      const bool valid = records_[watch.storage].version == watch.version;
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
  while (parents_[node] != node) {
    std::uint32_t& parent = parents_[node];
    parent = parents_[parent];
    node = parent;
  }
  return node;
}

std::uint32_t EvictedCosts::merge(std::uint32_t a, std::uint32_t b) {
  if (a == b) return a;
  if (classes_[a].rank < classes_[b].rank) std::swap(a, b);
  if (classes_[a].rank == classes_[b].rank) ++classes_[a].rank;
  parents_[b] = a;
  classes_[a].total += classes_[b].total;
  WatchList& into = classes_[a].watched;
  WatchList& from = classes_[b].watched;
  if (from.head != kNone) {
    watches_[from.tail].next = into.head;
    if (into.tail == kNone) into.tail = from.tail;
    into.head = from.head;
    from = {};
  }
  return a;
}

void EvictedCosts::join_classes(std::uint32_t s) {
  auto root = static_cast<std::uint32_t>(classes_.size());
  records_[s].at = root;
  classes_.push_back({.total = cost(s)});
  parents_.push_back(root);
  cost_in_class_[s] = cost(s);
  for (const StorageEdge& edge : edges_.both(s)) {
    if (edge.op < defined_ && evicted(edge.storage)) root = merge(root, class_of(edge.storage));
  }
  for (const StorageEdge& edge : edges_.both(s)) {
    if (edge.op < defined_ && material(edge.storage)) add_beside(edge.storage, root);
  }
}

// Removes `s` from its class, whose other members stay together.
void EvictedCosts::leave_class(std::uint32_t s) {
  Class& left = classes_[class_of(s)];
  const std::int64_t cost_of_s = cost_in_class_[s];
  left.total -= cost_of_s;
  std::uint32_t at = left.watched.head;
  WatchList kept;
  begin_marks();
  while (at != kNone) {
    const std::uint32_t next = watches_[at].next;
    const std::uint32_t x = watches_[at].storage;
    StorageRecord& watcher = records_[x];
    // A storage that watched two classes which have merged is met twice.
    const bool valid = watcher.version == watches_[at].version && watcher.at != last_mark_;
    if (valid) {
      watcher.at = last_mark_;
      watcher.bound = std::max(watcher.cost, watcher.bound - cost_of_s);
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
  left.watched = kept;
  // Storages that touched the class only through `s` do not touch it any more.
  for (const StorageEdge& edge : edges_.both(s)) {
    if (edge.op < defined_ && material(edge.storage)) forget(edge.storage);
  }
}

}  // namespace tidemark
