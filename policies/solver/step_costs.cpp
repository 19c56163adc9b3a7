#include "policies/solver/step_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <queue>
#include <set>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

using Index = std::uint32_t;  // of an operator in the micro-batch, and of a group by its first one
constexpr Index kNone = ~Index{0};

struct TouchAt {
  Index at = 0;
  Access access = Access::kRead;
  bool hold = false;  // the end of a hold, which reads nothing
};

[[nodiscard]] bool writes(const TouchAt& touch) {
  return touch.access != Access::kRead;
}

bool is_convolution(OperatorClass op_class) {
  return op_class == OperatorClass::kConvolution ||
         op_class == OperatorClass::kConvolutionBackwardData ||
         op_class == OperatorClass::kConvolutionBackwardWeight ||
         op_class == OperatorClass::kDepthwiseConvolution;
}

class Builder {
 public:
  Builder(const TrainingGraph& graph, std::span<const OperatorId> ops,
          const IdVector<OperatorId, Duration>& durations, bool any_order,
          const FrameworkProfile& libraries)
      : graph_(graph),
        ops_(ops),
        durations_(durations),
        any_order_(any_order),
        libraries_(libraries),
        touches_(graph.storages.size()),
        once_(ops.size()),
        group_(ops.size()),
        read_later_(graph.storages.size()) {}

  StepCosts run() {
    list_touches();
    while (!order_groups())
      ;
    make_nodes();
    return std::move(result_);
  }

 private:
  void list_touches();
  void list_holds(const IdVector<OperatorId, Index>& index);
  // What runs once, and which operators in place are one with what makes their storage.
  void find_groups();
  [[nodiscard]] bool is_made_here(StorageId s) const {
    return !touches_[s].empty() && touches_[s].front().access == Access::kCreate;
  }
  [[nodiscard]] bool may_fuse(StorageId s) const;
  [[nodiscard]] Index root(Index at) {
    while (group_[at] != at)
      at = group_[at] = group_[group_[at]];
    return at;
  }
  // Edges between groups; false when groups form a cycle, which are then taken apart.
  bool order_groups();
  template <class Edge>
  void for_each_edge(Edge edge);
  void make_nodes();
  void measure(CostNodeId node, const std::vector<Index>& members);
  [[nodiscard]] std::int64_t workspace_of(const Operator& op) const {
    if (!is_convolution(op.work.op_class)) return op.workspace.count;
    return std::llround(static_cast<double>(op.workspace.count) * libraries_.cudnn_filter_copies);
  }
  [[nodiscard]] bool keeps_a_part(const std::vector<Index>& members) const;
  [[nodiscard]] CostNodeId value_of(StorageId s, Index maker) {
    const CostNodeId kept = kept_of_[root(maker)];
    return kept.valid() && read_later_[s] != 0 ? kept : node_of_[maker];
  }
  void add_dependencies();
  void add_dependency(CostNodeId reader, CostNodeId made);

  const TrainingGraph& graph_;
  std::span<const OperatorId> ops_;
  const IdVector<OperatorId, Duration>& durations_;
  bool any_order_;
  const FrameworkProfile& libraries_;
  IdVector<StorageId, std::vector<TouchAt>> touches_;  // in order
  std::vector<bool> once_;                             // by operator
  std::vector<Index> group_;                           // union-find
  std::set<StorageId> apart_;             // storages whose writers would form a cycle as one group
  IdVector<StorageId, char> read_later_;  // after the micro-batch
  std::vector<Index> order_;              // groups, by their first operator
  std::vector<CostNodeId> node_of_;       // by operator
  std::vector<CostNodeId> kept_of_;       // by group: what stays of its results
  std::vector<CostNodeId> token_of_;      // by group: reading it says that the group has run
  StepCosts result_;
};

void Builder::list_touches() {
  IdVector<OperatorId, Index> index(graph_.operators.size(), kNone);
  for (Index i = 0; i < ops_.size(); ++i) {
    index[ops_[i]] = i;
    for (const Touch& touch : graph_.touches_of(ops_[i]))
      touches_[touch.storage].push_back({i, touch.access});
  }
  list_holds(index);
  for (const auto* part : {&graph_.optimizer, &graph_.optimizer_first, &graph_.end_of_step}) {
    for (const OperatorId op : *part) {
      for (const Touch& touch : graph_.touches_of(op)) {
        if (touch.access != Access::kCreate) read_later_[touch.storage] = 1;
      }
    }
  }
  for (const StorageId s : ids_of(graph_.storages)) {
    if (graph_.storages[s].persistent) read_later_[s] = 1;
  }
}

