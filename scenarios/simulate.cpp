#include "scenarios/simulate.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/budgeted.hpp"
#include "sim/engine/engine.hpp"
#include "sim/result/transfers.hpp"

namespace tidemark {
namespace {

class Reporter {
 public:
  Reporter(const TrainedModel& model, const Compiled& compiled, const Scratch& scratch)
      : graph_(model.training), compiled_(compiled), scratch_(scratch) {}

  // `begin`: when the last step begins; the peak's time counts from there.
  [[nodiscard]] PeakReport peak(const Peak& at_peak, std::size_t largest, Duration begin) const;
  // `memory`: of the device when it ran out.
  [[nodiscard]] Failure failure(const RunResult& run, const OutOfMemory& memory) const;

 private:
  struct Place {
    int step = 0;
    Phase phase = Phase::kForward;
    OperatorId op;
  };
  [[nodiscard]] Place place(std::uint32_t instruction) const {
    const Position p = compiled_.program.position[instruction];
    const Occurrence& o = compiled_.order.at[p];
    return {.step = o.step, .phase = compiled_.program.slot[p.index()].phase, .op = o.op};
  }
  // The operator for which a block was allocated; invalid for memory that exists from the start.
  [[nodiscard]] IdVector<BlockId, std::uint32_t> births() const;
  [[nodiscard]] LayerId layer_of(BlockId block, OperatorId born) const;
  // Memory without a storage belongs to a kernel, to cuBLAS or to the code that checkpoints.
  [[nodiscard]] std::string tensor_of(BlockId id) const {
    const Block& block = compiled_.program.blocks[id];
    if (block.storage.valid()) return graph_.storages[block.storage].name;
    if (id == compiled_.program.matmul_workspace) return "cuBLAS workspace";
    return block.role == Role::kWorkspace ? "workspace" : "random state";
  }
  [[nodiscard]] std::string reason(const RunResult& run, const Failure& failure) const;
  [[nodiscard]] std::string reason_away(Tier tier, const RunResult& run, const Failure& failure,
                                        const std::string& what) const;
  [[nodiscard]] std::vector<PartlyFreeSegment> named(
      const std::vector<PinnedSegment>& segments) const;

  const TrainingGraph& graph_;
  const Compiled& compiled_;
  const Scratch& scratch_;
};

IdVector<BlockId, std::uint32_t> Reporter::births() const {
  const StepProgram& program = compiled_.program;
  IdVector<BlockId, std::uint32_t> births(program.blocks.size(), kNoInstruction);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kAllocate) births[BlockId(program.subject[i])] = i;
  }
  return births;
}

LayerId Reporter::layer_of(BlockId block, OperatorId born) const {
  const StorageId storage = compiled_.program.blocks[block].storage;
  return storage.valid() ? graph_.storages[storage].layer : graph_.operators[born].layer;
}

PeakReport Reporter::peak(const Peak& at_peak, std::size_t largest, Duration begin) const {
  const std::uint32_t instruction = at_peak.instruction;
  PeakReport report;
  if (instruction == kNoInstruction) return report;
  const StepProgram& program = compiled_.program;
  const Place at = place(instruction);
  report.step = at.step;
  report.phase = at.phase;
  report.op = graph_.operators[at.op].name;
  report.layer = std::string(graph_.layer_name(graph_.operators[at.op].layer));
  for (std::size_t i = instruction; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute) continue;
    report.time = std::max(Duration(scratch_.started[i]) - begin, Duration(0));
    break;
  }
  const std::vector<BlockId> live = live_blocks(program, scratch_, at_peak);
  report.by_role = bytes_by_role(program, live);
  const IdVector<BlockId, std::uint32_t> born = births();
  std::map<std::string, std::int64_t> layers;
  for (BlockId block : live) {
    const Block& b = program.blocks[block];
    const OperatorId op = place(born[block]).op;
    const std::string layer(graph_.layer_name(layer_of(block, op)));
    layers[layer] += b.bytes.count;
    if (report.largest.size() == largest) continue;
    const bool initial = b.storage.valid() && graph_.storages[b.storage].initial;
    report.largest.push_back({.tensor = tensor_of(block),
                              .bytes = b.bytes.count,
                              .role = b.role,
                              .op = initial ? std::string() : graph_.operators[op].name,
                              .layer = layer});
  }
  report.by_layer.assign(layers.begin(), layers.end());
  std::stable_sort(report.by_layer.begin(), report.by_layer.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return report;
}

