#include "plots/torch_snapshot.hpp"

#include <algorithm>
#include <unordered_map>

#include "graph/core/errors.hpp"
#include "plots/pickle_writer.hpp"

namespace tidemark {
namespace torch_snapshot_detail {
namespace {

// The first simulated address: readers take 0 for none.
constexpr Bytes kFirstAddress{std::int64_t{0x7f} << 40};

// The viewer's name for all other categories. It fails on a trace with categories but without this
// one.
constexpr std::string_view kUnknown = "unknown";

// Returns torch.profiler's names, in lower case as _memory_viz.py writes them.
std::string_view category_of(Role role) {
  switch (role) {
    case Role::kParameter:
    case Role::kGatheredParameter:
    case Role::kFrozenParameter:
    case Role::kQuantisedParameter:
    case Role::kAdapter:
    case Role::kTeacher:
      return "parameter";
    case Role::kGradient:
    case Role::kGradientBucket:
      return "gradient";
    case Role::kOptimizerState:
      return "optimizer_state";
    case Role::kInput:
    case Role::kLoader:
      return "input";
    case Role::kSavedActivation:
      return "activation";
    case Role::kActivationGradient:
      return "autograd_detail";
    case Role::kTemporary:
    case Role::kKeyValueCache:
    case Role::kCommunication:
      return "temporary";
    case Role::kBuffer:
    case Role::kWorkspace:
      return kUnknown;
  }
  return kUnknown;
}

class SnapshotWriter {
 public:
  SnapshotWriter(std::ostream& out, const TrainingGraph& graph, const ProgramOrder& order,
                 const StepProgram& program, const MemoryTimeline& timeline,
                 const TorchRecorder& recorder);
  void write();

