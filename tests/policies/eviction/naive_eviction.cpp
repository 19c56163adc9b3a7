#include "tests/policies/eviction/naive_eviction.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "graph/core/sha1.hpp"

namespace tidemark::test {

namespace {

class NaiveEviction {
 public:
  NaiveEviction(const EvictionLog& log, const EvictionOptions& options)
      : log_(log), options_(options), storages_(log.storages.size()), defined_(log.tensors.size()) {
    for (const EvictionLog::Operator& op : log.operators)
      limit_ += static_cast<double>(op.cost) * (options.thrash_factor - 1);
  }

  EvictionResult run() {
    for (const LogStep& step : log_.steps) {
      if (!execute(step)) break;
    }
    result_.victims_sha1 = names_.hex().substr(0, 16);
    return result_;
  }

 private:
  struct Storage {
    bool computed = false;
    bool material = false;
    bool kept = false;
    bool banished = false;
    int locks = 0;
    int references = 0;
    std::int64_t last_access = 0;
    std::int64_t cost = 0;
    int group = -1;  // equivalence class
  };

  bool execute(const LogStep& step) {
    if (step.kind == LogStepKind::kConstant || step.kind == LogStepKind::kCompute) {
      newest_ = step.id;
      const EvictionLog::Operator& op = log_.operators[step.id];
      std::set<std::uint32_t> produced;
      for (std::uint32_t t = op.first_output; t < op.first_output + op.outputs; ++t) {
        const std::uint32_t s = log_.tensors[t].storage;
        ++storages_[s].references;
        if (produced.insert(s).second) storages_[s].cost += op.cost;
      }
      if (!materialize(op.first_output, true)) return false;
      for (const std::uint32_t s : produced)
        storages_[s].last_access = clock_;
      if (step.kind == LogStepKind::kConstant) keep(log_.tensors[op.first_output].storage);
      return true;
    }
    const std::uint32_t s = log_.tensors[step.id].storage;
    if (step.kind == LogStepKind::kRetain) ++storages_[s].references;
    if (step.kind == LogStepKind::kKeep) {
      if (!defined_[step.id] && !materialize(step.id, false)) return false;
      keep(s);
    }
    if (step.kind == LogStepKind::kRelease && options_.mode != DeallocationMode::kIgnore) {
      const bool last = --storages_[s].references == 0;
      if (last && options_.mode == DeallocationMode::kBanish && banish(s)) return true;
      if (last && storages_[s].material && !storages_[s].kept) {
        evict(s);
        ++result_.deallocations;
      }
    }
    return true;
  }

  bool materialize(std::uint32_t tensor, bool first) {
    const std::uint32_t id = log_.tensors[tensor].op;
    const EvictionLog::Operator& op = log_.operators[id];
    std::vector<std::uint32_t> missing;
    const bool banishes = options_.mode == DeallocationMode::kBanish;
    for (const std::uint32_t t : log_.inputs[id]) {
      Storage& s = storages_[log_.tensors[t].storage];
      if (!banishes || s.references > 0) s.last_access = clock_;
    }
    for (const std::uint32_t t : log_.inputs[id]) {
      if (defined_[t]) {
        lock(log_.tensors[t].storage);
      } else {
        missing.push_back(t);
      }
    }
    for (const std::uint32_t t : missing) {
      if (!defined_[t] && !materialize(t, false)) return false;
      lock(log_.tensors[t].storage);
    }
    while (memory_ + op.bytes > options_.budget) {
      if (pool_.empty()) return stop(EvictionStatus::kOutOfMemory);
      const std::uint32_t victim = choose();
      names_.update(result_.policy_evictions++ > 0 ? "," : "");
      names_.update(log_.name(victim));
      evict(victim);
    }
    clock_ += op.cost;
    memory_ += op.bytes;
    result_.peak = std::max(result_.peak, memory_);
    (first ? result_.model_compute : result_.remat_compute) += op.cost;
    result_.remat_operators += first ? 0 : 1;
    std::vector<std::uint32_t> order;
    for (std::uint32_t t = op.first_output; t < op.first_output + op.outputs; ++t) {
      if (t != tensor) order.push_back(t);
    }
    order.push_back(tensor);
    for (const std::uint32_t t : order) {
      if (defined_[t]) {
        memory_ -= log_.tensors[t].bytes;
        continue;
      }
      defined_[t] = true;
      Storage& s = storages_[log_.tensors[t].storage];
      if (s.material) continue;
      s.material = true;
      s.computed = true;
      s.banished = false;  // an output beside the one that came back
      leave_group(log_.tensors[t].storage);
      if (s.locks == 0) pool_.push_back(log_.tensors[t].storage);
    }
    for (const std::uint32_t t : log_.inputs[id]) {
      const std::uint32_t s = log_.tensors[t].storage;
      if (--storages_[s].locks == 0 && storages_[s].material) pool_.push_back(s);
    }
    if (static_cast<double>(result_.remat_compute) > limit_) return stop(EvictionStatus::kThrash);
    for (const std::uint32_t t : log_.inputs[id]) {
      const std::uint32_t s = log_.tensors[t].storage;
      if (banishes && storages_[s].references == 0) banish(s);
    }
    return true;
  }