std::vector<PartlyFreeSegment> Reporter::named(const std::vector<PinnedSegment>& segments) const {
  const IdVector<BlockId, std::uint32_t> born = births();
  const auto larger = [&](BlockId a, BlockId b) {
    return compiled_.program.blocks[a].bytes > compiled_.program.blocks[b].bytes;
  };
  std::vector<PartlyFreeSegment> list;
  for (const PinnedSegment& segment : segments) {
    PartlyFreeSegment& named =
        list.emplace_back(PartlyFreeSegment{.size = segment.size,
                                            .free = segment.free,
                                            .largest_free = segment.largest_free,
                                            .pin_count = segment.pins.size(),
                                            .pins = {}});
    std::vector<BlockId> pins = segment.pins;
    std::stable_sort(pins.begin(), pins.end(), larger);
    pins.resize(std::min(pins.size(), kShownPins));
    for (BlockId pin : pins) {
      const Block& block = compiled_.program.blocks[pin];
      const LayerId layer = layer_of(pin, place(born[pin]).op);
      named.pins.push_back({.tensor = tensor_of(pin),
                            .bytes = block.bytes.count,
                            .role = block.role,
                            .layer = std::string(graph_.layer_name(layer))});
    }
  }
  return list;
}

Failure Reporter::failure(const RunResult& run, const OutOfMemory& memory) const {
  Failure failure;
  if (run.failed_instruction == kNoInstruction ||
      run.failed_instruction >= compiled_.program.size()) {
    failure.reason = failure.message = "the streams wait for each other";
    return failure;
  }
  const Place at = place(run.failed_instruction);
  failure.step = at.step;
  failure.phase = at.phase;
  failure.op = graph_.operators[at.op].name;
  failure.layer = std::string(graph_.layer_name(graph_.operators[at.op].layer));
  failure.requested = run.requested;
  if (run.status == RunStatus::kThrash) {
    failure.reason = failure.message = fmt::format(
        "thrashing in step {}, {}: computing evicted values again takes more than the policy's "
        "thrash_factor allows; give it more memory or another heuristic",
        failure.step, name_of(failure.phase));
  }
  if (!run.failed_block.valid()) return failure;
  // Parameters, inputs and buffers are there before the first operator runs.
  const Block& block = compiled_.program.blocks[run.failed_block];
  if (block.storage.valid() && graph_.storages[block.storage].initial) failure.op.clear();
  failure.allowed = memory.allowed;
  failure.reason = reason(run, failure);
  failure.message = memory.message.empty() ? failure.reason : memory.message;
  failure.rounded = memory.rounded;
  failure.segment = memory.segment;
  failure.device_free = memory.device_free;
  failure.largest_free = memory.largest_free;
  failure.free_in_segments = memory.free_in_segments;
  failure.partly_free = named(memory.partly_free);
  return failure;
}

// What holds pinned memory or NVMe when it has run out.
std::string Reporter::reason_away(Tier tier, const RunResult& run, const Failure& failure,
                                  const std::string& what) const {
  const BytesByRole held = held_by_role(compiled_.program, scratch_, tier, scratch_.events.size());
  std::int64_t sum = 0;
  std::string holders;
  for (std::size_t r = 0; r < held.size(); ++r) {
    sum += held[r];
    if (held[r] <= 0) continue;
    holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ", name_of(static_cast<Role>(r)),
                           format_bytes(Bytes(held[r])));
  }
  const std::string place =
      failure.op.empty() ? "before the first step"
                         : fmt::format("in step {}, {}", failure.step, name_of(failure.phase));
  return fmt::format("out of {} {}: {} for {}; {} are live{}{}",
                     tier == Tier::kHost ? "host memory" : "NVMe", place,
                     format_bytes(Bytes(run.requested)), what, format_bytes(Bytes(sum)),
                     holders.empty() ? "" : ": ", holders);
}

