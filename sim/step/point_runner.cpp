#include "sim/step/point_runner.hpp"

#include <algorithm>
#include <utility>

#include "graph/analysis/program_order.hpp"
#include "sim/engine/cost_table.hpp"

namespace tidemark {
namespace point_runner_detail {
namespace {

// Sums the kernels of the last step on the compute stream, in the order without policies.
Duration kernels_of(const StepSpec& spec, const TrainedModel& model) {
  const TrainingGraph& graph = model.training;
  const CostTable costs = price(graph, CostModel(spec.device), spec.mesh, spec.training.host);
  const ProgramOrder order =
      program_order(graph, schedule_of(model, spec.training.mode), spec.training.steps);
  Duration sum{};
  for (const Occurrence& at : order.at) {
    if (at.step + 1 == order.steps && stream_of(graph.operators[at.op]) == Stream::kCompute)
      sum += costs.device[at.op];
  }
  return sum;
}

// Figures that a program shows before it runs.
struct Shown {
  Duration kernels{};  // of the last step, on the compute stream
  Bytes live;          // most in the last step
  Bytes most_live;     // in any step
  Bytes most_host;     // page-locked, in any step
};

Shown shown_by(const Compiled& compiled) {
  const StepProgram& program = compiled.program;
  Shown shown;
  Bytes live;
  Bytes host;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool last_step = program.slot[program.position[i].index()].last_step;
    if (program.opcode[i] == Opcode::kLaunch && last_step) {
      const OperatorId op(program.subject[i]);
      if (static_cast<Stream>(program.stream[i]) == Stream::kCompute)
        shown.kernels += compiled.costs.device[op];
    }
    const bool frees = program.opcode[i] == Opcode::kFree;
    if (!frees && program.opcode[i] != Opcode::kAllocate) continue;
    const Allocation& allocation = program.allocations[AllocationId(program.subject[i])];
    const Bytes change = frees ? -allocation.bytes : allocation.bytes;
    if (allocation.tier == Tier::kHost) {
      host += change;
      shown.most_host = std::max(shown.most_host, host);
    }
    if (allocation.tier != Tier::kDevice) continue;
    live += change;
    shown.most_live = std::max(shown.most_live, live);
    if (last_step && !frees) shown.live = std::max(shown.live, live);
  }
  // The policy decides during the run what is live.
  if (compiled.eviction != nullptr) shown.live = shown.most_live = Bytes(0);
  return shown;
}

PointResult bound_of(const StepSpec& spec, const TrainedModel& model, const Shown& shown) {
  PointResult point = model_figures(spec, model);
  point.status = PointStatus::kFits;
  point.run.step = shown.kernels;
  point.run.busy[static_cast<std::size_t>(Stream::kCompute)] = shown.kernels;
  for (Peak* peak : {&point.run.live, &point.run.allocated, &point.run.active, &point.run.reserved})
    peak->bytes = shown.live;
  point.run.most_live = point.run.most_reserved = shown.most_live;
  point.run.most_host = shown.most_host;
  point.smallest_capacity = shown.live.count > 0 ? point.device_used() : Bytes(0);
  fill_throughput(spec, model, point);
  return point;
}

// The steps of a pipeline take as long as the slowest stage, and its memory is that of the stage
// with the most.
void raise(Shown& most, const Shown& stage) {
  most.kernels = std::max(most.kernels, stage.kernels);
  most.live = std::max(most.live, stage.live);
  most.most_live = std::max(most.most_live, stage.most_live);
  most.most_host = std::max(most.most_host, stage.most_host);
}

}  // namespace
}  // namespace point_runner_detail

PointResult PointRunner::bound_by_prices() const {
  point_runner_detail::Shown shown;
  if (model_->stages.empty()) shown.kernels = point_runner_detail::kernels_of(spec_, *model_);
  for (const std::shared_ptr<const TrainedModel>& stage : model_->stages) {
    point_runner_detail::raise(
        shown, {.kernels = point_runner_detail::kernels_of(spec_, *stage), .live = {}});
  }
  return point_runner_detail::bound_of(spec_, *model_, shown);
}

PointResult PointRunner::bound_by_program() {
  if (!compiled_) compiled_ = compile(spec_, *model_);
  point_runner_detail::Shown shown;
  if (compiled_->stages.empty()) shown = point_runner_detail::shown_by(*compiled_);
  for (const Compiled& stage : compiled_->stages)
    point_runner_detail::raise(shown, point_runner_detail::shown_by(stage));
  return point_runner_detail::bound_of(spec_, *model_, shown);
}

PointResult PointRunner::run(const SimulateOptions& options, const CompileOptions& compilation,
                             const DetailSink& sink) {
  ++runs_;
  Compiled compiled = compiled_ ? std::move(*compiled_) : compile(spec_, *model_, compilation);
  compiled_.reset();
  if (!sink) return simulate(spec_, *model_, std::move(compiled), options);
  PointDetail detail;
  PointResult result = simulate(spec_, *model_, std::move(compiled), options, &detail);
  if (detail.model == nullptr) detail.model = model_;  // else that of a pipeline's stage
  sink(result, std::move(detail));
  return result;
}

}  // namespace tidemark