  bool stop(EvictionStatus status) {
    result_.status = status;
    return false;
  }
  void lock(std::uint32_t s) {
    if (storages_[s].locks++ == 0)
      pool_.erase(std::remove(pool_.begin(), pool_.end(), s), pool_.end());
  }
  void keep(std::uint32_t s) {
    if (!storages_[s].kept) lock(s);
    storages_[s].kept = true;
  }
  void evict(std::uint32_t s) {
    storages_[s].material = false;
    memory_ -= log_.storages[s].bytes;
    pool_.erase(std::remove(pool_.begin(), pool_.end(), s), pool_.end());
    for (std::uint32_t t = 0; t < log_.tensors.size(); ++t) {
      if (log_.tensors[t].storage == s) defined_[t] = false;
    }
    int group = next_group_++;
    totals_[group] = joined_[s] = storages_[s].cost;
    storages_[s].group = group;
    for (const std::uint32_t other : neighbours(s, true, true)) {
      if (!evicted(other) || storages_[other].group == group) continue;
      const int old = storages_[other].group;
      totals_[group] += totals_[old];
      for (Storage& each : storages_) {
        if (each.group == old) each.group = group;
      }
    }
  }
  // Frees permanently the values that nothing missing is computed from, and keeps resident those
  // that were computed from them.
  bool banish(std::uint32_t s) {
    if (storages_[s].banished) return false;
    std::set<std::uint32_t> children;
    for (std::uint32_t t = 0; t < log_.tensors.size() && log_.tensors[t].op <= newest_; ++t) {
      const std::uint32_t to = log_.tensors[t].storage;
      if (to == s || storages_[to].banished) continue;
      for (const std::uint32_t input : log_.inputs[log_.tensors[t].op]) {
        if (log_.tensors[input].storage != s) continue;
        if (!defined_[t]) return false;
        children.insert(to);
      }
    }
    if (storages_[s].material) {
      evict(s);
      ++result_.deallocations;
    }
    leave_group(s);
    storages_[s].banished = true;
    for (const std::uint32_t child : children)
      keep(child);
    return true;
  }
  void leave_group(std::uint32_t s) {
    if (storages_[s].group < 0) return;
    totals_[storages_[s].group] -= joined_[s];
    storages_[s].group = -1;
  }
  bool evicted(std::uint32_t s) const {
    return storages_[s].computed && !storages_[s].material && !storages_[s].banished;
  }

  std::set<std::uint32_t> neighbours(std::uint32_t s, bool up, bool down) const {
    std::set<std::uint32_t> found;
    for (std::uint32_t t = 0; t < log_.tensors.size() && log_.tensors[t].op <= newest_; ++t) {
      const std::uint32_t to = log_.tensors[t].storage;
      for (const std::uint32_t input : log_.inputs[log_.tensors[t].op]) {
        const std::uint32_t from = log_.tensors[input].storage;
        if (from == to) continue;
        if (up && to == s) found.insert(from);
        if (down && from == s) found.insert(to);
      }
    }
    return found;
  }
  void reach(std::uint32_t s, bool up, std::set<std::uint32_t>& found) const {
    for (const std::uint32_t other : neighbours(s, up, !up)) {
      if (evicted(other) && found.insert(other).second) reach(other, up, found);
    }
  }

  // Costs and sizes of the tests are small: the products are exact in double.
  double score(std::uint32_t s) const {
    const Storage& storage = storages_[s];
    const auto bytes = static_cast<double>(log_.storages[s].bytes.count);
    std::set<std::uint32_t> up;
    std::set<std::uint32_t> down;
    reach(s, true, up);
    reach(s, false, down);
    std::int64_t cost = storage.cost;
    std::int64_t last = storage.last_access;
    const auto ratio = [](double a, double b) {
      return b == 0 ? std::numeric_limits<double>::infinity() : a / b;
    };
    switch (options_.heuristic) {
      case EvictionHeuristic::kLru:
        return static_cast<double>(last);
      case EvictionHeuristic::kSize:
        return ratio(1, bytes);
      case EvictionHeuristic::kDtrLocal:
        break;
      case EvictionHeuristic::kMsps:
        for (const std::uint32_t other : up)
          cost += storages_[other].cost;
        return ratio(static_cast<double>(cost), bytes);
      case EvictionHeuristic::kDtr:
        for (const auto* set : {&up, &down}) {
          for (const std::uint32_t other : *set)
            cost += storages_[other].cost;
        }
        break;
      case EvictionHeuristic::kDtrFull:
        up.insert(down.begin(), down.end());
        for (const std::uint32_t other : up) {
          cost += storages_[other].cost;
          last = std::max(last, storages_[other].last_access);
        }
        break;
      case EvictionHeuristic::kDtrEq: {
        std::set<int> groups;
        for (const std::uint32_t other : neighbours(s, true, true)) {
          if (evicted(other)) groups.insert(storages_[other].group);
        }
        for (const int group : groups)
          cost += totals_.at(group);
        break;
      }
      case EvictionHeuristic::kRandom:
        break;
    }
    return ratio(static_cast<double>(cost), bytes * static_cast<double>(clock_ - last));
  }

  std::uint32_t choose() const {
    double best = std::numeric_limits<double>::infinity();
    std::uint32_t victim = 0;
    for (const std::uint32_t s : pool_) {
      const double each = score(s);
      if (each > best) continue;
      best = each;
      victim = s;
      if (each == 0) break;
    }
    return victim;
  }

  const EvictionLog& log_;
  EvictionOptions options_;
  std::vector<Storage> storages_;
  std::vector<bool> defined_;
  std::vector<std::uint32_t> pool_;
  std::map<int, std::int64_t> totals_;
  std::map<std::uint32_t, std::int64_t> joined_;
  int next_group_ = 0;
  std::uint32_t newest_ = 0;
  std::int64_t clock_ = 1;
  Bytes memory_;
  double limit_ = 0;
  EvictionResult result_;
  Sha1 names_;
};

}  // namespace

EvictionResult naive_eviction(const EvictionLog& log, const EvictionOptions& options) {
  return NaiveEviction(log, options).run();
}

}  // namespace tidemark::test