std::string Reporter::reason(const RunResult& run, const Failure& failure) const {
  const Block& block = compiled_.program.blocks[run.failed_block];
  const std::string what = block.storage.valid()
                               ? fmt::format("'{}'", tensor_of(run.failed_block))
                               : fmt::format("the {}", tensor_of(run.failed_block));
  const std::string limit =
      failure.allowed && run.status == RunStatus::kOutOfMemory
          ? fmt::format(", {} allowed by memory_fraction", format_bytes(Bytes(*failure.allowed)))
          : std::string();
  const Tier tier = compiled_.program.blocks[run.failed_block].tier;
  if (tier != Tier::kDevice) return reason_away(tier, run, failure, what);
  if (failure.op.empty()) {
    return fmt::format(
        "out of device memory before the first step: {} for {} ({}); {} are placed{}",
        format_bytes(Bytes(run.requested)), what, name_of(block.role),
        format_bytes(Bytes(run.live_at_failure)), limit);
  }
  return fmt::format(
      "out of device memory in step {}, {}: {} for {} of {}{}{}; {} are live, {} reserved{}",
      failure.step, name_of(failure.phase), format_bytes(Bytes(run.requested)), what, failure.layer,
      failure.layer.empty() ? "" : ": ", failure.op, format_bytes(Bytes(run.live_at_failure)),
      format_bytes(Bytes(run.reserved_at_failure)), limit);
}

std::optional<Bytes> budget_of(const AnyPolicy& policy) {
  const auto* residency = std::get_if<std::unique_ptr<ResidencyPolicy>>(&policy);
  if (residency == nullptr) return std::nullopt;
  const auto* budgeted = dynamic_cast<const Budgeted*>(residency->get());
  return budgeted != nullptr ? budgeted->budget() : std::nullopt;
}

// Of the policies that are given live bytes to stay within: the first whose step takes more.
std::optional<Failure> missed_budget(const Scenario& scenario, const PointResult& point) {
  const std::int64_t live = point.run.live.bytes;
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    const std::optional<Bytes>& budget = point.budgets[i];
    if (!budget || live <= budget->count) continue;
    Failure failure;
    failure.reason = failure.message = fmt::format(
        "{}: the budget of {} is missed by {}: {} live is the least that its plan comes to",
        scenario.policy_names[i], format_bytes(*budget), format_bytes(Bytes(live - budget->count)),
        format_bytes(Bytes(live)));
    return failure;
  }
  return std::nullopt;
}

PointStatus status_of(RunStatus status) {
  switch (status) {
    case RunStatus::kCompleted:
      return PointStatus::kFits;
    case RunStatus::kOutOfMemory:
    case RunStatus::kOutOfHostMemory:
    case RunStatus::kOutOfNvme:
      return PointStatus::kOutOfMemory;
    case RunStatus::kDeadlock:
    case RunStatus::kThrash:
      return PointStatus::kInfeasible;
  }
  return PointStatus::kError;
}

void fill_model(PointResult& point, const Scenario& scenario, const TrainedModel& model) {
  const TrainingGraph& t = model.training;
  point.name = scenario.name;
  point.parameter_count = t.parameters;
  point.trainable_parameter_count = t.trainable_parameters;
  point.operators = t.operators.size();
  point.tensors = t.tensors;
  point.forward_flops = model.forward_flops;
  point.step_flops = model.step_flops;
  point.capacity = scenario.device.hbm.capacity;
  point.context = bytes_beside_allocator(scenario);
  point.ranks = scenario.count;
  point.parameters = model.parameters;
  point.gradients = model.gradients;
  point.optimizer_state = model.optimizer_state;
  point.buffers = model.buffers;
  point.inputs = model.inputs;
  point.allocator = scenario.allocator;
  point.host_capacity = scenario.device.host.memory;
  point.nvme_capacity = scenario.device.nvme.capacity;
}

