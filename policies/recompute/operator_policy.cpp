#include "policies/recompute/operator_policy.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/operators/adapters/quantised_linear.hpp"
#include "graph/operators/products/fp8_linear.hpp"
#include "policies/remat/keep_set.hpp"

namespace tidemark {
namespace operator_policy_detail {
namespace {

bool touches_parameter(const PolicyContext& context, Position p) {
  const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    const Role role = context.graph.storages[touch.storage].role;
    return is_parameter(role) || role == Role::kGatheredParameter;
  });
}

// Drops the values that the chosen operators of a block make for backward, and recomputes them
// together before the first of them is read, with as few other operators as their inputs need.
//
//   forward   linear  [bmm  softmax  dropout]  bmm  linear     chosen: in brackets
//   backward  ... [bmm softmax dropout] bmm.right_gradient ...
class ChosenRecomputation {
 public:
  ChosenRecomputation(const PolicyContext& context, const BlockRegion& block,
                      std::unordered_set<Position> chosen, bool caches)
      : context_(context), block_(block), chosen_(std::move(chosen)), caches_(caches) {}

  void decide(ResidencyPlan& plan) {
    find_dropped();
    if (dropped_.empty()) return;
    RecomputeGroup group;
    const std::set<Position> recipe = find_recipe();
    group.recipe.assign(recipe.begin(), recipe.end());
    if (caches_) hold_results(group);
    const GroupId id = plan.add_group(std::move(group));
    for (const GapId gap : dropped_)
      plan.decide(gap, Recompute{.group = id});
  }

 private:
  [[nodiscard]] bool all_chosen(const std::vector<Position>& writers) const {
    return std::all_of(writers.begin(), writers.end(),
                       [&](Position p) { return chosen_.contains(p); });
  }

  void find_dropped() {
    for (const Position p : block_.forward) {
      const std::span<const Touch> touches = context_.graph.touches_of(context_.order.at[p].op);
      for (std::size_t i = 0; i < touches.size(); ++i) {
        const StorageId s = touches[i].storage;
        if (touches[i].access != Access::kRead) writers_[s].push_back(p);
        const auto made = writers_.find(s);
        if (made == writers_.end() || !all_chosen(made->second)) continue;
        const Gap& gap = context_.live.gaps[context_.live.after(p, i)];
        if (!gap.open() || context_.op_at(gap.to).phase != Phase::kBackward) continue;
        dropped_.push_back(context_.live.after(p, i));
        wanted_.push_back(s);
      }
    }
  }

  // Holds what the operators that are not chosen make until the values that are recomputed have
  // been read: a recomputation that stops early leaves the rest of the cache to its last reader.
  void hold_results(RecomputeGroup& group) const {
    Position last_use = block_.forward.front();
    for (const GapId gap : dropped_)
      last_use = std::max(last_use, context_.live.gaps[gap].to);
    for (const Position p : block_.forward) {
      if (chosen_.contains(p)) continue;
      for (const Touch& touch : context_.graph.touches_of(context_.order.at[p].op)) {
        if (touch.access != Access::kCreate) continue;
        group.kept.push_back(
            {.storage = touch.storage, .bytes = {}, .since = {}, .until = last_use});
      }
    }
  }

  // Walks back to values that are saved or come from outside.
  [[nodiscard]] std::set<Position> find_recipe() {
    std::set<Position> recipe;
    std::unordered_set<StorageId> seen(wanted_.begin(), wanted_.end());
    while (!wanted_.empty()) {
      const StorageId s = wanted_.back();
      wanted_.pop_back();
      for (const Position p : writers_[s]) {
        const OperatorId op = context_.order.at[p].op;
        if (writes_persistent(context_.graph, op) || !recipe.insert(p).second) continue;
        for (const Touch& touch : context_.graph.touches_of(op)) {
          const auto made = writers_.find(touch.storage);
          const bool again =
              made != writers_.end() && (touch.access != Access::kRead || all_chosen(made->second));
          if (again && seen.insert(touch.storage).second) wanted_.push_back(touch.storage);
        }
      }
    }
    return recipe;
  }