void Builder::list_holds(const IdVector<OperatorId, Index>& index) {
  for (const Hold& hold : graph_.holds) {
    std::vector<TouchAt>& touches = touches_[hold.storage];
    if (!is_made_here(hold.storage)) continue;
    const Index until = index[hold.until];
    if (until == kNone) {
      const bool since_here = !hold.since.valid() || index[hold.since] != kNone;
      if (hold.kind == HoldKind::kLocal && since_here) read_later_[hold.storage] = 1;
      continue;
    }
    const auto at = std::upper_bound(touches.begin(), touches.end(), until,
                                     [](Index u, const TouchAt& touch) { return u < touch.at; });
    const bool touched = at != touches.begin() && std::prev(at)->at == until;
    if (at != touches.begin() && !touched) touches.insert(at, {until, Access::kRead, true});
  }
}

// Whether every touch up to the last write is a write: then nothing has seen what is overwritten.
bool Builder::may_fuse(StorageId s) const {
  const std::vector<TouchAt>& touches = touches_[s];
  if (!is_made_here(s) || graph_.storages[s].persistent || apart_.contains(s)) return false;
  bool read = false;
  for (std::size_t k = 0; k < touches.size(); ++k) {
    if (touches[k].hold) continue;
    if (!writes(touches[k])) {
      read = true;
    } else if (read || once_[touches[k].at] || (k > 0 && touches[k].access == Access::kCreate)) {
      return false;
    }
  }
  return true;
}

void Builder::find_groups() {
  for (Index i = 0; i < ops_.size(); ++i)
    once_[i] = once_[i] || writes_persistent(graph_, ops_[i]);
  bool changed = true;
  while (changed) {
    changed = false;
    std::iota(group_.begin(), group_.end(), Index{0});
    for (const StorageId s : ids_of(graph_.storages)) {
      const std::vector<TouchAt>& touches = touches_[s];
      const auto count = std::count_if(touches.begin(), touches.end(), writes);
      if (count == 0 || (count == 1 && is_made_here(s))) continue;
      const bool fuse = may_fuse(s);
      const auto last =
          std::find_if(touches.rbegin(), touches.rend(), writes);  // content is final from here on
      for (auto touch = touches.begin(); touch != last.base(); ++touch) {
        if (fuse) {
          const Index a = root(touches.front().at);
          const Index b = root(touch->at);
          group_[std::max(a, b)] = std::min(a, b);
        } else if (!touch->hold && !once_[touch->at]) {
          once_[touch->at] = changed = true;
        }
      }
    }
    // Nothing of a group that has to run once may run again.
    for (Index i = 0; i < ops_.size(); ++i) {
      const Index first = root(i);
      if (once_[i] == once_[first]) continue;
      once_[i] = once_[first] = changed = true;
    }
  }
}

template <class Edge>
void Builder::for_each_edge(Edge edge) {
  for (const StorageId s : ids_of(graph_.storages)) {
    Index writer = kNone;
    std::vector<Index> readers;
    for (const TouchAt& touch : touches_[s]) {
      if (writer != kNone) edge(writer, touch.at, false);
      if (!writes(touch)) {
        if (!touch.hold) readers.push_back(touch.at);
        continue;
      }
      for (const Index reader : readers)
        edge(reader, touch.at, true);
      readers.clear();
      writer = touch.at;
    }
  }
}

