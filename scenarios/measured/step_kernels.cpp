// The kernels of measured training steps, counted: what their times can be fitted with.
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/observations.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/studies/parallel.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {
namespace step_kernels_detail {
namespace {

// Everything that the price of a kernel depends on.
auto key_of(const Work& work) {
  return std::tuple(work.op_class, work.dtype, work.flops.count, work.read.count,
                    work.written.count, work.apart.count, work.extent, work.launches,
                    work.channels_last, work.window.channels, work.window.groups,
                    work.window.pointwise, work.window.strided, work.window.three_by_three);
}

// Counts the kernels that the last step of a program launches on the device, as the simulation
// does: those of the first step alone, as an optimizer's state, are none of a usual step.
void count_kernels(const TrainingGraph& graph, const StepProgram& program, MeasuredOperator& op) {
  std::map<decltype(key_of(Work{})), std::size_t> places;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool last_step = program.slot[program.position[i].index()].last_step;
    if (program.opcode[i] != Opcode::kLaunch || !last_step) continue;
    const Operator& kernel = graph.operators[OperatorId(program.subject[i])];
    if (kernel.executor == Executor::kHost || !is_priced_by_device(kernel.work.op_class)) continue;
    const auto [place, added] = places.try_emplace(key_of(kernel.work), op.work.size());
    if (added) {
      op.work.push_back(kernel.work);
      op.repeats.push_back(0);
    }
    ++op.repeats[place->second];
  }
}

// Returns the seconds of a step in which no kernel runs; 0 for one that does not fit.
double waits_of(const StepSpec& spec, const TrainedModel& model, Compiled compiled) {
  const PointResult point =
      simulate(spec, model, std::move(compiled), {.smallest_capacity = false});
  if (point.status != PointStatus::kFits) return 0;
  const Duration busy = point.run.busy[static_cast<std::size_t>(Stream::kCompute)];
  return std::chrono::duration<double>(std::max(point.run.step - busy, Duration(0))).count();
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
      const TrainedModel model = build_training(scenario);
      Compiled compiled = compile(scenario, model);
      step_kernels_detail::count_kernels(model.training, compiled.program, built[i]);
      built[i].waits = step_kernels_detail::waits_of(scenario, model, std::move(compiled));
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

std::optional<std::string> impossible_step(const MeasuredStep& step, double seconds,
                                           const Environment& environment) {
  MeasuredOperator op{.text = step.text, .seconds = seconds};
  try {
    const Scenario scenario =
        decode_scenario(parse_document(step.scenario, "measured row"), environment);
    const TrainedModel model = build_training(scenario);
    if (!model.stages.empty()) return std::nullopt;
    step_kernels_detail::count_kernels(model.training, compile(scenario, model).program, op);
    return impossible(op, scenario.device);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace tidemark
