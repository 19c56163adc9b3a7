#include "sim/step/simulate.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/operators/adapters/quantised_formats.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/result/transfers.hpp"
#include "sim/step/convergence.hpp"
#include "sim/step/failure_report.hpp"
#include "sim/step/loader_memory.hpp"
#include "sim/step/peak_report.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate_stages.hpp"
#include "sim/step/smallest_capacity.hpp"
#include "sim/step/step_cost.hpp"
#include "sim/step/step_device.hpp"
#include "sim/step/training_warnings.hpp"

namespace tidemark {
namespace simulate_detail {
namespace {

// Returns the live bytes of a step that the policy is to stay within. A plan has its own budget and
// is judged by it.
std::optional<Bytes> budget_of(const AnyPolicy& policy, const PolicyOutcome& outcome) {
  return outcome.plan ? std::nullopt : policy_of(policy).budget();
}

std::string overhead_words(const PointResult& point) {
  return point.ranks > 1 ? "the context of the framework with NCCL's buffers"
                         : "the context of the framework";
}

// Returns the figures of a run without a limit, with those of the failed run that a limit causes.
RunResult with_failure(RunResult unlimited, const RunResult& failed) {
  unlimited.status = failed.status;
  unlimited.failed_instruction = failed.failed_instruction;
  unlimited.failed_allocation = failed.failed_allocation;
  unlimited.requested = failed.requested;
  unlimited.retries = failed.retries;
  unlimited.ooms = failed.ooms;
  unlimited.evictions = failed.evictions;
  unlimited.live_at_failure = failed.live_at_failure;
  unlimited.reserved_at_failure = failed.reserved_at_failure;
  return unlimited;
}

// One step on its way from a compiled program to its figures.
class PointSimulation {
 public:
  PointSimulation(const StepSpec& spec, const TrainedModel& model, Compiled compiled,
                  const SimulateOptions& options)
      : spec_(spec),
        model_(model),
        compiled_(std::move(compiled)),
        longer_(spec_, model_, compiled_),
        options_(options) {}

  // Takes the place of the first run on the device, or of the one with unlimited memory.
  void has_run(StageRun run) { ran_ = std::move(run); }

  PointResult run(PointDetail* detail) {
    point_ = model_figures(spec_, model_);
    fill_policies();
    run_on_device();
    judge_plans();
    judge_budgets();
    follow_steps();
    wait_for_data();
    if (point_.run.status == RunStatus::kCompleted) fill_throughput(spec_, model_, point_);
    examine_run();
    if (options_.smallest_capacity) find_smallest_capacity();
    if (detail != nullptr) {
      detail->timeline = std::move(timeline_);
      detail->compiled = std::move(compiled_);
      detail->scratch = std::move(scratch_);
    }
    return std::move(point_);
  }

 private:
  void fill_policies();
  void wait_for_data();
  void run_on_device();
  RunResult take_run();
  RunResult run_keeping(Bytes capacity, OutOfMemory* memory);
  void run_without_limit(const OutOfMemory& memory);
  void run_with_eviction(const RunResult& unlimited, const RunResult& failed);
  void add_shortage();
  void judge_plans();
  void judge_budgets();
  void follow_steps();
  void examine_run();
  void find_smallest_capacity();
  [[nodiscard]] const AllocatorCalls* calls();

