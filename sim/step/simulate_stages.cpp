#include "sim/step/simulate_stages.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/analysis/pipeline_schedule.hpp"
#include "sim/program/live_peak.hpp"
#include "sim/result/deadlock.hpp"
#include "sim/step/arrivals.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/failure_report.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace simulate_stages_detail {
namespace {

// The stretch of the last step in which a stage runs its micro-batches.
struct Stretch {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  std::int64_t busy = 0;
};

// The part that an operator belongs to.
struct PartOf {
  std::optional<StageWork> work;
  int chunk = 0;
};

IdVector<OperatorId, PartOf> parts_of(const TrainingGraph& graph) {
  IdVector<OperatorId, PartOf> parts(graph.operators.size());
  for (const StepPart& part : graph.parts.all()) {
    for (const OperatorId op : part.operators)
      parts[op] = {stage_work_of(part.kind), part.chunk};
  }
  return parts;
}

// Returns the stretch, and adds the stage's parts. What is recomputed belongs to the part that it
// is recomputed for.
Stretch examine_parts(const TrainingGraph& graph, const Compiled& compiled, const Scratch& scratch,
                      std::vector<StagePart>& parts) {
  const StepProgram& program = compiled.program;
  const IdVector<OperatorId, PartOf> part_of = parts_of(graph);
  Stretch stretch;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint16_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute || scratch.finished[i] < 0) continue;
    const Position p = program.position[i];
    if (!program.slot[p.index()].last_step) continue;
    const PartOf& own = part_of[OperatorId(program.subject[i])];
    const Occurrence& at = compiled.order.at[p];
    if (!own.work) continue;
    const std::int64_t begin = scratch.started[i];
    const std::int64_t end = scratch.finished[i];
    const StageWork work = at.recompute ? StageWork::kBackward : *own.work;
    const bool goes_on = !parts.empty() && parts.back().micro_batch == at.micro_batch &&
                         parts.back().work == work && parts.back().chunk == own.chunk;
    // A part begins with the model's own kernels: copies of gathered parameters run ahead of what
    // the stage waits for.
    if (!goes_on && !graph.operators[OperatorId(program.subject[i])].node.valid()) continue;
    stretch.first = std::min(stretch.first, begin);
    stretch.last = std::max(stretch.last, end);
    stretch.busy += end - begin;
    if (goes_on) {
      parts.back().end = Duration(end);
    } else {
      parts.push_back({work, at.micro_batch, own.chunk, Duration(begin), Duration(end)});
    }
  }
  return stretch;
}

bool all_completed(const std::vector<RunResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const RunResult& result) {
    return result.status == RunStatus::kCompleted;
  });
}

// Returns whether a step takes all stages the same time, as it does once the pipeline repeats
// itself. The first steps also fill it: the last stage is behind the first when they end.
bool is_steady(const std::vector<RunResult>& results) {
  return std::all_of(results.begin(), results.end(),
                     [&](const RunResult& result) { return result.step == results.front().step; });
}

