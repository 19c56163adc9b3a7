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

const Compiled* LongerPrograms::of(int steps) {
  const auto known = known_.find(steps);
  if (known != known_.end()) return &known->second;
  const std::size_t size =
      size_ * static_cast<std::size_t>(steps) / static_cast<std::size_t>(spec_.training.steps);
  if (size > convergence_detail::kMaxInstructions) return nullptr;
  const auto* smaller = smaller_budget_.empty() ? nullptr : &smaller_budget_;
  Compiled compiled = compile(
      spec_, model_, {.steps = steps, .smaller_budget = smaller, .device_order = device_order_});
  compiled.arrivals = repeated_arrivals(arrivals_, compiled.program, compiled.order);
  return &known_.emplace(steps, std::move(compiled)).first->second;
}

ConvergenceSearch find_convergence(LongerPrograms& longer, const Compiled& compiled,
                                   const AllocatorCalls* calls, const Scratch& scratch,
                                   Bytes capacity, int limit, AllocatorAfterRun* left) {
  const StepSpec& spec = longer.spec();
  ConvergenceSearch search;
  Convergence& found = search.found;
  found.steps = reserved_by_step(compiled.program, compiled.order, scratch);
  found.step = converged_step(found.steps);
  if (spec.allocator->captures_last_step()) {
    // Replays of the graph that the last step captures allocate nothing.
    found.step = compiled.order.steps - 1;
  }
  int steps = 2 * spec.training.steps;
  if (!found.step && steps <= limit && calls != nullptr && calls->further) {
    std::optional<CalledSteps> called =
        left != nullptr ? make_further_calls(spec, compiled, *calls, *left, found.steps, limit)
                        : make_calls(spec, compiled, calls, capacity, limit);
    if (called && !called->fails_in) {
      found.steps = std::move(called->steps);
      found.retried = called->retried;
      found.step = converged_step(found.steps);
      return search;
    }
    // The program of the steps up to the one that fails is run for its report.
    while (called && steps <= *called->fails_in)
      steps *= 2;
  }
  for (; !found.step && steps <= limit; steps *= 2) {
    const Compiled* program = longer.of(steps);
    if (program == nullptr) break;
    Scratch other;
    const RunResult run = run_compiled(spec, *program, other, capacity, true);
    found.steps = reserved_by_step(program->program, program->order, other);
    found.retried = run.retries > 0;
    if (run.status != RunStatus::kCompleted) {
      found.fails_in = convergence_detail::failing_step(*program, run);
      search.failing = program;
      return search;
    }
    found.step = converged_step(found.steps);
  }
  return search;
}

}  // namespace tidemark
