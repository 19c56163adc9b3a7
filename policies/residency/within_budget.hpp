// Plans that are made for a predicted curve of live bytes and checked against the memory of a trial
// run.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "policies/residency/memory_curve.hpp"

namespace tidemark {

// Calls arrange(budget, plan) for a curve budget. If the trial run of its plan takes more than the
// budget (recomputation takes room of its own, allocators fragment) it is called again for as much
// less, `attempts` times at most. The plan that exceeds the budget least stays, the fastest of
// several.
template <class Arrange>
void arrange_within(const PolicyContext& context, const std::optional<Bytes>& budget,
                    ResidencyPlan& plan, const Arrange& arrange, int attempts = 4) {
  const Bytes limit = budget.value_or(device_budget(context));
  Bytes target = curve_budget(context, plan, budget);
  Bytes best_target = target;
  std::optional<std::pair<Bytes, Duration>> best;  // bytes above the budget, time of the step
  for (int attempt = 0; attempt < attempts && context.trial != nullptr; ++attempt) {
    ResidencyPlan tried = plan;
    arrange(target, tried);
    const TrialFigures figures = context.trial->run(tried);
    const Bytes over =
        std::max((budget ? figures.peak_live : figures.peak_reserved) - limit, Bytes(0));
    if (!best || std::pair(over, figures.step) < *best) {
      best = {over, figures.step};
      best_target = target;
    }
    if (over == Bytes(0) || target == Bytes(0)) break;
    target = std::max(target - over, Bytes(0));
  }
  arrange(best_target, plan);
}

}  // namespace tidemark