std::string layers_text(const std::vector<StageBlocks>& chunks) {
  std::string text;
  for (const StageBlocks& chunk : chunks) {
    if (chunk.count == 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", chunk.first);
    if (chunk.count > 1) text += fmt::format("-{}", chunk.first + chunk.count - 1);
  }
  return text.empty() ? "no layer" : fmt::format("layers {}", text);
}

class StagesSimulation {
 public:
  StagesSimulation(const StepSpec& spec, const TrainedModel& model, Compiled compiled,
                   const SimulateOptions& options)
      : spec_(spec), model_(model), compiled_(std::move(compiled)), options_(options) {}

  PointResult run(PointDetail* detail) {
    if (!find_arrivals()) return deadlocked(detail);
    examine_stages(detail != nullptr);
    const std::size_t shown = fullest_stage(stages_);
    PointResult point = stage_point(shown, options_, detail);
    if (detail != nullptr) {
      detail->model = model_.stages[shown];
      add_stages(*detail);
    }
    name_stage(shown, point);
    step_together(point);
    average(point);
    if (spec_.training.accumulate == 1) {
      point.warnings.push_back(
          fmt::format("one micro-batch keeps one of the {} stages busy at a time; "
                      "training.accumulate: {} lets them overlap",
                      stages_.size(), 4 * stages_.size()));
    }
    point.stages = std::move(stages_);
    return point;
  }

 private:
  [[nodiscard]] bool run_together();
  [[nodiscard]] bool settle();
  [[nodiscard]] bool find_arrivals();
  [[nodiscard]] PointResult deadlocked(PointDetail* detail);
  void examine_stages(bool keeps_timelines);
  [[nodiscard]] PointResult stage_point(std::size_t stage, const SimulateOptions& options,
                                        PointDetail* detail);
  void add_stages(PointDetail& detail);
  void name_stage(std::size_t stage, PointResult& point) const;
  void step_together(PointResult& point);
  void add_costs(PointResult& point) const;
  void average(PointResult& point) const;

  const StepSpec& spec_;
  const TrainedModel& model_;
  Compiled compiled_;
  const SimulateOptions& options_;
  // Figures of the stages running together, with limited or unlimited memory.
  std::vector<RunResult> results_;
  std::vector<Scratch> scratch_;
  bool fit_ = false;
  std::vector<StageRun> runs_;  // by stage
  std::vector<MemoryTimeline> timelines_;
  std::vector<StageResult> stages_;
  std::string deadlock_;  // who waits for whom, where the stages cannot go on
};

// Runs the stages together on their devices, or with unlimited memory where one has too little.
bool StagesSimulation::run_together() {
  const std::vector<Compiled>& stages = compiled_.stages;
  scratch_.assign(stages.size(), {});
  const Bytes usable = spec_.device.hbm.capacity - process_overhead(spec_);
  results_ = run_stages(spec_, stages, scratch_, usable);
  fit_ = all_completed(results_);
  if (!fit_) results_ = run_stages(spec_, stages, scratch_, kUnlimited);
  return all_completed(results_);
}

// Steps that a pipeline gets at most to become steady, and the instructions of all its stages.
constexpr int kMostSteps = 6;
constexpr std::size_t kMostInstructions = 2'000'000;

// Lets the pipeline run until its steps repeat; a single step stays the first one.
bool StagesSimulation::settle() {
  if (!run_together()) return false;
  const int first = compiled_.stages.front().order.steps;
  for (int steps = first + 1; first > 1 && steps <= kMostSteps && !is_steady(results_); ++steps) {
    std::size_t instructions = 0;
    for (const Compiled& stage : compiled_.stages)
      instructions += stage.program.size();
    if (instructions > kMostInstructions) break;
    compiled_ = compile(spec_, model_, {.steps = steps});
    if (!run_together()) return false;
  }
  return true;
}

// Returns false where the stages wait for each other permanently.
bool StagesSimulation::find_arrivals() {
  const bool completed = settle();
  std::vector<Compiled>& stages = compiled_.stages;
  if (!completed) {
    std::vector<RankProgram> programs;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      programs.push_back({.graph = &model_.stages[s]->training,
                          .order = &stages[s].order,
                          .program = &stages[s].program});
    }
    deadlock_ = describe_deadlock(programs, results_);
    return false;
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].arrivals = arrivals_of(stages[s].program, scratch_[s]);
    runs_.push_back({results_[s], std::move(scratch_[s]), !fit_});
  }
  scratch_.clear();
  return true;
}

// Simulates one stage alone; its program stays with the others.
PointResult StagesSimulation::stage_point(std::size_t stage, const SimulateOptions& options,
                                          PointDetail* detail) {
  const TrainedModel& model = *model_.stages[stage];
  return simulate(spec_, model, compiled_.stages[stage], options, detail);
}

// The figures are those of the first stage, as if nothing that it receives kept it waiting.
PointResult StagesSimulation::deadlocked(PointDetail* detail) {
  compiled_.stages.front().arrivals = arrivals_at_once(compiled_.stages.front().program);
  PointResult point = stage_point(0, {.smallest_capacity = false}, detail);
  if (detail != nullptr) detail->model = model_.stages.front();
  point.status = PointStatus::kInfeasible;
  point.run.status = RunStatus::kDeadlock;
  point.failure =
      failure_because(fmt::format("the schedule of the pipeline cannot run: {}", deadlock_));
  return point;
}

void StagesSimulation::examine_stages(bool keeps_timelines) {
  std::vector<Stretch> stretches;
  const SimulateOptions options{.smallest_capacity = false,
                                .largest_tensors = options_.largest_tensors};
  for (std::size_t s = 0; s < compiled_.stages.size(); ++s) {
    const TrainedModel& model = *model_.stages[s];
    PointDetail detail;
    StageResult& stage = stages_.emplace_back();
    stage.stage = model.stage;
    stage.chunks = model.chunks;
    stage.order = order_text(model.work, model.chunks.size() > 1);
    stage.in_flight = most_in_flight(model.work);
    Compiled own = std::move(compiled_.stages[s]);
    stage.point =
        examine_stage(spec_, model, std::move(own), std::move(runs_[s]), options, &detail);
    stretches.push_back(
        examine_parts(model.training, detail.compiled, detail.scratch, stage.parts));
    stage.communication =
        communication_stretches(model.training, detail.compiled.program, detail.scratch);
    compiled_.stages[s] = std::move(detail.compiled);
    if (keeps_timelines) timelines_.push_back(std::move(detail.timeline));
  }
  Stretch all;
  for (const Stretch& stretch : stretches) {
    all.first = std::min(all.first, stretch.first);
    all.last = std::max(all.last, stretch.last);
  }
  if (all.last <= all.first) return;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (CommunicationStretch& used : stages_[s].communication) {
      used.begin -= Duration(all.first);
      used.end -= Duration(all.first);
    }
    for (StagePart& part : stages_[s].parts) {
      part.begin -= Duration(all.first);
      part.end -= Duration(all.first);
    }
    stages_[s].bubble =
        1 - static_cast<double>(stretches[s].busy) / static_cast<double>(all.last - all.first);
  }
}

