// The kernels of measured training steps, counted: what their times can be fitted with.
#include <map>
#include <mutex>
#include <tuple>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/studies/parallel.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {
namespace step_kernels_detail {
namespace {

// Everything that the price of a kernel depends on.
auto key_of(const Work& work) {
  return std::tuple(work.op_class, work.dtype, work.flops.count, work.read.count,
                    work.written.count, work.extent, work.launches, work.channels_last,
                    work.window.channels, work.window.groups, work.window.pointwise,
                    work.window.strided, work.window.three_by_three);
}

// Each operator of a step without recomputation runs once for each micro-batch.
void count_kernels(const TrainingGraph& graph, MeasuredOperator& op) {
  std::map<decltype(key_of(Work{})), std::size_t> places;
  for (const Operator& kernel : graph.operators) {
    if (kernel.executor == Executor::kHost || !is_priced_by_device(kernel.work.op_class)) continue;
    const auto [place, added] = places.try_emplace(key_of(kernel.work), op.work.size());
    if (added) {
      op.work.push_back(kernel.work);
      op.repeats.push_back(0);
    }
    ++op.repeats[place->second];
  }
}

}  // namespace
}  // namespace step_kernels_detail

MeasuredTable kernels_of(const MeasuredSteps& steps, const Environment& environment, int threads) {
  MeasuredTable table{.file = steps.file};
  table.other = steps.other;
  for (const RefusedLine& line : steps.refused)
    table.refused.push_back({.line = line.line, .problem = line.problem});
  std::vector<const MeasuredStep*> timed;
  for (const MeasuredStep& step : steps.steps) {
    if (step.metric == StepMetric::kStepTime && step.gpus == 1 && !step.model.empty()) {
      timed.push_back(&step);
    } else {
      ++table.other["rows that are no time of a step on one GPU"];
    }
  }
  table.rows = timed.size();
  std::vector<MeasuredOperator> built(timed.size());
  std::mutex mutex;
  for_each_parallel(timed.size(), threads, [&](std::size_t i) {
    const MeasuredStep& step = *timed[i];
    try {
      const Scenario scenario =
          decode_scenario(parse_document(step.scenario, "measured row"), environment);
      step_kernels_detail::count_kernels(build_training(scenario).training, built[i]);
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex);
      ++table.other["cannot be built: " + excerpt(error.problem())];
      return;
    }
    built[i].device = step.device;
    built[i].kind = step.group;
    built[i].text = step.text;
    built[i].model = step.model;
    built[i].seconds = step.value;
    built[i].line = step.line;
  });
  for (MeasuredOperator& op : built) {
    if (!op.work.empty()) table.operators.push_back(std::move(op));
  }
  return table;
}

}  // namespace tidemark
