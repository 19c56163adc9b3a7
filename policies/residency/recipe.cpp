#include "policies/residency/recipe.hpp"

#include <map>
#include <set>
#include <tuple>
#include <variant>

namespace tidemark {
namespace recipe_detail {
namespace {

class Search {
 public:
  Search(const PolicyContext& context, const ResidencyPlan& plan, Position before,
         std::size_t longest)
      : context_(context), plan_(plan), before_(before), longest_(longest) {}

  // Adds the operators that write the content that the storage has after `gap.from`.
  bool add_value(GapId gap) {
    for (;; gap = GapId(gap.value - 1)) {
      const Position writer = context_.live.gaps[gap].from;
      const std::optional<Access> access = access_at(writer, context_.live.gaps[gap].storage);
      if (!access) return false;
      if (*access != Access::kRead && !add_operator(writer)) return false;
      if (*access == Access::kCreate) return true;
      if (gap.value == 0 ||
          context_.live.gaps[GapId(gap.value - 1)].storage != context_.live.gaps[gap].storage) {
        return false;  // there from the start: no operator makes it
      }
    }
  }
  [[nodiscard]] const std::set<Position>& positions() const { return positions_; }

 private:
  [[nodiscard]] std::optional<Access> access_at(Position p, StorageId storage) const {
    for (const Touch& touch : context_.graph.touches_of(context_.order.at[p].op)) {
      if (touch.storage == storage) return touch.access;
    }
    return std::nullopt;
  }

  bool add_operator(Position p) {
    const Occurrence& occurrence = context_.order.at[p];
    if (occurrence.recompute || context_.op_at(p).phase != Phase::kForward) return false;
    if (writes_persistent(context_.graph, occurrence.op)) return false;
    if (!positions_.insert(p).second) return true;
    if (positions_.size() > longest_) return false;
    const std::span<const Touch> touches = context_.graph.touches_of(occurrence.op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i].access == Access::kCreate) continue;
      if (is_scratch(occurrence, i) || !add_input(context_.live.after(p, i), touches[i])) {
        return false;
      }
    }
    return true;
  }

  bool add_input(GapId gap, const Touch& touch) {
    const Storage& storage = context_.graph.storages[touch.storage];
    const bool stays = storage.initial || storage.persistent;
    // Changed in place: the recipe must make the old content, since the storage holds the new.
    if (touch.access != Access::kRead) return !stays && add_value(GapId(gap.value - 1));
    // Follows the content to the point where it is needed again.
    GapId at = gap;
    while (true) {
      const Gap& g = context_.live.gaps[at];
      if (!g.to.valid() || g.to >= before_) break;
      const std::optional<Access> next = access_at(g.to, touch.storage);
      if (g.dead || next != Access::kRead) {
        // Freed or overwritten: only a fresh copy helps, which must not replace a newer content.
        return g.dead && !stays && add_value(gap);
      }
      at = GapId(at.value + 1);
    }
    const Gap& g = context_.live.gaps[at];
    if (stays) return true;
    if (g.dead && g.release < before_) return add_value(gap);
    if (std::holds_alternative<Recompute>(plan_.decision(at))) return add_value(gap);
    return true;
  }

  const PolicyContext& context_;
  const ResidencyPlan& plan_;
  Position before_;
  std::size_t longest_;
  std::set<Position> positions_;
};

}  // namespace
}  // namespace recipe_detail

std::optional<RecomputeRecipe> recipe_of(const PolicyContext& context, const ResidencyPlan& plan,
                                         const SavedGap& gap, std::size_t longest) {
  recipe_detail::Search search(context, plan, gap.to, longest);
  if (!search.add_value(gap.id)) return std::nullopt;
  RecomputeRecipe recipe;
  for (Position p : search.positions()) {
    recipe.positions.push_back(p);
    recipe.cost += context.durations[context.order.at[p].op];
  }
  return recipe;
}

bool decide_recompute(const SavedGap& gap, const RecomputeRecipe& recipe, ResidencyPlan& plan) {
  if (!plan.decided(gap.id)) {
    const GroupId group = plan.add_group({.recipe = recipe.positions, .kept = {}});
    return plan.decide(gap.id, Recompute{.group = group});
  }
  return plan.decide(gap.id, Keep{});  // counted as contested
}

void decide_recomputes(const PolicyContext& context, const std::vector<Recomputed>& values,
                       ResidencyPlan& plan) {
  struct Together {
    std::set<Position> recipe;
    std::vector<GapId> gaps;
  };
  // By micro-batch, block, and outside blocks the value itself.
  std::map<std::tuple<std::size_t, int, GapId>, Together> groups;
  for (const Recomputed& value : values) {
    const int block = context.block_at(value.gap.to);
    const GapId alone = block == kNoBlock ? value.gap.id : GapId(0U);
    Together& group = groups[{value.gap.micro_batch, block, alone}];
    group.recipe.insert(value.recipe.positions.begin(), value.recipe.positions.end());
    group.gaps.push_back(value.gap.id);
  }
  for (const auto& [where, group] : groups) {
    const GroupId id =
        plan.add_group({.recipe = {group.recipe.begin(), group.recipe.end()}, .kept = {}});
    for (const GapId gap : group.gaps)
      plan.decide(gap, Recompute{.group = id});
  }
}

}  // namespace tidemark