  const PolicyContext& context_;
  const BlockRegion& block_;
  std::unordered_set<Position> chosen_;
  bool caches_;
  std::unordered_map<StorageId, std::vector<Position>> writers_;  // in this block, in order
  std::vector<GapId> dropped_;
  std::vector<StorageId> wanted_;
};

// A linear layer is one in whatever form its weight or its operands are; the full weight that a
// layer makes of codes is no result of it.
std::string_view kind_of(const Operator& op) {
  if (op.part == OperatorPart::kDequantise && op.phase == Phase::kForward) return "dequantise";
  const bool is_linear =
      op.family == &fp8_linear_family() || op.family == &quantised_linear_family();
  return is_linear && !op.forward_family().empty() ? "linear" : op.forward_family();
}

std::set<std::string> kinds_of_forward(const TrainingGraph& graph) {
  std::set<std::string> known;
  for (const OperatorId op : graph.part(PartKind::kForward))
    known.emplace(kind_of(graph.operators[op]));
  known.erase("");  // operators that a rewrite has added
  return known;
}

std::vector<ForwardOperator> operators_of(const PolicyContext& context, const BlockRegion& block) {
  std::vector<ForwardOperator> operators;
  for (const Position p : block.forward) {
    const Operator& op = context.op_at(p);
    operators.push_back({.kind = kind_of(op),
                         .layer = op.layer.index(),
                         .reads_parameter = touches_parameter(context, p)});
  }
  return operators;
}

// Returns the kinds of the nodes. A part of another node's output costs nothing and is no operator.
std::set<std::string> kinds_among(const RematProblem& problem,
                                  const std::vector<NodeIndex>& forward) {
  std::set<std::string> names;
  for (const NodeIndex node : forward) {
    const bool is_operator = problem.cost[node] > 0 && !problem.operator_kind[node].empty();
    if (is_operator) names.emplace(problem.operator_kind[node]);
  }
  return names;
}

std::vector<ForwardOperator> operators_among(const RematProblem& problem,
                                             const std::vector<NodeIndex>& forward) {
  const std::vector<NodeIndex> outputs = passed_on_outputs(problem);
  std::map<std::string_view, std::size_t> layers;
  std::vector<ForwardOperator> operators;
  for (const NodeIndex node : forward) {
    const std::size_t layer = layers.emplace(problem.layer[node], layers.size()).first->second;
    operators.push_back({.kind = problem.operator_kind[node],
                         .layer = layer,
                         .block = problem.block[node],
                         .in_block = outputs.empty() || problem.block[node] != kNoBlock,
                         .passed_on = std::binary_search(outputs.begin(), outputs.end(), node)});
  }
  return operators;
}

}  // namespace
}  // namespace operator_policy_detail

void OperatorPolicy::plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const {
  check_model(operator_policy_detail::kinds_of_forward(context.graph), context.graph.blocks);
  const bool caches = caches_results() && context.graph.has_frames && !context.graph.compiled;
  bool any = false;
  for (const BlockRegion& block : block_segments(context, 1)) {
    const std::vector<bool> wanted =
        recomputed(operator_policy_detail::operators_of(context, block));
    std::unordered_set<Position> chosen;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Position p = block.forward[i];
      if (wanted[i] && !writes_persistent(context.graph, context.order.at[p].op)) chosen.insert(p);
    }
    any = any || !chosen.empty();
    operator_policy_detail::ChosenRecomputation(context, block, std::move(chosen), caches)
        .decide(plan);
  }
  check_model_choice(any);
}

Schedule OperatorPolicy::schedule(const RematProblem& problem) const {
  const std::vector<NodeIndex> forward = forward_nodes(problem);
  check_cost_graph(operator_policy_detail::kinds_among(problem, forward));
  const std::vector<bool> wanted =
      recomputed(operator_policy_detail::operators_among(problem, forward));
  check_cost_graph_choice(std::find(wanted.begin(), wanted.end(), true) != wanted.end());
  std::vector<bool> kept(problem.size(), true);
  for (std::size_t i = 0; i < forward.size(); ++i)
    kept[forward[i]] = !wanted[i];
  return keep_schedule(problem, kept);
}

}  // namespace tidemark