  const StepSpec& spec_;
  const TrainedModel& model_;
  Compiled compiled_;
  LongerPrograms longer_;
  const SimulateOptions& options_;
  Scratch scratch_;  // scratch of the run whose figures are reported
  // The allocator that this run has left, and its capacity; null where further steps cannot begin
  // with it.
  std::unique_ptr<AllocatorAfterRun> left_;
  Bytes left_capacity_;
  std::optional<StageRun> ran_;
  std::optional<std::optional<AllocatorCalls>> calls_;  // of compiled_; unset: not asked for yet
  MemoryTimeline timeline_;
  PointResult point_;
};

void PointSimulation::fill_policies() {
  for (const AnyPolicy& policy : spec_.policies) {
    const std::string_view remark = policy_of(policy).remark();
    if (!remark.empty()) point_.warnings.emplace_back(remark);
  }
  point_.policies = compiled_.policies;
  for (std::size_t i = 0; i < spec_.policies.size(); ++i)
    point_.budgets.push_back(budget_of(spec_.policies[i], point_.policies[i]));
  point_.saved_activations = sum_of(model_.training, compiled_.saved);
  point_.passes = model_.passes;
  point_.passes.insert(point_.passes.end(), compiled_.passes.begin(), compiled_.passes.end());
}

// Only the first stage of a pipeline has samples, and the others wait with it.
void PointSimulation::wait_for_data() {
  const std::optional<LoaderSpec>& data = spec_.training.loader;
  if (!data) return;
  const TrainingGraph& t = model_.training;
  const int ranks_per_host = spec_.mesh.ranks_on_host();
  point_.loader = loader_figures(*data, batch_bytes(t), t.samples, spec_.device, ranks_per_host);
  const Duration link = point_.run.busy[static_cast<std::size_t>(Stream::kCopyIn)];
  point_.loader_stall = loader_stall(*data, *point_.loader, t.micro_batches, point_.run.step, link);
  point_.run.step += point_.loader_stall;
}

void PointSimulation::run_on_device() {
  OutOfMemory memory;
  point_.run = ran_ && !ran_->unlimited ? take_run() : run_keeping(point_.usable(), &memory);
  point_.status = point_status(point_.run.status);
  if (point_.status != PointStatus::kFits) run_without_limit(memory);
  ran_.reset();  // a longer program may follow
  for (std::size_t i = 0; i < spec_.policies.size(); ++i) {
    if (!std::holds_alternative<std::unique_ptr<EvictionPolicy>>(spec_.policies[i])) continue;
    point_.policies[i].decided = point_.run.evictions;
    point_.policies[i].recomputed_operators = point_.run.restores;
  }
}

// Returns the figures of the run that was given, and takes over its scratch.
RunResult PointSimulation::take_run() {
  scratch_ = std::move(ran_->scratch);
  const RunResult result = ran_->result;
  ran_.reset();
  return result;
}

// Runs the program and keeps its allocator for the steps that follow: what a retry gives back
// depends on when it comes.
RunResult PointSimulation::run_keeping(Bytes capacity, OutOfMemory* memory) {
  left_.reset();
  left_capacity_ = capacity;
  const bool follows =
      compiled_.eviction == nullptr && 2 * compiled_.order.steps <= options_.convergence_limit;
  const RunResult run =
      run_compiled(spec_, compiled_, scratch_, capacity, true, memory, follows ? &left_ : nullptr);
  if (run.status != RunStatus::kCompleted || run.retries > 0) left_.reset();
  return run;
}

// Reports why the run failed, and what the same program would need: its figures with unlimited
// memory, or with the least that suffices where it evicts. Figures of the failed run stay only
// where a limit causes them: see with_failure().
void PointSimulation::run_without_limit(const OutOfMemory& memory) {
  point_.failure = report_failure(model_.training, compiled_, scratch_, point_.run, memory);
  if (point_.context > point_.capacity) {
    point_.failure->reason = point_.failure->message =
        fmt::format("{} alone, {}, does not fit into the {} of the device", overhead_words(point_),
                    format_bytes(point_.context), format_bytes(point_.capacity));
  }
  const RunResult failed = point_.run;
  const RunResult unlimited = ran_ ? take_run() : run_keeping(kUnlimited, nullptr);
  point_.run = with_failure(unlimited, failed);
  const bool evicts = compiled_.eviction != nullptr && failed.status == RunStatus::kOutOfMemory;
  if (evicts && options_.smallest_capacity) run_with_eviction(unlimited, failed);
  add_shortage();
}

// Reports the run on the smallest device that it fits into: without a limit nothing is evicted.
void PointSimulation::run_with_eviction(const RunResult& unlimited, const RunResult& failed) {
  Bytes& smallest = point_.smallest_capacity;
  smallest =
      smallest_capacity(spec_, compiled_, nullptr, point_.context, unlimited, point_.usable());
  if (smallest.count == 0) return;
  const RunResult evicting =
      run_compiled(spec_, compiled_, scratch_, smallest - point_.context, true);
  point_.run = with_failure(evicting, failed);
  point_.run.evictions = evicting.evictions;
}

// Adds by how much the host or its disks are too small for the run with unlimited memory. A run
// that waits for host memory may need less.
void PointSimulation::add_shortage() {
  Failure& failure = *point_.failure;
  const bool host = point_.run.status == RunStatus::kOutOfHostMemory;
  if (!host && point_.run.status != RunStatus::kOutOfNvme) return;
  const std::int64_t needed = host ? point_.run.most_host.count : point_.run.most_nvme.count;
  const Bytes there = host ? point_.host_capacity : point_.nvme_capacity;
  failure.short_of.count = std::max<std::int64_t>(needed - there.count, 0);
  failure.reason +=
      fmt::format("; with room for all the run takes {} and there are {}: at most {} are missing",
                  format_bytes(Bytes(needed)), format_bytes(there), format_bytes(failure.short_of));
  failure.message = failure.reason;
}

// A plan that exceeds its budget is infeasible; the figures are those of the plan that comes
// nearest.
void PointSimulation::judge_plans() {
  for (const PolicyOutcome& outcome : point_.policies) {
    if (!outcome.plan || outcome.plan->infeasible.empty()) continue;
    const bool proven = outcome.plan->status == PlanStatus::kInfeasible;
    point_.status = PointStatus::kInfeasible;
    point_.failure =
        failure_because(fmt::format("{}: {} within the budget of {}: {}", outcome.name,
                                    proven ? "no plan fits" : "found no plan that fits",
                                    format_bytes(outcome.plan->budget), outcome.plan->infeasible));
  }
}

// Policies may be given live bytes to stay within: the first whose step takes more has exceeded
// them.
void PointSimulation::judge_budgets() {
  if (point_.status != PointStatus::kFits) return;
  const Bytes live(point_.run.live.bytes.count);
  for (std::size_t i = 0; i < spec_.policies.size(); ++i) {
    const std::optional<Bytes>& budget = point_.budgets[i];
    if (!budget || live <= *budget) continue;
    point_.status = PointStatus::kInfeasible;
    point_.failure = failure_because(fmt::format(
        "{}: the budget of {} is missed by {}: {} live is the least that its plan comes to",
        spec_.policy_names[i], format_bytes(*budget), format_bytes(live - *budget),
        format_bytes(live)));
    return;
  }
}

// Looks how soon the steps repeat. Where a later one runs out of memory, the point does not fit,
// and the run of as many steps as show it is the one that is reported.
void PointSimulation::follow_steps() {
  const bool fits = point_.status == PointStatus::kFits;
  const Bytes capacity = fits ? point_.usable() : kUnlimited;
  ConvergenceSearch search =
      find_convergence(longer_, compiled_, calls(), scratch_, capacity,
                       spec_.training.model.generation ? 0 : options_.convergence_limit,
                       left_capacity_ == capacity ? left_.get() : nullptr);
  left_.reset();
  point_.convergence = std::move(search.found);
  if (!fits || search.failing == nullptr) return;
  compiled_ = *search.failing;
  calls_.reset();
  run_on_device();
}

// Fills in what the reported run shows: its peak, its host memory.
void PointSimulation::examine_run() {
  const StepProgram& program = compiled_.program;
  point_.dequantise = {};
  for (const Occurrence& at : compiled_.order.at) {
    const bool last = at.step + 1 == compiled_.order.steps;
    if (last && model_.training.operators[at.op].part == OperatorPart::kDequantise)
      point_.dequantise += compiled_.costs.device[at.op];
  }
  point_.communication =
      communication_of(model_.training, program, compiled_.costs, scratch_, point_.run);
  point_.host_by_role = held_by_role(program, scratch_, Tier::kHost, point_.run.host.events);
  add_memory_beside_step(point_, spec_, model_.training);
  point_.breakdown = time_breakdown(model_.training, program, compiled_.costs, scratch_);
  if (model_.step_flops.count > 0) {
    point_.hardware_flops_utilization = point_.model_flops_utilization *
                                        point_.breakdown.hardware_flops.count /
                                        model_.step_flops.count;
  }
  timeline_ = memory_timeline(program, scratch_);
  if (spec_.training.model.generation) {
    point_.generation = generation_figures(*spec_.training.model.generation,
                                           {model_.training, program, scratch_, timeline_},
                                           spec_.device, point_.context);
  }
  point_.peak = report_peak(model_.training, compiled_, scratch_, point_.run.live,
                            options_.largest_tensors, timeline_.last_step_begin);
  std::string remark =
      remark_on_updates(model_.training, program, compiled_.order, point_.run.live);
  if (!remark.empty()) point_.warnings.push_back(std::move(remark));
  const std::uint32_t without_workspace = point_.run.live_without_workspace.instruction;
  if (without_workspace != kNoInstruction) {
    const Position at = program.position[without_workspace];
    point_.phase_without_workspace = program.slot[at.index()].phase;
  }
}

void PointSimulation::find_smallest_capacity() {
  if (point_.smallest_capacity.count > 0) return;  // found on the way
  if (point_.status == PointStatus::kFits && !options_.smallest_capacity_of_fitting) return;
  const RunStatus status = point_.run.status;
  // No larger device makes up for memory that the host lacks.
  if (status == RunStatus::kOutOfHostMemory || status == RunStatus::kOutOfNvme) return;
  // A plan that exceeds its budget may run on this device all the same.
  const bool ran = status == RunStatus::kCompleted;
  RunResult unlimited = point_.run;
  // A run that has retried or evicted reserved less than it would have taken without a limit.
  if (ran && (point_.run.retries > 0 || point_.run.evictions > 0)) {
    Scratch other;
    unlimited = run_compiled(spec_, compiled_, other, kUnlimited, false);
  }
  Bytes& smallest = point_.smallest_capacity;
  smallest = lasting_capacity(longer_, compiled_, calls(), point_.context, unlimited,
                              ran ? Bytes(0) : point_.usable(), options_.convergence_limit);
  if (ran) smallest = std::min(smallest, point_.capacity);
}

// Returns the calls of the reported program; null where they do not tell what a run does.
const AllocatorCalls* PointSimulation::calls() {
  if (!calls_) calls_ = allocator_calls(compiled_.program, compiled_.order);
  return *calls_ ? &**calls_ : nullptr;
}

}  // namespace
}  // namespace simulate_detail

PointResult model_figures(const StepSpec& spec, const TrainedModel& model) {
  PointResult point;
  const TrainingGraph& t = model.training;
  point.name = spec.name;
  point.parameter_count = model.parameter_count;
  point.trainable_parameter_count = model.trainable_parameter_count;
  point.operators = t.operators.size();
  point.tensors = t.tensors;
  point.forward_flops = model.forward_flops;
  point.step_flops = model.step_flops;
  // Ranks that differ in another dimension than data work on the same samples.
  const double micro_batches =
      t.micro_batches * static_cast<double>(spec.mesh.size(MeshDimension::kData));
  point.samples = static_cast<double>(t.samples) * micro_batches;
  point.tokens = static_cast<double>(t.tokens) * micro_batches;
  point.capacity = spec.device.hbm.capacity;
  point.context = process_overhead(spec);
  if (spec.allocator->traits().has_overhead)
    point.communicators = communicators_of(spec.mesh, spec.device, gather_ranks(spec));
  point.ranks = spec.mesh.ranks();
  point.mesh = spec.mesh;
  point.parameters = model.parameters;
  point.gradients = model.gradients;
  point.optimizer_state = model.optimizer_state;
  point.buffers = model.buffers;
  point.inputs = model.inputs;
  point.allocator = spec.allocator->traits();
  point.host_capacity = spec.device.host.memory;
  point.nvme_capacity = spec.device.nvme.capacity;
  point.warnings = warnings_of_point(spec, model);
  return point;
}

void fill_throughput(const StepSpec& spec, const TrainedModel& model, PointResult& point) {
  const double seconds = static_cast<double>(point.run.step.count()) * 1e-9;
  if (seconds <= 0) return;
  point.samples_per_second = point.samples / seconds;
  point.tokens_per_second = point.tokens / seconds;
  const DType type = matrix_type(spec.device, compute_type(spec));
  const double peak = spec.device.matrix[static_cast<std::size_t>(type)].peak.value;
  if (peak > 0) point.model_flops_utilization = model.step_flops.count / (seconds * peak);
  point.cost = step_cost(spec.device, point.ranks, point.run);
}

PointResult examine_stage(const StepSpec& spec, const TrainedModel& model, Compiled compiled,
                          StageRun run, const SimulateOptions& options, PointDetail* detail) {
  simulate_detail::PointSimulation simulation(spec, model, std::move(compiled), options);
  simulation.has_run(std::move(run));
  return simulation.run(detail);
}

PointResult simulate(const StepSpec& spec, const TrainedModel& model,
                     const SimulateOptions& options, PointDetail* detail) {
  return simulate(spec, model, compile(spec, model), options, detail);
}

PointResult simulate(const StepSpec& spec, const TrainedModel& model, Compiled compiled,
                     const SimulateOptions& options, PointDetail* detail) {
  if (!compiled.stages.empty())
    return simulate_stages(spec, model, std::move(compiled), options, detail);
  return simulate_detail::PointSimulation(spec, model, std::move(compiled), options).run(detail);
}

}  // namespace tidemark