std::string context_words(const PointResult& point) {
  return point.ranks > 1 ? "the context of the framework with NCCL's buffers"
                         : "the context of the framework";
}

// The type of the matrix products, whose peak the model's operations are measured against.
DType compute_type(Precision precision) {
  const PrecisionRules& rules = rules_of(precision);
  if (rules.tf32) return DType::kTf32;
  return rules.autocast.value_or(rules.model);
}

void fill_throughput(PointResult& point, const Scenario& scenario, const TrainedModel& model) {
  const double seconds = static_cast<double>(point.run.step.count()) * 1e-9;
  if (seconds <= 0) return;
  const TrainingGraph& t = model.training;
  const double micro_batches = t.micro_batches * static_cast<double>(scenario.count);
  point.samples_per_second = static_cast<double>(t.samples) * micro_batches / seconds;
  point.tokens_per_second = static_cast<double>(t.tokens) * micro_batches / seconds;
  const DType type = matrix_type(scenario.device, compute_type(scenario.training.precision));
  const double peak = scenario.device.matrix[static_cast<std::size_t>(type)].peak.value;
  if (peak > 0) point.model_flops_utilization = model.step_flops.count / (seconds * peak);
}

// By how much the host or its disks are too small for the run as it goes with room for all. A host
// that is waited for may do with less.
void add_shortage(PointResult& point) {
  if (point.failure.empty()) return;
  Failure& failure = point.failure.front();
  const bool host = point.run.status == RunStatus::kOutOfHostMemory;
  if (!host && point.run.status != RunStatus::kOutOfNvme) return;
  const std::int64_t needed = host ? point.run.most_host : point.run.most_nvme;
  const Bytes there = host ? point.host_capacity : point.nvme_capacity;
  failure.short_of = std::max<std::int64_t>(needed - there.count, 0);
  failure.reason += fmt::format(
      "; with room for all the run takes {} and there are {}: at most {} are missing",
      format_bytes(Bytes(needed)), format_bytes(there), format_bytes(Bytes(failure.short_of)));
  failure.message = failure.reason;
}

}  // namespace

PointResult simulate(const Scenario& scenario, const TrainedModel& model,
                     const SimulateOptions& options, PointDetail* detail) {
  return simulate(scenario, model, compile(scenario, model), options, detail);
}

