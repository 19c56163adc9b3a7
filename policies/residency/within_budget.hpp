// Plans that are made for a predicted curve of live bytes and checked against the memory of a trial
// run.
#pragma once

#include <algorithm>
#include <optional>

#include "policies/residency/memory_curve.hpp"

namespace tidemark {

// Calls arrange(budget, plan) for a curve budget. If the trial run of its plan takes more than the
// budget (recomputation takes room of its own, allocators fragment) it is called again for as much
// less, a few times.
template <class Arrange>
void arrange_within(const PolicyContext& context, const std::optional<Bytes>& budget,
                    ResidencyPlan& plan, const Arrange& arrange) {
  constexpr int kAttempts = 3;
  const Bytes limit = budget.value_or(device_budget(context));
  Bytes target = curve_budget(context, plan, budget);
  for (int attempt = 0; attempt < kAttempts && context.trial != nullptr; ++attempt) {
    ResidencyPlan tried = plan;
    arrange(target, tried);
    const TrialFigures figures = context.trial->run(tried);
    const Bytes over = (budget ? figures.peak_live : figures.peak_reserved) - limit;
    if (over <= Bytes(0)) break;
    target = std::max(target - over, Bytes(0));
  }
  arrange(target, plan);
}

}  // namespace tidemark
