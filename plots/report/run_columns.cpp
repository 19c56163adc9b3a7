#include "plots/report/run_columns.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/analysis/module_names.hpp"
#include "graph/core/errors.hpp"
#include "plots/report/address_columns.hpp"
#include "plots/report/column_file.hpp"
#include "sim/engine/waits.hpp"

namespace tidemark {
namespace run_columns_detail {
namespace {

using Json = nlohmann::ordered_json;

// Distinct texts, each with its number.
class Names {
 public:
  std::int64_t operator()(std::string_view text) {
    const auto [entry, added] = numbers_.try_emplace(text, numbers_.size());
    if (added) list_.push_back(text);
    return static_cast<std::int64_t>(entry->second);
  }
  [[nodiscard]] const Json& list() const { return list_; }

 private:
  std::unordered_map<std::string_view, std::size_t> numbers_;  // views of the graph's names
  Json list_ = Json::array();
};

template <class Tag>
std::int64_t reference(Id<Tag> id) {
  return id.valid() ? static_cast<std::int64_t>(id.value) + 1 : 0;
}

// References to layers, and to what stands for one outside of all layers: "loss", "inputs".
class Modules {
 public:
  explicit Modules(const TrainingGraph& graph) : graph_(graph), names_(graph) {}
  std::int64_t of(OperatorId op) {
    const LayerId layer = graph_.operators[op].layer;
    return layer.valid() ? reference(layer) : outside(names_.of(op));
  }
  std::int64_t of(StorageId storage) {
    const LayerId layer = graph_.storages[storage].layer;
    return layer.valid() ? reference(layer) : outside(names_.of(storage));
  }
  // Returns [name, block] of all that references have been taken to.
  [[nodiscard]] Json list() const {
    Json list = Json::array();
    for (const Layer& layer : graph_.layers)
      list.push_back({layer.name, layer.block});
    for (const std::string_view name : outside_)
      list.push_back({name, kNoBlock});
    return list;
  }

 private:
  std::int64_t outside(std::string_view name) {
    if (name.empty()) return 0;
    auto at = std::find(outside_.begin(), outside_.end(), name);
    if (at == outside_.end()) at = outside_.insert(at, name);
    return static_cast<std::int64_t>(graph_.layers.size()) + (at - outside_.begin()) + 1;
  }

