#include "policies/eviction/online/online_eviction.hpp"

#include <algorithm>
#include <vector>

#include "policies/eviction/online/evicted_costs.hpp"
#include "policies/eviction/online/eviction_pool.hpp"
#include "policies/eviction/online/victim_names.hpp"

namespace tidemark {
namespace online_eviction_detail {
namespace {

// One replay of a log. An execution locks its inputs, makes room, and appends its outputs and then
// its inputs to the pool; the order of the pool decides between equal scores.
class LogReplay {
 public:
  LogReplay(const EvictionLog& log, const EvictionOptions& options);
  EvictionResult run();

 private:
  // A tensor that is being computed; its missing inputs are missing_[next .. end).
  struct Frame {
    std::uint32_t tensor = 0;
    bool first = false;  // the operator's first execution
    std::size_t begin = 0;
    std::size_t next = 0;
    std::size_t end = 0;
  };

  void define(std::uint32_t op);
  bool step(const LogStep& step);
  bool materialize(std::uint32_t tensor, bool first);
  void open(std::uint32_t tensor, bool first);
  bool close(const Frame& frame);
  bool fail(EvictionStatus status) {
    result_.status = status;
    return false;
  }
  void lock(std::uint32_t s);
  void unlock(std::uint32_t s);
  void keep(std::uint32_t s);
  bool evictable(std::uint32_t s) const { return locks_[s] == 0 && costs_.material(s); }

  bool make_room(Bytes bytes);
  void evict(std::uint32_t s);
  void release(std::uint32_t tensor);
  bool banish(std::uint32_t s);
  [[nodiscard]] bool has_evicted_dependents(std::uint32_t s) const;