 private:
  void segment(const TorchSegment& segment);
  void block(const TorchBlock& block);
  void trace();
  void entry(const TorchTraceEntry& entry, std::int64_t microseconds);
  void frames(AllocationId id);
  void frame(std::string_view name, std::string_view file, std::int64_t line);
  void text_entry(std::string_view key, std::string_view value) {
    pickle_.key(key);
    pickle_.word(value);
  }
  void integer_entry(std::string_view key, std::int64_t value) {
    pickle_.key(key);
    pickle_.integer(value);
  }
  void integer_entry(std::string_view key, Bytes value) { integer_entry(key, value.count); }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const StepProgram& program_;
  const MemoryTimeline& timeline_;
  const TorchRecorder& recorder_;
  PickleWriter pickle_;
  IdVector<AllocationId, std::uint32_t> allocated_at_;  // the instruction that allocates
  std::unordered_map<const TorchBlock*, AllocationId> owners_;
};

SnapshotWriter::SnapshotWriter(std::ostream& out, const TrainingGraph& graph,
                               const ProgramOrder& order, const StepProgram& program,
                               const MemoryTimeline& timeline, const TorchRecorder& recorder)
    : graph_(graph),
      order_(order),
      program_(program),
      timeline_(timeline),
      recorder_(recorder),
      pickle_(out),
      allocated_at_(program.allocations.size(), kNoInstruction) {
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kAllocate) allocated_at_[AllocationId(program.subject[i])] = i;
  }
  for (AllocationId id : ids_of(program.allocations)) {
    if (const TorchBlock* given = recorder.torch().given(id)) owners_.emplace(given, id);
  }
}

void SnapshotWriter::frame(std::string_view name, std::string_view file, std::int64_t line) {
  pickle_.begin_item();
  pickle_.begin_dict();
  pickle_.key("name");
  pickle_.text(name);
  pickle_.key("filename");
  pickle_.text(file);
  integer_entry("line", line);
  pickle_.end_dict();
}

// Writes the frames of an allocation, innermost first as Python's.
void SnapshotWriter::frames(AllocationId id) {
  pickle_.key("frames");
  pickle_.begin_list();
  if (id.valid()) {
    const Allocation& block = program_.allocations[id];
    const Position position = program_.position[allocated_at_[id]];
    const Occurrence& at = order_.at[position];
    const Operator& op = graph_.operators[at.op];
    const Storage* storage = block.storage.valid() ? &graph_.storages[block.storage] : nullptr;
    const std::string_view layer =
        graph_.layer_name(storage != nullptr ? storage->layer : op.layer);
    frame(storage != nullptr ? std::string_view(storage->name) : "workspace", name_of(block.role),
          0);
    const bool made = storage == nullptr || !storage->initial;
    frame(made ? std::string_view(op.name) : "initial", layer.empty() ? "model" : layer, 0);
    frame(name_of(program_.slot[position.index()].phase), "step", at.step);
  }
  pickle_.end_list();
}

void SnapshotWriter::block(const TorchBlock& block) {
  const auto owner = owners_.find(&block);
  pickle_.begin_item();
  pickle_.begin_dict();
  integer_entry("address", kFirstAddress + block.address);
  integer_entry("size", block.size);
  integer_entry("requested_size", block.is_idle() ? Bytes(0) : block.requested);
  text_entry("state", block.allocated   ? "active_allocated"
                      : block.is_idle() ? "inactive"
                                        : "active_pending_free");
  frames(owner == owners_.end() ? AllocationId() : owner->second);
  pickle_.end_dict();
}

void SnapshotWriter::segment(const TorchSegment& segment) {
  Bytes requested;
  for (const TorchBlock* piece : segment.blocks)
    requested += piece->is_idle() ? Bytes(0) : piece->requested;
  pickle_.begin_item();
  pickle_.begin_dict();
  integer_entry("device", 0);
  integer_entry("address", kFirstAddress + segment.address);
  integer_entry("total_size", segment.size);
  integer_entry("allocated_size", segment.allocated);
  integer_entry("active_size", segment.active);
  integer_entry("requested_size", requested);
  integer_entry("stream", recorder_.torch().core().handle(segment.stream));
  text_entry("segment_type", segment.large ? "large" : "small");
  pickle_.key("segment_pool_id");
  pickle_.pair(0, recorder_.torch().core().is_private(segment.stream) ? 1 : 0);
  pickle_.key("is_expandable");
  pickle_.boolean(segment.expandable);
  pickle_.key("frames");
  pickle_.begin_list();
  pickle_.end_list();
  pickle_.key("blocks");
  pickle_.begin_list();
  for (const TorchBlock* piece : segment.blocks)
    block(*piece);
  pickle_.end_list();
  pickle_.end_dict();
}

void SnapshotWriter::entry(const TorchTraceEntry& entry, std::int64_t microseconds) {
  const bool oom = entry.action == TorchTraceAction::kOutOfMemory;
  pickle_.begin_item();
  pickle_.begin_dict();
  text_entry("action", name_of(entry.action));
  integer_entry(oom ? "device_free" : "addr", oom ? entry.address : kFirstAddress + entry.address);
  integer_entry("size", entry.size);
  integer_entry("stream", 0);
  integer_entry("time_us", microseconds);
  text_entry("category", entry.allocation.valid()
                             ? category_of(program_.allocations[entry.allocation].role)
                             : kUnknown);
  // _record_memory_history(context="state") does the same: the viewer shows the stack of the
  // allocation.
  if (entry.action == TorchTraceAction::kAlloc) frames(entry.allocation);
  pickle_.end_dict();
}

// Entries about blocks come in the order of the timeline's points; entries about segments belong to
// the call after them.
void SnapshotWriter::trace() {
  const std::vector<TorchTraceEntry>& entries = recorder_.entries();
  std::vector<std::int64_t> times(entries.size());
  const auto sign_of = [](TorchTraceAction action) {
    return action == TorchTraceAction::kAlloc           ? 1
           : action == TorchTraceAction::kFreeRequested ? -1
                                                        : 0;
  };
  auto point = timeline_.points.begin();
  // The entry before asks for this free, if any: one that nothing delays is one point and two
  // entries.
  AllocationId freed;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const TorchTraceEntry& entry = entries[e];
    times[e] = -1;
    const bool completes =
        entry.action == TorchTraceAction::kFreeCompleted && entry.allocation == freed;
    freed = entry.action == TorchTraceAction::kFreeRequested ? entry.allocation : AllocationId();
    if (!entry.allocation.valid()) continue;
    if (completes) {
      times[e] = times[e - 1];
      continue;
    }
    while (point != timeline_.points.end() &&
           (point->allocation != entry.allocation || point->sign != sign_of(entry.action))) {
      ++point;
    }
    if (point == timeline_.points.end()) {
      throw InternalError("the allocator's trace and the timeline are not of the same run");
    }
    times[e] = std::chrono::duration_cast<std::chrono::microseconds>(point->time).count();
    ++point;
  }
  std::int64_t next = std::chrono::duration_cast<std::chrono::microseconds>(timeline_.end).count();
  for (std::size_t e = entries.size(); e-- > 0;) {
    if (times[e] < 0) times[e] = next;
    next = times[e];
  }
  pickle_.begin_list();
  for (std::size_t e = 0; e < entries.size(); ++e)
    entry(entries[e], times[e]);
  pickle_.end_list();
}

void SnapshotWriter::write() {
  pickle_.begin_dict();
  pickle_.key("segments");
  pickle_.begin_list();
  for (const TorchSegment& segment : recorder_.torch().core().segments())
    this->segment(segment);
  pickle_.end_list();
  pickle_.key("device_traces");
  pickle_.begin_list();
  pickle_.begin_item();
  trace();
  pickle_.end_list();
  pickle_.end_dict();
  pickle_.finish();
}

}  // namespace
}  // namespace torch_snapshot_detail

void write_torch_snapshot(std::ostream& out, const TrainingGraph& graph, const ProgramOrder& order,
                          const StepProgram& program, const MemoryTimeline& timeline,
                          const TorchRecorder& recorder) {
  torch_snapshot_detail::SnapshotWriter(out, graph, order, program, timeline, recorder).write();
}

}  // namespace tidemark