  const TrainingGraph& graph_;
  ModuleNames names_;
  std::vector<std::string_view> outside_;  // few: families of operators at most
};

void add_operators(ColumnFile& file, Names& names, Modules& modules, const ReportedRun& run) {
  ColumnWriter name(true);
  ColumnWriter layer(true);
  ColumnWriter phase;
  for (const OperatorId id : ids_of(run.graph.operators)) {
    const Operator& op = run.graph.operators[id];
    name.add(names(op.name));
    layer.add(modules.of(id));
    phase.add(static_cast<std::int64_t>(op.phase));
  }
  file.add("operator.name", name);
  file.add("operator.layer", layer);
  file.add("operator.phase", phase);

  ColumnWriter of(true);
  ColumnWriter step(true);
  ColumnWriter recompute;
  ColumnWriter slot_phase;
  for (std::size_t p = 0; p < run.order.at.size(); ++p) {
    const Occurrence& occurrence = run.order.at[Position(p)];
    of.add(static_cast<std::int64_t>(occurrence.op.value));
    step.add(occurrence.step);
    recompute.add(run.program.slot[p].recompute ? 1 : 0);
    slot_phase.add(static_cast<std::int64_t>(run.program.slot[p].phase));
  }
  file.add("position.operator", of);
  file.add("position.step", step);
  file.add("position.recompute", recompute);
  file.add("position.phase", slot_phase);
}

// Names the tensor of an allocation. Memory without a storage belongs to a kernel, to cuBLAS or to
// the code that checkpoints.
std::string_view name_of_allocation(const ReportedRun& run, AllocationId id) {
  const Allocation& allocation = run.program.allocations[id];
  if (allocation.storage.valid()) return run.graph.storages[allocation.storage].name;
  if (id == run.program.matmul_workspace) return "cuBLAS workspace";
  return allocation.role == Role::kWorkspace ? "workspace" : "random state";
}

// Returns the operator whose content an allocation holds: the one that creates its storage, also
// where it was allocated to fetch that back; for a workspace the operator that it is allocated for.
IdVector<AllocationId, OperatorId> makers(const ReportedRun& run) {
  const StepProgram& program = run.program;
  IdVector<StorageId, OperatorId> created_by(run.graph.storages.size());
  for (OperatorId op : ids_of(run.graph.operators)) {
    for (const Touch& touch : run.graph.touches_of(op)) {
      if (touch.access != Access::kCreate || created_by[touch.storage].valid()) continue;
      created_by[touch.storage] = op;
    }
  }
  IdVector<AllocationId, OperatorId> made_by(program.allocations.size());
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kAllocate) continue;
    const AllocationId allocation(program.subject[i]);
    const StorageId storage = program.allocations[allocation].storage;
    const OperatorId creator = storage.valid() ? created_by[storage] : OperatorId();
    made_by[allocation] = creator.valid() ? creator : run.order.at[program.position[i]].op;
  }
  return made_by;
}

void add_allocations(ColumnFile& file, Names& names, Modules& modules, const ReportedRun& run) {
  const StepProgram& program = run.program;
  const IdVector<AllocationId, OperatorId> made_by = makers(run);
  ColumnWriter name(true);
  ColumnWriter bytes;
  ColumnWriter role;
  ColumnWriter layer(true);
  ColumnWriter op(true);
  for (AllocationId id : ids_of(program.allocations)) {
    const Allocation& allocation = program.allocations[id];
    const Storage* storage =
        allocation.storage.valid() ? &run.graph.storages[allocation.storage] : nullptr;
    const OperatorId maker = made_by[id];
    const bool made = maker.valid() && (storage == nullptr || !storage->initial);
    name.add(names(name_of_allocation(run, id)));
    bytes.add(allocation.bytes.count);
    role.add(static_cast<std::int64_t>(allocation.role));
    layer.add(storage != nullptr ? modules.of(allocation.storage) : made ? modules.of(maker) : 0);
    op.add(made ? reference(maker) : 0);
  }
  file.add("block.name", name);
  file.add("block.bytes", bytes);
  file.add("block.role", role);
  file.add("block.layer", layer);
  file.add("block.operator", op);
}

// Returns the position of an instruction. Restores of evicted allocations may come after the
// program's last instruction.
Position position_of(const StepProgram& program, std::uint32_t instruction) {
  return program.position[std::min<std::size_t>(instruction, program.size() - 1)];
}

void add_points(ColumnFile& file, const ReportedRun& run) {
  ColumnWriter time(true);
  ColumnWriter block(true);
  ColumnWriter sign;
  ColumnWriter active(true);
  ColumnWriter reserved(true);
  ColumnWriter position(true);
  for (const TimelinePoint& point : run.timeline.points) {
    time.add(point.time.count());
    block.add(static_cast<std::int64_t>(point.allocation.value));
    sign.add(point.sign);
    active.add(point.active.count);
    reserved.add(point.reserved.count);
    position.add(static_cast<std::int64_t>(position_of(run.program, point.instruction).value));
  }
  file.add("point.time", time);
  file.add("point.block", block);
  file.add("point.sign", sign);
  file.add("point.active", active);
  file.add("point.reserved", reserved);
  file.add("point.position", position);
}

// Stretches of time in which the compute stream stood still, and the stream that each was for: the
// engine's own accounting (host_bound, exposed), one stretch at a time.
struct WaitColumns {
  ColumnWriter begin{true};
  ColumnWriter duration;
  ColumnWriter cause;
  ColumnWriter position{true};

  // Adds the stretches before instruction `i`, from the moment on at which the stream was free.
  void add_before(const ReportedRun& run, std::uint32_t i, std::int64_t free_since) {
    const std::int64_t started = run.scratch.started[i];
    const auto add = [&](std::int64_t from, std::int64_t to, std::size_t stream) {
      begin.add(from);
      duration.add(to - from);
      cause.add(static_cast<std::int64_t>(stream));
      position.add(static_cast<std::int64_t>(run.program.position[i].value));
    };
    const std::int64_t issued = std::clamp(run.scratch.enqueued[i], free_since, started);
    if (issued > free_since) add(free_since, issued, kStreams);
    std::int64_t until = started;  // the stretches are walked backwards
    trace_wait(run.program, run.scratch, i, issued, started,
               [&](std::uint32_t waited_for, std::int64_t lost) {
                 add(until - lost, until, run.program.stream[waited_for]);
                 until -= lost;
               });
  }
  void write(ColumnFile& file) const {
    file.add("wait.begin", begin);
    file.add("wait.duration", duration);
    file.add("wait.cause", cause);
    file.add("wait.position", position);
  }
};

// Columns with a row per launch or copy that has started.
struct WorkColumns {
  ColumnWriter start{true};
  ColumnWriter duration;
  ColumnWriter stream;
  ColumnWriter kind;
  ColumnWriter position{true};
  ColumnWriter block;
  ColumnWriter enqueued{true};
  ColumnWriter dispatch;
  ColumnWriter restored;