bool Builder::order_groups() {
  find_groups();
  std::vector<std::vector<Index>> next(ops_.size());
  std::vector<int> open(ops_.size());
  std::vector<Index> last(ops_.size());
  for (Index i = 0; i < ops_.size(); ++i)
    last[root(i)] = i;
  for_each_edge([&](Index from, Index to, bool) {
    from = root(from);
    to = root(to);
    if (from == to) return;
    next[from].push_back(to);
    ++open[to];
  });
  // As in the program, each group where its last operator stands.
  using Ready = std::pair<Index, Index>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (Index i = 0; i < ops_.size(); ++i) {
    if (root(i) == i && open[i] == 0) ready.emplace(last[i], i);
  }
  order_.clear();
  while (!ready.empty()) {
    const Index group = ready.top().second;
    ready.pop();
    order_.push_back(group);
    for (const Index to : next[group]) {
      if (--open[to] == 0) ready.emplace(last[to], to);
    }
  }
  // The first group that could not be ordered is on a cycle or behind one.
  StorageId stuck;
  for (const StorageId s : ids_of(graph_.storages)) {
    const std::vector<TouchAt>& touches = touches_[s];
    if (!may_fuse(s) || std::count_if(touches.begin(), touches.end(), writes) < 2) continue;
    if (open[root(touches.front().at)] == 0) continue;
    if (!stuck.valid() || touches.front().at < touches_[stuck].front().at) stuck = s;
  }
  if (stuck.valid()) apart_.insert(stuck);
  return !stuck.valid();
}

void Builder::measure(CostNodeId id, const std::vector<Index>& members) {
  CostNode& node = result_.graph.nodes[id];
  std::int64_t live = 0;
  std::int64_t peak = 0;
  std::vector<std::pair<Index, std::int64_t>> inside;  // by last touch
  for (const Index at : members) {
    const Operator& op = graph_.operators[ops_[at]];
    node.cost += durations_[ops_[at]].count();
    node.once = node.once || once_[at];
    for (const Touch& touch : graph_.touches_of(ops_[at])) {
      if (touch.access != Access::kCreate) continue;
      const std::int64_t bytes = graph_.storages[touch.storage].bytes.count;
      live += bytes;
      const std::vector<TouchAt>& touches = touches_[touch.storage];
      const bool leaves = read_later_[touch.storage] != 0 ||
                          std::any_of(touches.begin(), touches.end(),
                                      [&](const TouchAt& t) { return node_of_[t.at] != id; });
      const CostNodeId kept = kept_of_[root(at)];
      if (leaves && kept.valid() && read_later_[touch.storage] != 0) {
        result_.graph.nodes[kept].bytes += Bytes(bytes);
      } else if (leaves) {
        node.bytes += Bytes(bytes);
      } else {
        inside.emplace_back(touches.back().at, bytes);
      }
    }
    peak = std::max(peak, live + workspace_of(op));
    for (const auto& [last, bytes] : inside)
      live -= last == at ? bytes : 0;
  }
  node.workspace = Bytes(std::max<std::int64_t>(0, peak - node.bytes.count));
}

// Of what runs once, results that stay and results that go need not be one.
bool Builder::keeps_a_part(const std::vector<Index>& members) const {
  bool stays = false;
  bool goes = false;
  for (const Index at : members) {
    for (const Touch& touch : graph_.touches_of(ops_[at])) {
      if (touch.access != Access::kCreate) continue;
      (read_later_[touch.storage] != 0 ? stays : goes) = true;
    }
  }
  return stays && goes;
}