PointResult simulate(const Scenario& scenario, const TrainedModel& model, Compiled compiled,
                     const SimulateOptions& options, PointDetail* detail) {
  PointResult point;
  fill_model(point, scenario, model);
  point.policies = compiled.policies;
  for (const AnyPolicy& policy : scenario.policies)
    point.budgets.push_back(budget_of(policy));
  point.saved_activations = sum_of(model.training, compiled.saved);
  point.passes = model.passes;
  point.passes.insert(point.passes.end(), compiled.passes.begin(), compiled.passes.end());

  const Bytes usable = point.capacity - point.context;
  Scratch scratch;
  OutOfMemory memory;
  point.run = run_compiled(scenario, compiled, scratch, usable, true, &memory);
  point.status = status_of(point.run.status);
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    if (!std::holds_alternative<std::unique_ptr<EvictionPolicy>>(scenario.policies[i])) continue;
    point.policies[i].decided = point.run.evictions;
    point.policies[i].recomputed_operators = point.run.restores;
  }
  // A run that has retried or evicted says less than it would have liked to take.
  const bool squeezed = point.run.retries > 0 || point.run.evictions > 0;
  RunResult unlimited = point.run;
  if (point.status == PointStatus::kFits) {
    fill_throughput(point, scenario, model);
  } else {
    point.failure.push_back(Reporter(model, compiled, scratch).failure(point.run, memory));
    if (point.context > point.capacity) {
      Failure& failure = point.failure.front();
      failure.reason =
          fmt::format("{} alone, {}, does not fit into the {} of the device", context_words(point),
                      format_bytes(point.context), format_bytes(point.capacity));
      failure.message = failure.reason;
    }
    // What it would need: the same program with memory without end. Of the run that failed only
    // what a limit causes stays, beside `failure`: see result_document.hpp.
    const RunResult failed = point.run;
    point.run = run_compiled(scenario, compiled, scratch, kUnlimited, true);
    unlimited = point.run;
    point.run.status = failed.status;
    point.run.failed_instruction = failed.failed_instruction;
    point.run.failed_block = failed.failed_block;
    point.run.requested = failed.requested;
    point.run.retries = failed.retries;
    point.run.ooms = failed.ooms;
    point.run.evictions = failed.evictions;
    add_shortage(point);
    point.run.live_at_failure = failed.live_at_failure;
    point.run.reserved_at_failure = failed.reserved_at_failure;
  }
  for (const PolicyOutcome& outcome : point.policies) {
    if (!outcome.plan || outcome.plan->infeasible.empty()) continue;
    // Its figures are those of the plan that comes nearest.
    const bool proven = outcome.plan->status == "infeasible";
    point.status = PointStatus::kInfeasible;
    Failure failure;
    failure.reason = failure.message =
        fmt::format("{}: {} within the budget of {}: {}", outcome.name,
                    proven ? "no plan fits" : "found no plan that fits",
                    format_bytes(Bytes(outcome.plan->budget)), outcome.plan->infeasible);
    point.failure.assign(1, std::move(failure));
  }
  if (point.status == PointStatus::kFits) {
    std::optional<Failure> missed = missed_budget(scenario, point);
    if (missed) {
      point.status = PointStatus::kInfeasible;
      point.failure.assign(1, *std::move(missed));
    }
  }
  point.host_by_role = held_by_role(compiled.program, scratch, Tier::kHost, point.run.host.events);
  point.convergence = find_convergence(scenario, model, compiled, scratch,
                                       point.status == PointStatus::kFits ? usable : kUnlimited,
                                       options.convergence_limit);
  MemoryTimeline timeline = memory_timeline(compiled.program, scratch);
  point.peak = Reporter(model, compiled, scratch)
                   .peak(point.run.live, options.largest_tensors, timeline.last_step_begin);
  const std::uint32_t without_workspace = point.run.live_without_workspace.instruction;
  if (without_workspace != kNoInstruction) {
    const Position at = compiled.program.position[without_workspace];
    point.phase_without_workspace = compiled.program.slot[at.index()].phase;
  }
  if (options.smallest_capacity) {
    if (point.run.status == RunStatus::kCompleted && squeezed) {
      Scratch other;
      unlimited = run_compiled(scenario, compiled, other, kUnlimited, false);
    }
    // What the host lacks no device makes up for.
    const bool host_lacks = point.run.status == RunStatus::kOutOfHostMemory ||
                            point.run.status == RunStatus::kOutOfNvme;
    // A plan that misses its budget may run on this device all the same.
    const bool ran = point.run.status == RunStatus::kCompleted;
    point.smallest_capacity = host_lacks ? 0
                                         : smallest_capacity(scenario, compiled, point.context,
                                                             unlimited, ran ? Bytes(0) : usable);
    if (ran) {
      point.smallest_capacity = std::min(point.smallest_capacity, point.capacity.count);
    }
  }
  if (detail != nullptr) {
    detail->timeline = std::move(timeline);
    detail->compiled = std::move(compiled);
    detail->scratch = std::move(scratch);
  }
  return point;
}

}  // namespace tidemark