// Gives each stage's program and timeline to the detail.
void StagesSimulation::add_stages(PointDetail& detail) {
  for (std::size_t s = 0; s < timelines_.size(); ++s) {
    detail.stages.push_back({.model = model_.stages[s],
                             .compiled = std::move(compiled_.stages[s]),
                             .timeline = std::move(timelines_[s])});
  }
}

void StagesSimulation::name_stage(std::size_t stage, PointResult& point) const {
  if (!point.failure) return;
  const std::string name = fmt::format("stage {} of {} ({}): ", stage, stages_.size(),
                                       layers_text(stages_[stage].chunks));
  if (point.failure->message == point.failure->reason)
    point.failure->message = name + point.failure->message;
  point.failure->reason = name + point.failure->reason;
}

// Gives a point the step of the whole pipeline.
void set_step(PointResult& point, Duration step) {
  if (point.run.step == step || step.count() <= 0) return;
  const double share =
      static_cast<double>(point.run.step.count()) / static_cast<double>(step.count());
  point.run.step = step;
  point.samples_per_second *= share;
  point.tokens_per_second *= share;
  point.model_flops_utilization *= share;
}

// All stages take part in every step, so that one is as long as that of the slowest.
void StagesSimulation::step_together(PointResult& point) {
  Duration step = point.run.step;
  for (const StageResult& stage : stages_)
    step = std::max(step, stage.point.run.step);
  for (StageResult& stage : stages_)
    set_step(stage.point, step);
  set_step(point, step);
  if (point.run.status == RunStatus::kCompleted) add_costs(point);
}

// The ranks of each stage are busy for a time of their own in the step that they share.
void StagesSimulation::add_costs(PointResult& point) const {
  const int ranks = point.ranks / static_cast<int>(stages_.size());
  point.cost = {};
  const auto add = [](std::optional<double>& sum, const std::optional<double>& part) {
    if (part) sum = sum.value_or(0) + *part;
  };
  for (const StageResult& stage : stages_) {
    const StepCost cost = step_cost(spec_.device, ranks, stage.point.run);
    point.cost.device_hours += cost.device_hours;
    add(point.cost.joules, cost.joules);
    add(point.cost.price, cost.price);
  }
}

// The model's operations are those of the average stage, so that operations and utilization are of
// one GPU.
void StagesSimulation::average(PointResult& point) const {
  Flops forward;
  Flops step;
  double utilization = 0;
  double with_recompute = 0;
  for (const StageResult& stage : stages_) {
    forward += stage.point.forward_flops;
    step += stage.point.step_flops;
    utilization += stage.point.model_flops_utilization;
    with_recompute += stage.point.hardware_flops_utilization;
  }
  const double share = 1.0 / static_cast<double>(stages_.size());
  point.forward_flops = forward * share;
  point.step_flops = step * share;
  point.model_flops_utilization = utilization * share;
  point.hardware_flops_utilization = with_recompute * share;
}

}  // namespace
}  // namespace simulate_stages_detail

std::size_t fullest_stage(std::span<const StageResult> stages) {
  std::size_t fullest = 0;
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const PointResult& most = stages[fullest].point;
    const PointResult& point = stages[s].point;
    const bool fails = point.status != PointStatus::kFits;
    if (fails != (most.status != PointStatus::kFits)) {
      if (fails) fullest = s;
    } else if (point.device_used() > most.device_used()) {
      fullest = s;
    }
  }
  return fullest;
}

std::optional<RunResult> run_of_too_large_stage(const StepSpec& spec, const TrainedModel& stage) {
  Compiled compiled = compile(spec, stage);
  const Bytes usable = spec.device.hbm.capacity - process_overhead(spec);
  if (compiled.eviction != nullptr || live_peak(compiled.program) <= usable) return std::nullopt;
  compiled.arrivals = arrivals_at_once(compiled.program);
  Scratch scratch;
  return run_compiled(spec, compiled, scratch, kUnlimited, false);
}

PointResult simulate_stages(const StepSpec& spec, const TrainedModel& model, Compiled compiled,
                            const SimulateOptions& options, PointDetail* detail) {
  return simulate_stages_detail::StagesSimulation(spec, model, std::move(compiled), options)
      .run(detail);
}

}  // namespace tidemark