void Builder::make_nodes() {
  std::vector<std::vector<Index>> members(ops_.size());
  for (Index i = 0; i < ops_.size(); ++i)
    members[root(i)].push_back(i);
  result_.graph.name = graph_.name;
  node_of_.resize(ops_.size());
  std::vector<std::vector<Index>> by_node;
  std::vector<bool> precedes(ops_.size());  // by group: something changes later what it reads
  for_each_edge([&](Index from, Index to, bool read) {
    if (any_order_ && read && root(from) != root(to)) precedes[root(from)] = true;
  });
  token_of_.resize(ops_.size());
  kept_of_.resize(ops_.size());
  for (const Index group : order_) {
    const Operator& op = graph_.operators[ops_[group]];
    const CostNodeId id = result_.graph.nodes.push_back(
        {.name = graph_.describe(ops_[group]),
         .kind = op.phase == Phase::kForward ? Phase::kForward : Phase::kBackward,
         .block = op.layer.valid() ? graph_.layers[op.layer].block : kNoBlock});
    std::vector<OperatorId> run;
    for (const Index at : members[group]) {
      node_of_[at] = id;
      run.push_back(ops_[at]);
    }
    result_.operators.push_back(std::move(run));
    by_node.push_back(members[group]);
    if (once_[group] && keeps_a_part(members[group])) {
      kept_of_[group] = result_.graph.nodes.push_back({.name = op.name + " results that stay",
                                                       .kind = result_.graph.nodes[id].kind,
                                                       .deps = {id},
                                                       .once = true});
      result_.operators.push_back({});
      by_node.emplace_back();
    }
    if (!precedes[group]) continue;
    const CostNodeId token = result_.graph.nodes.push_back({.name = op.name + " has run",
                                                            .kind = result_.graph.nodes[id].kind,
                                                            .deps = {id},
                                                            .once = true});
    result_.operators.push_back({});
    by_node.emplace_back();
    token_of_[group] = token;
  }
  for (const CostNodeId id : ids_of(result_.graph.nodes))
    measure(id, by_node[id.index()]);
  add_dependencies();
  for (const StorageId s : ids_of(graph_.storages)) {
    const Storage& storage = graph_.storages[s];
    const bool there = storage.initial || storage.persistent || !touches_[s].empty();
    const bool elsewhere = storage.home != Tier::kDevice && touches_[s].empty();
    if (there && !elsewhere && !is_made_here(s)) result_.graph.fixed_bytes += storage.bytes;
  }
  const bool multiplies = std::any_of(ops_.begin(), ops_.end(), [&](OperatorId op) {
    return graph_.operators[op].work.op_class == OperatorClass::kMatmul;
  });
  if (multiplies) result_.graph.fixed_bytes += libraries_.cublas_workspace;
}

void Builder::add_dependency(CostNodeId reader, CostNodeId made) {
  if (reader == made) return;
  std::vector<CostNodeId>& deps = result_.graph.nodes[reader].deps;
  if (std::find(deps.begin(), deps.end(), made) == deps.end()) deps.push_back(made);
}

void Builder::add_dependencies() {
  for_each_edge([&](Index from, Index to, bool read) {
    const CostNodeId token = token_of_[root(from)];
    if (read && token.valid() && root(from) != root(to)) add_dependency(node_of_[to], token);
  });
  std::vector<CostNodeId> wanted;
  for (const StorageId s : ids_of(graph_.storages)) {
    CostNodeId maker;
    CostNodeId writer;
    for (const TouchAt& touch : touches_[s]) {
      const CostNodeId node = node_of_[touch.at];
      if (maker.valid()) add_dependency(node, maker);
      if (writer.valid()) add_dependency(node, writer);
      if (touch.access == Access::kCreate) maker = value_of(s, touch.at);
      if (writes(touch)) writer = touch.access == Access::kCreate ? maker : node;
    }
    if (maker.valid() && read_later_[s] != 0) {
      wanted.push_back(maker);
      wanted.push_back(writer);
    }
  }
  if (wanted.empty()) return;
  // What nobody reads comes before the end, too.
  IdVector<CostNodeId, char> read(result_.graph.nodes.size(), 0);
  for (const CostNode& node : result_.graph.nodes) {
    for (const CostNodeId dep : node.deps)
      read[dep] = 1;
  }
  for (const CostNodeId id : ids_of(result_.graph.nodes)) {
    if (read[id] == 0) wanted.push_back(id);
  }
  const CostNodeId end = result_.graph.nodes.push_back(
      {.name = "end of the micro-batch", .kind = Phase::kBackward, .once = true});
  result_.operators.push_back({});
  for (const CostNodeId node : wanted)
    add_dependency(end, node);
}

}  // namespace

std::vector<OperatorId> micro_batch_of(const TrainingGraph& graph) {
  std::vector<OperatorId> operators = graph.forward;
  const bool adds = graph.micro_batches > 1 && !graph.backward_accumulate.empty();
  const auto& backward = adds ? graph.backward_accumulate : graph.backward;
  operators.insert(operators.end(), backward.begin(), backward.end());
  return operators;
}

StepCosts step_costs(const TrainingGraph& graph, std::span<const OperatorId> micro_batch,
                     const IdVector<OperatorId, Duration>& durations, bool any_order,
                     const FrameworkProfile& libraries) {
  return Builder(graph, micro_batch, durations, any_order, libraries).run();
}

}  // namespace tidemark
