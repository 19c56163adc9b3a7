#include "sim/step/convergence.hpp"

#include <algorithm>
#include <utility>

#include "sim/step/compile.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace convergence_detail {
namespace {

// Instructions of the longest program that is run only to look for convergence: about a second to
// build.
constexpr std::size_t kMaxInstructions = 1'000'000;

// Returns the step that was running when the run failed.
int failing_step(const Compiled& compiled, const RunResult& run) {
  const std::size_t last = compiled.program.size() - 1;
  const auto at = std::min<std::size_t>(run.failed_instruction, last);
  return static_cast<int>(compiled.order.at[compiled.program.position[at]].step);
}

}  // namespace
}  // namespace convergence_detail

ConvergenceSearch find_convergence(const StepSpec& spec, const TrainedModel& model,
                                   const Compiled& compiled, const Scratch& scratch, Bytes capacity,
                                   int limit) {
  ConvergenceSearch search;
  Convergence& found = search.found;
  found.steps = reserved_by_step(compiled.program, compiled.order, scratch);
  found.step = converged_step(found.steps);
  if (spec.allocator->captures_last_step()) {
    // Replays of the graph that the last step captures allocate nothing.
    found.step = spec.training.steps - 1;
  }
  const auto size = [&](int steps) {
    return compiled.program.size() * static_cast<std::size_t>(steps) /
           static_cast<std::size_t>(spec.training.steps);
  };
  for (int steps = 2 * spec.training.steps;
       !found.step && steps <= limit && size(steps) <= convergence_detail::kMaxInstructions;
       steps *= 2) {
    const bool smaller = !compiled.smaller_budget.empty();
    Compiled longer =
        compile(spec, model,
                {.steps = steps, .smaller_budget = smaller ? &compiled.smaller_budget : nullptr});
    Scratch other;
    const RunResult run = run_compiled(spec, longer, other, capacity, true);
    found.steps = reserved_by_step(longer.program, longer.order, other);
    if (run.status != RunStatus::kCompleted) {
      found.fails_in = convergence_detail::failing_step(longer, run);
      search.failing = std::move(longer);
      return search;
    }
    found.step = converged_step(found.steps);
  }
  return search;
}

}  // namespace tidemark
