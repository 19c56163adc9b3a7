#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"

namespace tidemark {
namespace {

bool touches_parameter(const PolicyContext& context, Position p) {
  const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    return context.graph.storages[touch.storage].role == Role::kParameter;
  });
}

// Drops what the chosen operators of a block make for backward, and computes it again at once
// before the first of it is read: with as little else as its values come from.
//
//   forward   linear  [bmm  softmax  dropout]  bmm  linear     chosen: in brackets
//   backward  ... [bmm softmax dropout] bmm.right_gradient ...
template <class Chosen>
void recompute_chosen(const PolicyContext& context, const BlockRegion& block, ResidencyPlan& plan,
                      Chosen chosen) {
  std::unordered_map<StorageId, std::vector<Position>> writers;  // in this block, in order
  std::vector<GapId> dropped;
  std::vector<StorageId> wanted;
  for (const Position p : block.forward) {
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const StorageId s = touches[i].storage;
      if (touches[i].access != Access::kRead) writers[s].push_back(p);
      const auto made = writers.find(s);
      if (made == writers.end() || !std::all_of(made->second.begin(), made->second.end(), chosen)) {
        continue;
      }
      const Gap& gap = context.live.gaps[context.live.after(p, i)];
      if (!gap.open() || context.op_at(gap.to).phase != Phase::kBackward) continue;
      dropped.push_back(context.live.after(p, i));
      wanted.push_back(s);
    }
  }
  if (dropped.empty()) return;
  // Back to what is saved or comes from outside.
  std::set<Position> recipe;
  std::unordered_set<StorageId> seen(wanted.begin(), wanted.end());
  while (!wanted.empty()) {
    const StorageId s = wanted.back();
    wanted.pop_back();
    for (const Position p : writers[s]) {
      if (writes_persistent(context.graph, context.order.at[p].op) || !recipe.insert(p).second) {
        continue;
      }
      for (const Touch& touch : context.graph.touches_of(context.order.at[p].op)) {
        const auto made = writers.find(touch.storage);
        const bool again = made != writers.end() &&
                           (touch.access != Access::kRead ||
                            std::all_of(made->second.begin(), made->second.end(), chosen));
        if (again && seen.insert(touch.storage).second) wanted.push_back(touch.storage);
      }
    }
  }
  RecomputeGroup group;
  group.recipe.assign(recipe.begin(), recipe.end());
  const GroupId id = plan.add_group(std::move(group));
  for (const GapId gap : dropped)
    plan.decide(gap, Recompute{.group = id});
}

// Of every block all that backward reads is recomputed from the block's input, but for the results
// of the kinds listed (`saves`; torch.utils.checkpoint's selective policy, MUST_SAVE), or only the
// kinds listed are. Kinds are the names of forward operators as `tidemark graph` shows them:
// linear, bmm, softmax, dropout, ...
class Selective final : public ResidencyPolicy {
 public:
  Selective(std::vector<std::string> kinds, bool saves) : kinds_(std::move(kinds)), saves_(saves) {}
  [[nodiscard]] std::string_view name() const override { return "selective"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    check(context);
    for (const BlockRegion& block : block_segments(context, 1)) {
      recompute_chosen(context, block, plan, [&](Position p) {
        const bool listed =
            std::find(kinds_.begin(), kinds_.end(), context.op_at(p).name) != kinds_.end();
        return listed != saves_ && !writes_persistent(context.graph, context.order.at[p].op);
      });
    }
  }

 private:
  void check(const PolicyContext& context) const {
    if (kinds_.empty() && !saves_) {
      throw UserError({}, "policies.selective",
                      "chooses nothing; give the kinds of operators whose results are saved, such "
                      "as save: [linear, attention], or those that run again, such as recompute: "
                      "[gelu, dropout]");
    }
    std::set<std::string> known;
    for (const OperatorId op : context.graph.forward)
      known.insert(context.graph.operators[op].name);
    const std::vector<std::string> names(known.begin(), known.end());
    for (const std::string& kind : kinds_) {
      if (known.contains(kind)) continue;
      std::string hint = did_you_mean(kind, names);
      if (hint.empty()) hint = fmt::format("; it has {}", fmt::join(names, ", "));
      throw UserError(
          {}, std::string("policies.selective.") + (saves_ ? "save" : "recompute"),
          fmt::format("the model's forward has no operator of kind '{}'{}", kind, hint));
    }
    if (context.graph.blocks == 0) {
      throw UserError({}, "policies.selective",
                      "works on repeated blocks, and the model has none; use min_cut or optimal");
    }
  }
  std::vector<std::string> kinds_;
  bool saves_;
};

// The operators of a block from the first product of activations, or fused attention, to the last,
// in layers where there is a softmax or fused attention; those that read parameters excepted.
class MegatronSelective final : public ResidencyPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "megatron_selective"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    bool found = false;
    for (const BlockRegion& block : block_segments(context, 1)) {
      const std::unordered_set<Position> core = attention_core(context, block);
      found = found || !core.empty();
      recompute_chosen(context, block, plan, [&](Position p) { return core.contains(p); });
    }
    if (!found) {
      throw UserError({}, "policies.megatron_selective",
                      "computes attention again, and no repeated block of the model has any");
    }
  }

 private:
  [[nodiscard]] static std::unordered_set<Position> attention_core(const PolicyContext& context,
                                                                   const BlockRegion& block) {
    std::unordered_set<LayerId> layers;
    for (const Position p : block.forward) {
      const Operator& op = context.op_at(p);
      if (op.name == "softmax" || op.name == "attention") layers.insert(op.layer);
    }
    std::unordered_set<Position> core;
    for (const LayerId layer : layers) {
      std::vector<Position> inside;
      std::size_t first = 0;
      std::size_t last = 0;
      for (const Position p : block.forward) {
        const Operator& op = context.op_at(p);
        if (op.layer != layer) continue;
        inside.push_back(p);
        const bool product = op.name == "attention" || op.name == "bmm";
        if (!product || touches_parameter(context, p)) continue;
        if (last == 0) first = inside.size();
        last = inside.size();
      }
      for (std::size_t k = first; k <= last && last > 0; ++k) {
        const Position p = inside[k - 1];
        if (!touches_parameter(context, p) &&
            !writes_persistent(context.graph, context.order.at[p].op)) {
          core.insert(p);
        }
      }
    }
    return core;
  }
};

}  // namespace

const PolicyEntry& selective_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "selective",
      .kind = "residency",
      .summary =
          "in every block, compute again all but the results of the operators in `save: [linear, "
          "attention]`, or only those in `recompute: [gelu, dropout]`",
      .source = "torch.utils.checkpoint, create_selective_checkpoint_contexts",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const bool saves = d.has("save");
        const bool recomputes = d.has("recompute");
        std::vector<std::string> saved = d.list<std::string>("save");
        std::vector<std::string> again = d.list<std::string>("recompute");
        d.finish();
        if (saves && recomputes)
          d.fail("give one of save and recompute; the other is what is left");
        return std::make_unique<Selective>(saves ? std::move(saved) : std::move(again), saves);
      }};
  return kEntry;
}

const PolicyEntry& megatron_selective_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "megatron_selective",
      .kind = "residency",
      .summary =
          "compute the core of attention again, from the scores to the product with the values",
      .source = "Korthikanti et al. 2022 (arXiv 2205.05198), section 5",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        d.finish();
        return std::make_unique<MegatronSelective>();
      }};
  return kEntry;
}

}  // namespace tidemark
