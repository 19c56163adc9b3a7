// The recipe by which one value is recomputed from what will be there when it is needed.
#pragma once

#include <optional>
#include <vector>

#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

struct RecomputeRecipe {
  std::vector<Position> positions;  // positions of the operators, in order
  Duration cost{};                  // compute time of all
};

// Returns the operators to run before gap.to so that the value is there: those that wrote it, and,
// for inputs that are freed by then or decided to be recomputed, the operators behind them. None
// where an input was overwritten since, an operator writes persistent memory, or more than
// `longest` are needed.
[[nodiscard]] std::optional<RecomputeRecipe> recipe_of(const PolicyContext& context,
                                                       const ResidencyPlan& plan,
                                                       const SavedGap& gap,
                                                       std::size_t longest = 64);

// Decides to recompute the value. True when the decision stands.
bool decide_recompute(const SavedGap& gap, const RecomputeRecipe& recipe, ResidencyPlan& plan);

// A value to recompute, and how.
struct Recomputed {
  SavedGap gap;
  RecomputeRecipe recipe;
};
// Decides to recompute the values. Those that one block's backward needs are recomputed together,
// since they share their inputs; outside blocks each is on its own.
void decide_recomputes(const PolicyContext& context, const std::vector<Recomputed>& values,
                       ResidencyPlan& plan);

}  // namespace tidemark