  const EvictionLog& log_;
  EvictionOptions options_;
  EvictedCosts costs_;
  EvictionPool pool_;
  std::vector<std::uint8_t> defined_;  // by tensor
  std::vector<std::uint32_t> locks_;   // by storage; a storage kept to the end has a permanent lock
  std::vector<std::int32_t> references_;  // by storage
  std::vector<std::uint8_t> kept_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> missing_;
  std::int64_t clock_ = 1;
  Bytes memory_;
  double limit_ = 0;  // limit of recomputation
  EvictionResult result_;
  VictimNames victims_;
};

LogReplay::LogReplay(const EvictionLog& log, const EvictionOptions& options)
    : log_(log),
      options_(options),
      costs_(log.storages.size(), log.edges, neighbourhood_of(options.heuristic)),
      pool_(log, options.heuristic, costs_),
      defined_(log.tensors.size()),
      locks_(log.storages.size()),
      references_(log.storages.size()),
      kept_(log.storages.size()),
      victims_(log) {
  std::int64_t compute = 0;  // cost of the program without a budget: each operator once
  for (const EvictionLog::Operator& op : log.operators) {
    if (op.outputs > 0) compute += op.cost;
  }
  // The limit is bounded so that the clock stays exact.
  limit_ = std::min(static_cast<double>(compute) * (options.thrash_factor - 1), 0x1p62);
}

void LogReplay::lock(std::uint32_t s) {
  if (locks_[s]++ == 0) pool_.remove(s);
}

void LogReplay::unlock(std::uint32_t s) {
  if (--locks_[s] == 0 && costs_.material(s)) pool_.append(s);
}

void LogReplay::keep(std::uint32_t s) {
  if (kept_[s] != 0) return;
  kept_[s] = 1;
  lock(s);
}

// Defines the outputs of an operator: their costs are known from here on, their contents do not
// exist.
void LogReplay::define(std::uint32_t op) {
  const EvictionLog::Operator& o = log_.operators[op];
  costs_.define_operators(op + 1);
  for (std::uint32_t t = o.first_output; t < o.first_output + o.outputs; ++t) {
    const std::uint32_t s = log_.tensors[t].storage;
    ++references_[s];
    bool counted = false;  // several outputs in one storage are one operator
    for (std::uint32_t u = o.first_output; u < t && !counted; ++u)
      counted = log_.tensors[u].storage == s;
    if (!counted) costs_.add_cost(s, o.cost);
  }
}

bool LogReplay::step(const LogStep& step) {
  switch (step.kind) {
    case LogStepKind::kConstant:
    case LogStepKind::kCompute: {
      define(step.id);
      const std::uint32_t first = log_.operators[step.id].first_output;
      if (!materialize(first, true)) return false;
      if (step.kind == LogStepKind::kConstant) keep(log_.tensors[first].storage);
      return true;
    }
    case LogStepKind::kRetain:
      ++references_[log_.tensors[step.id].storage];
      return true;
    case LogStepKind::kRelease:
      if (options_.mode != DeallocationMode::kIgnore) release(step.id);
      return true;
    case LogStepKind::kKeep:
      if (defined_[step.id] == 0 && !materialize(step.id, false)) return false;
      keep(log_.tensors[step.id].storage);
      return true;
  }
  return true;
}

void LogReplay::open(std::uint32_t tensor, bool first) {
  const std::size_t begin = missing_.size();
  const std::span<const std::uint32_t> inputs = log_.inputs[log_.tensors[tensor].op];
  const bool banish = options_.mode == DeallocationMode::kBanish;
  for (const std::uint32_t input : inputs) {
    const std::uint32_t s = log_.tensors[input].storage;
    if (!banish || references_[s] > 0) costs_.access(s, clock_);
  }
  for (const std::uint32_t input : inputs) {
    const std::uint32_t s = log_.tensors[input].storage;
    if (defined_[input] != 0) {
      lock(s);
    } else {
      missing_.push_back(input);
    }
  }
  // If a view is missing, its storage is not: it stays evictable until the view is recomputed.
  for (std::size_t i = begin; i < missing_.size(); ++i) {
    const std::uint32_t s = log_.tensors[missing_[i]].storage;
    if (pool_.contains(s)) pool_.touch(s);
  }
  frames_.push_back({tensor, first, begin, begin, missing_.size()});
}

// Recomputes a tensor, depth first without recursion: chains of missing inputs are as long as the
// program.
bool LogReplay::materialize(std::uint32_t tensor, bool first) {
  open(tensor, first);
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next < frame.end) {
      const std::uint32_t input = missing_[frame.next];
      if (defined_[input] == 0) {
        open(input, false);  // `frame` is no longer valid
      } else {
        lock(log_.tensors[input].storage);
        ++frame.next;
      }
      continue;
    }
    const Frame ready = frame;
    if (!close(ready)) return false;
    missing_.resize(ready.begin);
    frames_.pop_back();
  }
  return true;
}

// Executes the operator, whose inputs are all there and locked.
bool LogReplay::close(const Frame& frame) {
  const std::uint32_t id = log_.tensors[frame.tensor].op;
  const EvictionLog::Operator& op = log_.operators[id];
  if (!make_room(op.bytes)) return fail(EvictionStatus::kOutOfMemory);
  clock_ += op.cost;
  memory_ += op.bytes;
  result_.peak = std::max(result_.peak, memory_);
  ++result_.events;
  (frame.first ? result_.model_compute : result_.remat_compute) += op.cost;
  if (!frame.first) ++result_.remat_operators;

  const std::uint32_t end = op.first_output + op.outputs;
  Bytes duplicates;
  const auto produce = [&](std::uint32_t t) {
    const std::uint32_t s = log_.tensors[t].storage;
    if (frame.first) costs_.access(s, clock_);
    if (defined_[t] != 0) {
      duplicates += log_.tensors[t].bytes;
      return;
    }
    defined_[t] = 1;
    if (costs_.material(s)) return;
    costs_.materialize(s);
    if (locks_[s] == 0) pool_.append(s);
  };
  for (std::uint32_t t = op.first_output; t < end; ++t) {
    if (t != frame.tensor) produce(t);
  }
  produce(frame.tensor);
  memory_ -= duplicates;
  const std::span<const std::uint32_t> inputs = log_.inputs[id];
  for (const std::uint32_t input : inputs)
    unlock(log_.tensors[input].storage);
  if (static_cast<double>(result_.remat_compute) > limit_) return fail(EvictionStatus::kThrash);
  if (options_.mode == DeallocationMode::kBanish) {
    for (const std::uint32_t input : inputs) {
      const std::uint32_t s = log_.tensors[input].storage;
      if (references_[s] == 0) banish(s);
    }
  }
  return true;
}

bool LogReplay::make_room(Bytes bytes) {
  while (memory_ + bytes > options_.budget) {
    if (pool_.size() == 0) return false;
    const std::uint32_t s = pool_.choose(clock_);
    ++result_.policy_evictions;
    victims_.add(s);
    evict(s);
    pool_.raise_beside(s);
  }
  return true;
}

void LogReplay::evict(std::uint32_t s) {
  costs_.evict(s);
  memory_ -= Bytes(costs_.record(s).bytes);
  pool_.remove(s);
  for (const std::uint32_t t : log_.storage_tensors[s])
    defined_[t] = 0;
}

void LogReplay::release(std::uint32_t tensor) {
  const std::uint32_t s = log_.tensors[tensor].storage;
  if (--references_[s] != 0) return;
  if (options_.mode == DeallocationMode::kBanish && banish(s)) return;
  if (!costs_.material(s) || kept_[s] != 0) return;
  evict(s);
  ++result_.deallocations;
}

// Whether a tensor that was computed from `s` is evicted, so that it may have to be recomputed.
bool LogReplay::has_evicted_dependents(std::uint32_t s) const {
  for (const StorageEdge& edge : log_.edges.consumers(s)) {
    if (edge.op > costs_.newest_operator()) break;
    if (costs_.state(edge.storage) == StorageState::kBanished) continue;
    const EvictionLog::Operator& op = log_.operators[edge.op];
    for (std::uint32_t t = op.first_output; t < op.first_output + op.outputs; ++t) {
      if (log_.tensors[t].storage == edge.storage && defined_[t] == 0) return true;
    }
  }
  return false;
}

// Frees `s` permanently, if nothing evicted depends on it. Its children cannot be recomputed any
// more.
bool LogReplay::banish(std::uint32_t s) {
  if (costs_.state(s) == StorageState::kBanished || has_evicted_dependents(s)) return false;
  if (costs_.material(s)) {
    evict(s);
    ++result_.deallocations;
  }
  costs_.banish(s);
  for (const StorageEdge& edge : log_.edges.consumers(s)) {
    if (edge.op > costs_.newest_operator()) break;
    if (costs_.state(edge.storage) != StorageState::kBanished) keep(edge.storage);
  }
  return true;
}

EvictionResult LogReplay::run() {
  for (const LogStep& each : log_.steps) {
    if (!step(each)) break;
  }
  result_.victims_sha1 = victims_.hex().substr(0, 16);
  return std::move(result_);
}

}  // namespace
}  // namespace online_eviction_detail

EvictionResult replay_eviction(const EvictionLog& log, const EvictionOptions& options) {
  return online_eviction_detail::LogReplay(log, options).run();
}

}  // namespace tidemark
