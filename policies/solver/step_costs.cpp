#include "policies/solver/step_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "graph/ir/convolutions.hpp"
#include "policies/solver/main_path.hpp"
#include "policies/solver/step_groups.hpp"

namespace tidemark {
namespace step_costs_detail {
namespace {

// The part that is left of a group's results once the first of them have been read for the last
// time.
struct Remainder {
  std::size_t behind = 0;  // rank of the group that last reads the freed results
  Bytes bytes;
  CostNodeId node;
};

class Builder {
 public:
  Builder(const TrainingGraph& graph, std::span<const OperatorId> ops,
          const IdVector<OperatorId, Duration>& durations, bool any_order,
          const FrameworkProfile& libraries, std::vector<Bytes> visitors)
      : graph_(graph),
        ops_(ops),
        durations_(durations),
        any_order_(any_order),
        libraries_(libraries),
        groups_(group_operators(graph, ops)),
        visitors_(std::move(visitors)) {}

  StepCosts run() {
    if (visitors_.empty()) find_visitors();
    make_nodes();
    if (graph_.loss.valid()) mark_off_main_path(graph_, ops_, node_of_, result_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] StepIndex root(StepIndex at) const { return groups_.group[at]; }
  // Whether the home of a storage is off device, so that it counts among the visitors.
  [[nodiscard]] bool visits(StorageId s) const { return graph_.storages[s].home != Tier::kDevice; }
  void find_visitors();
  void make_nodes();
  void measure(CostNodeId id, const std::vector<StepIndex>& members);
  [[nodiscard]] bool keeps_a_part(const std::vector<StepIndex>& members) const;
  // Whether a result of a node that runs once stays in a node of its own.
  [[nodiscard]] bool is_kept_apart(StorageId s, StepIndex maker) {
    return kept_of_[root(maker)].valid() && groups_.read_later[s] != 0;
  }
  // Returns the node to read for `s`, made by `maker`, if the group that reads it has this rank.
  [[nodiscard]] CostNodeId value_of(StorageId s, StepIndex maker, std::size_t rank);
  // Returns the rank of the last group that touches `s`; past all of them if it is read later.
  [[nodiscard]] std::size_t last_rank(StorageId s);
  [[nodiscard]] Bytes bytes_of(const std::vector<StorageId>& storages) const;
  // Results of a group that are freed after it, by the rank of their last reader.
  using Ends = std::map<std::size_t, std::vector<StorageId>>;
  [[nodiscard]] Ends ends_of(StepIndex group, const std::vector<StepIndex>& members);
  void find_remainders(const std::vector<std::vector<StepIndex>>& members);
  // Adds a node that no operator computes.
  CostNodeId add_value(CostNode node) {
    result_.operators.push_back({});
    by_node_.emplace_back();
    return result_.graph.nodes.push_back(std::move(node));
  }
  void add_remainders(std::size_t rank, CostNodeId reader);
  void add_dependencies();
  void add_end(std::vector<CostNodeId> wanted);
  void add_dependency(CostNodeId reader, CostNodeId made);

  const TrainingGraph& graph_;
  std::span<const OperatorId> ops_;
  const IdVector<OperatorId, Duration>& durations_;
  bool any_order_;
  const FrameworkProfile& libraries_;
  StepGroups groups_;
  std::vector<Bytes> visitors_;      // by operator: bytes on the device whose home is not
  std::vector<CostNodeId> node_of_;  // by operator
  std::vector<CostNodeId> kept_of_;  // by group: its results that stay
  std::vector<std::size_t> rank_;    // by group: its place in groups_.order
  std::vector<std::vector<Remainder>> remainders_;         // by group, in order
  std::vector<std::vector<StepIndex>> remainders_behind_;  // by rank: groups
  std::vector<CostNodeId> token_of_;  // by group: a reader of it comes after the group
  StepCosts result_;
  std::vector<std::vector<StepIndex>> by_node_;  // the operators of each node of the result
};

void Builder::measure(CostNodeId id, const std::vector<StepIndex>& members) {
  CostNode& node = result_.graph.nodes[id];
  Bytes live;
  Bytes peak;
  std::vector<std::pair<StepIndex, Bytes>> inside;  // by last touch
  for (const StepIndex at : members) {
    const Operator& op = graph_.operators[ops_[at]];
    node.cost += durations_[ops_[at]].count();
    node.once = node.once || groups_.once[at];
    for (const Touch& touch : graph_.touches_of(ops_[at])) {
      if (touch.access != Access::kCreate || visits(touch.storage)) continue;
      const Bytes bytes = graph_.storages[touch.storage].bytes;
      live += bytes;
      const std::vector<TouchAt>& touches = groups_.touches[touch.storage];
      const bool leaves = groups_.read_later[touch.storage] != 0 ||
                          std::any_of(touches.begin(), touches.end(),
                                      [&](const TouchAt& t) { return node_of_[t.at] != id; });
      const CostNodeId kept = kept_of_[root(at)];
      if (leaves && kept.valid() && groups_.read_later[touch.storage] != 0) {
        result_.graph.nodes[kept].bytes += bytes;
      } else if (leaves) {
        node.bytes += bytes;
      } else {
        inside.emplace_back(touches.back().at, bytes);
      }
    }
    peak = std::max(peak, live + workspace_of(op, libraries_) + visitors_[at]);
    for (const auto& [last, bytes] : inside)
      live -= last == at ? bytes : Bytes(0);
  }
  node.workspace = std::max(Bytes(0), peak - node.bytes);
}

// Whether the results of a node that runs once are two values: those that stay, and those that are
// freed.
bool Builder::keeps_a_part(const std::vector<StepIndex>& members) const {
  bool stays = false;
  bool goes = false;
  for (const StepIndex at : members) {
    for (const Touch& touch : graph_.touches_of(ops_[at])) {
      if (touch.access != Access::kCreate) continue;
      (groups_.read_later[touch.storage] != 0 ? stays : goes) = true;
    }
  }
  return stays && goes;
}

// Finds visitors: storages whose home is off device are fetched when operators of another block or
// phase begin, for the next such run too, and freed when the next one begins.
void Builder::find_visitors() {
  std::vector<std::vector<StorageId>> touched;  // by run: off-device storages, each once
  std::vector<std::size_t> run_of;              // by operator
  LayerId layer;
  for (const OperatorId id : ops_) {
    const Operator& op = graph_.operators[id];
    const bool same = !run_of.empty() && graph_.block_of(op.layer) == graph_.block_of(layer) &&
                      op.phase == graph_.operators[ops_[run_of.size() - 1]].phase;
    if (!same) touched.emplace_back();
    layer = op.layer;
    run_of.push_back(touched.size() - 1);
    for (const Touch& touch : graph_.touches_of(id)) {
      const StorageId s = touch.storage;
      if (!visits(s)) continue;
      std::vector<StorageId>& here = touched.back();
      if (std::find(here.begin(), here.end(), s) == here.end()) here.push_back(s);
    }
  }
  touched.emplace_back();
  for (const std::size_t run : run_of) {
    const std::vector<StorageId>& here = touched[run];
    Bytes& bytes = visitors_.emplace_back(bytes_of(here));
    for (const StorageId s : touched[run + 1]) {
      const bool known = std::find(here.begin(), here.end(), s) != here.end();
      bytes += known || groups_.is_made_here(s) ? Bytes(0) : graph_.storages[s].bytes;
    }
  }
}

std::size_t Builder::last_rank(StorageId s) {
  if (groups_.read_later[s] != 0) return groups_.order.size();
  std::size_t last = 0;
  for (const TouchAt& touch : groups_.touches[s])
    last = std::max(last, rank_[root(touch.at)]);
  return last;
}

Bytes Builder::bytes_of(const std::vector<StorageId>& storages) const {
  Bytes bytes;
  for (const StorageId s : storages)
    bytes += graph_.storages[s].bytes;
  return bytes;
}

Builder::Ends Builder::ends_of(StepIndex group, const std::vector<StepIndex>& members) {
  Ends ends;
  const bool apart = groups_.once[group] && keeps_a_part(members);
  for (const StepIndex at : members) {
    for (const Touch& touch : graph_.touches_of(ops_[at])) {
      const StorageId s = touch.storage;
      if (touch.access != Access::kCreate || visits(s)) continue;
      if (apart && groups_.read_later[s] != 0) continue;
      const std::size_t last = last_rank(s);
      if (last != rank_[group]) ends[last].push_back(s);  // else read inside only
    }
  }
  return ends;
}

// A node's results are one, though their readers end at different times:
//
//   dropout makes (result, mask)    add reads the result    ...    dropout.backward reads the mask
//   node     |------ 2 + 1 --------------|
//   remainder                            |------ 1 ----------------------|
//
// If the freed results are large enough, the others become a node of no cost that reads the node,
// after the last reader of the freed ones. It is part of the node: making it takes nothing.
void Builder::find_remainders(const std::vector<std::vector<StepIndex>>& members) {
  constexpr std::int64_t kWorthIt = 64;  // the freed results are at least this part of the others
  rank_.assign(ops_.size(), 0);
  for (std::size_t rank = 0; rank < groups_.order.size(); ++rank)
    rank_[groups_.order[rank]] = rank;
  remainders_.resize(ops_.size());
  remainders_behind_.resize(groups_.order.size());
  for (const StepIndex group : groups_.order) {
    const Ends ends = ends_of(group, members[group]);
    Bytes left;
    for (const auto& [rank, results] : ends)
      left += bytes_of(results);
    Bytes released;
    for (auto end = ends.begin(); end != ends.end() && std::next(end) != ends.end(); ++end) {
      const Bytes freed = bytes_of(end->second);
      released += freed;
      left -= freed;
      if (left > kWorthIt * released) continue;
      remainders_[group].push_back({.behind = end->first, .bytes = left, .node = {}});
      remainders_behind_[end->first].push_back(group);
      released = Bytes(0);
    }
  }
}

void Builder::add_remainders(std::size_t rank, CostNodeId reader) {
  for (const StepIndex group : remainders_behind_[rank]) {
    CostNodeId from = node_of_[group];
    for (Remainder& remainder : remainders_[group]) {
      if (remainder.node.valid()) from = remainder.node;
      if (remainder.behind != rank) continue;
      const CostNode& made = result_.graph.nodes[node_of_[group]];
      remainder.node = add_value({.name = made.name + " results that outlive others",
                                  .layer = made.layer,
                                  .kind = result_.graph.nodes[reader].kind,
                                  .bytes = remainder.bytes,
                                  .deps = {from},
                                  .once = groups_.once[group],
                                  .block = made.block,
                                  .part = true});
    }
  }
}

CostNodeId Builder::value_of(StorageId s, StepIndex maker, std::size_t rank) {
  const StepIndex group = root(maker);
  if (is_kept_apart(s, maker)) return kept_of_[group];
  CostNodeId node = node_of_[maker];
  for (const Remainder& remainder : remainders_[group]) {
    if (remainder.behind < rank) node = remainder.node;
  }
  return node;
}

void Builder::make_nodes() {
  std::vector<std::vector<StepIndex>> members(ops_.size());
  for (StepIndex i = 0; i < ops_.size(); ++i)
    members[root(i)].push_back(i);
  result_.graph.name = graph_.name;
  node_of_ = kept_of_ = token_of_ = std::vector<CostNodeId>(ops_.size());
  std::vector<bool> precedes(ops_.size());  // by group: a later one changes what it reads
  for_each_edge(groups_, [&](StepIndex from, StepIndex to, bool read) {
    if (any_order_ && read && root(from) != root(to)) precedes[root(from)] = true;
  });
  find_remainders(members);
  for (std::size_t rank = 0; rank < groups_.order.size(); ++rank) {
    const StepIndex group = groups_.order[rank];
    const Operator& op = graph_.operators[ops_[group]];
    const std::string_view family = op.forward_family();
    const CostNodeId id = result_.graph.nodes.push_back(
        {.name = graph_.describe(ops_[group]),
         .layer = std::string(graph_.layer_name(op.layer)),
         .operator_kind = family.empty() ? op.name : std::string(family),
         .kind = op.phase == Phase::kForward ? Phase::kForward : Phase::kBackward,
         .block = graph_.block_of(op.layer)});
    std::vector<OperatorId> run;
    for (const StepIndex at : members[group]) {
      node_of_[at] = id;
      run.push_back(ops_[at]);
    }
    result_.operators.push_back(std::move(run));
    by_node_.push_back(members[group]);
    if (groups_.once[group] && keeps_a_part(members[group])) {
      kept_of_[group] = add_value({.name = op.name + " results that stay",
                                   .kind = result_.graph.nodes[id].kind,
                                   .deps = {id},
                                   .once = true});
    }
    if (precedes[group]) {
      token_of_[group] = add_value({.name = op.name + " has run",
                                    .kind = result_.graph.nodes[id].kind,
                                    .deps = {id},
                                    .once = true});
    }
    add_remainders(rank, id);
  }
  for (const CostNodeId id : ids_of(result_.graph.nodes))
    measure(id, by_node_[id.index()]);
  add_dependencies();
  for (const StorageId s : ids_of(graph_.storages)) {
    const Storage& storage = graph_.storages[s];
    const bool there = storage.initial || storage.persistent || !groups_.touches[s].empty();
    if (!there || visits(s) || groups_.is_made_here(s)) continue;
    result_.graph.fixed_bytes += storage.bytes;
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
  for_each_edge(groups_, [&](StepIndex from, StepIndex to, bool read) {
    const CostNodeId token = token_of_[root(from)];
    if (read && token.valid() && root(from) != root(to)) add_dependency(node_of_[to], token);
  });
  std::vector<CostNodeId> wanted;
  for (const StorageId s : ids_of(graph_.storages)) {
    StepIndex maker = kNoStep;
    CostNodeId writer;  // behind the maker
    for (const TouchAt& touch : groups_.touches[s]) {
      const CostNodeId node = node_of_[touch.at];
      if (maker != kNoStep) add_dependency(node, value_of(s, maker, rank_[root(touch.at)]));
      if (writer.valid()) add_dependency(node, writer);
      if (touch.access == Access::kCreate) {
        maker = touch.at;
        writer = {};
      } else if (writes(touch)) {
        writer = node;
      }
    }
    if (maker != kNoStep && groups_.read_later[s] != 0) {
      wanted.push_back(value_of(s, maker, groups_.order.size()));
      if (writer.valid()) wanted.push_back(writer);
    }
  }
  if (!wanted.empty()) add_end(std::move(wanted));
}

// Adds the end of the micro-batch, which reads the values that are wanted later. Values that nobody
// reads come before it, too.
void Builder::add_end(std::vector<CostNodeId> wanted) {
  IdVector<CostNodeId, char> read(result_.graph.nodes.size(), 0);
  for (const CostNode& node : result_.graph.nodes) {
    for (const CostNodeId dep : node.deps)
      read[dep] = 1;
  }
  for (const CostNodeId id : ids_of(result_.graph.nodes)) {
    if (read[id] == 0) wanted.push_back(id);
  }
  const CostNodeId end =
      add_value({.name = "end of the micro-batch", .kind = Phase::kBackward, .once = true});
  for (const CostNodeId node : wanted)
    add_dependency(end, node);
}

}  // namespace
}  // namespace step_costs_detail

Bytes workspace_of(const Operator& op, const FrameworkProfile& libraries) {
  if (!is_convolution(op.work.op_class)) return op.workspace;
  return Bytes(
      std::llround(static_cast<double>(op.workspace.count) * libraries.cudnn_filter_copies));
}

std::vector<OperatorId> micro_batch_of(const TrainingGraph& graph) {
  std::vector<OperatorId> operators = graph.part(PartKind::kForward);
  const bool adds = graph.micro_batches > 1 && !graph.part(PartKind::kBackwardAccumulate).empty();
  const auto& backward =
      adds ? graph.part(PartKind::kBackwardAccumulate) : graph.part(PartKind::kBackward);
  operators.insert(operators.end(), backward.begin(), backward.end());
  return operators;
}

StepCosts step_costs(const TrainingGraph& graph, std::span<const OperatorId> micro_batch,
                     const IdVector<OperatorId, Duration>& durations, bool any_order,
                     const FrameworkProfile& libraries, std::vector<Bytes> visitors) {
  return step_costs_detail::Builder(graph, micro_batch, durations, any_order, libraries,
                                    std::move(visitors))
      .run();
}

}  // namespace tidemark