  void add(const ReportedRun& run, std::size_t i);
  void write(ColumnFile& file) const;
};

// Returns the number of an opcode in work.kind, -1 where it is no work.
int kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kLaunch:
      return 0;
    case Opcode::kCopyOut:
      return 1;
    case Opcode::kCopyIn:
      return 2;
    case Opcode::kNvmeRead:
      return 3;
    case Opcode::kNvmeWrite:
      return 4;
    default:
      return -1;
  }
}

void WorkColumns::add(const ReportedRun& run, std::size_t i) {
  const StepProgram& program = run.program;
  const Opcode opcode = program.opcode[i];
  const bool copy = opcode != Opcode::kLaunch;
  const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
  start.add(run.scratch.started[i]);
  duration.add(std::max<std::int64_t>(run.scratch.finished[i] - run.scratch.started[i], 0));
  stream.add(program.stream[i]);
  kind.add(kind_of(opcode));
  position.add(static_cast<std::int64_t>(program.position[i].value));
  block.add(copy ? static_cast<std::int64_t>(program.subject[i]) + 1 : 0);
  enqueued.add(run.scratch.enqueued[i]);
  dispatch.add(copy ? run.costs.copy_dispatch.count()
                    : run.costs.dispatch[OperatorId(program.subject[i])].count());
  restored.add(compute && !run.scratch.restored.empty() ? run.scratch.restored[i] : 0);
}

void WorkColumns::write(ColumnFile& file) const {
  file.add("work.start", start);
  file.add("work.duration", duration);
  file.add("work.stream", stream);
  file.add("work.kind", kind);
  file.add("work.position", position);
  file.add("work.block", block);
  file.add("work.enqueued", enqueued);
  file.add("work.dispatch", dispatch);
  file.add("work.restored", restored);
}

void add_work(ColumnFile& file, const ReportedRun& run) {
  const StepProgram& program = run.program;
  WorkColumns work;
  WaitColumns waits;
  std::int64_t free_since = 0;  // since when the compute stream is free
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (run.scratch.started[i] < 0) continue;
    const bool works = kind_of(program.opcode[i]) >= 0;
    if (!works && program.opcode[i] != Opcode::kWait) continue;
    if (program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute)) {
      waits.add_before(run, i, free_since);
      free_since = std::max(run.scratch.finished[i], run.scratch.started[i]);
    }
    if (works) work.add(run, i);
  }
  work.write(file);
  waits.write(file);
}

}  // namespace
}  // namespace run_columns_detail

std::string run_columns(const ReportedRun& run) {
  ColumnFile file;
  run_columns_detail::Names names;
  run_columns_detail::Modules modules(run.graph);
  run_columns_detail::add_operators(file, names, modules, run);
  run_columns_detail::add_allocations(file, names, modules, run);
  run_columns_detail::add_points(file, run);
  run_columns_detail::add_work(file, run);
  add_addresses(file, run);
  run_columns_detail::Json streams = run_columns_detail::Json::array();
  for (std::size_t s = 0; s < kStreams; ++s)
    streams.push_back(name_of(static_cast<Stream>(s)));
  run_columns_detail::Json phases = run_columns_detail::Json::array();
  for (int p = 0; p < kPhases; ++p)
    phases.push_back(name_of(static_cast<Phase>(p)));
  return std::move(file).text({{"names", names.list()},
                               {"layers", modules.list()},
                               {"streams", std::move(streams)},
                               {"phases", std::move(phases)},
                               {"steps", run.order.steps},
                               {"last_step_begin", run.timeline.last_step_begin.count()},
                               {"end", run.timeline.end.count()}});
}

}  // namespace tidemark
