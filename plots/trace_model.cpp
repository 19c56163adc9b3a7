#include "plots/trace_model.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace tidemark {
namespace trace_model_detail {
namespace {

constexpr std::size_t kNoSlice = std::numeric_limits<std::size_t>::max();

class TraceBuilder {
 public:
  TraceBuilder(const TrainingGraph& graph, const ProgramOrder& order, const StepProgram& program,
               const CostTable& costs, const Scratch& scratch, const MemoryTimeline& timeline)
      : graph_(graph),
        order_(order),
        program_(program),
        costs_(costs),
        scratch_(scratch),
        timeline_(timeline) {}
  [[nodiscard]] TraceModel build() {
    slices();
    recompute_flows();
    copy_flows();
    spans();
    memory();
    return std::move(model_);
  }

 private:
  void slices();
  void recompute_flows();
  void copy_flows();
  void spans();
  void memory();
  void flow(FlowKind kind, std::size_t from, std::size_t to) {
    if (from != kNoSlice && to != kNoSlice) model_.flows.push_back({kind, from, to});
  }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const StepProgram& program_;
  const CostTable& costs_;
  const Scratch& scratch_;
  const MemoryTimeline& timeline_;
  TraceModel model_;
};

void TraceBuilder::slices() {
  for (std::uint32_t i = 0; i < program_.size(); ++i) {
    const Opcode opcode = program_.opcode[i];
    const bool launch = opcode == Opcode::kLaunch;
    if (!launch && opcode != Opcode::kCopyOut && opcode != Opcode::kCopyIn) continue;
    if (scratch_.started[i] < 0 || scratch_.finished[i] < 0) continue;
    const Position at = program_.position[i];
    const Occurrence& occurrence = order_.at[at];
    TraceSlice slice{.instruction = i,
                     .stream = static_cast<Stream>(program_.stream[i]),
                     .opcode = opcode,
                     .phase = program_.slot[at.index()].phase,
                     .recompute = launch && occurrence.recompute,
                     .step = occurrence.step,
                     .op = occurrence.op,
                     .begin = Duration(scratch_.started[i]),
                     .end = Duration(scratch_.finished[i]),
                     .host_end = Duration(scratch_.enqueued[i])};
    if (launch && i < scratch_.restored.size()) {
      slice.restored = std::min(Duration(scratch_.restored[i]), slice.end - slice.begin);
    }
    slice.begin += slice.restored;
    const Duration dispatch =
        launch ? costs_.dispatch[OperatorId(program_.subject[i])] : costs_.copy_dispatch;
    slice.host_begin = slice.host_end - dispatch;
    if (!launch) slice.allocation = AllocationId(program_.subject[i]);
    model_.slices.push_back(slice);
  }
}

void TraceBuilder::recompute_flows() {
  // The launch of an operator in a step and micro-batch when the program ran it, not a repetition.
  std::vector<std::map<std::pair<int, int>, std::size_t>> first(graph_.operators.size());
  for (std::size_t s = 0; s < model_.slices.size(); ++s) {
    const TraceSlice& slice = model_.slices[s];
    if (slice.opcode != Opcode::kLaunch) continue;
    const Occurrence& at = order_.at[program_.position[slice.instruction]];
    auto& of_operator = first[at.op.index()];
    if (!at.recompute) {
      of_operator[{at.step, at.micro_batch}] = s;
      continue;
    }
    const auto found = of_operator.find({at.step, at.micro_batch});
    if (found != of_operator.end()) flow(FlowKind::kRecompute, found->second, s);
  }
}

void TraceBuilder::copy_flows() {
  IdVector<AllocationId, std::size_t> copied_out(program_.allocations.size(),
                                                 kNoSlice);  // by host allocation
  IdVector<AllocationId, std::size_t> brought(program_.allocations.size(),
                                              kNoSlice);  // by device allocation
  for (std::size_t s = 0; s < model_.slices.size(); ++s) {
    const TraceSlice& slice = model_.slices[s];
    for (const AllocationUse use : program_.uses_of(slice.instruction)) {
      const bool on_host = program_.allocations[use.allocation()].tier == Tier::kHost;
      if (slice.opcode == Opcode::kCopyOut) {
        if (on_host) copied_out[use.allocation()] = s;
      } else if (slice.opcode == Opcode::kCopyIn) {
        if (on_host) {
          flow(FlowKind::kFetch, copied_out[use.allocation()], s);
        } else {
          brought[use.allocation()] = s;
        }
      } else if (brought[use.allocation()] != kNoSlice) {
        flow(FlowKind::kUse, brought[use.allocation()], s);
        brought[use.allocation()] = kNoSlice;
      }
    }
  }
}

// Adds steps and phases from their first kernel to their last.
void TraceBuilder::spans() {
  std::size_t step = kNoSlice;  // the open spans
  std::size_t phase = kNoSlice;
  for (const TraceSlice& slice : model_.slices) {
    if (slice.stream != Stream::kCompute) continue;
    std::vector<TraceSpan>& spans = model_.spans;
    const Duration begin = slice.begin - slice.restored;
    if (step == kNoSlice || spans[step].step != slice.step) {
      step = spans.size();
      spans.push_back({.step = slice.step, .whole_step = true, .begin = begin});
      phase = kNoSlice;
    }
    if (phase == kNoSlice || spans[phase].phase != slice.phase) {
      phase = spans.size();
      spans.push_back({.step = slice.step, .phase = slice.phase, .begin = begin});
    }
    spans[step].end = spans[phase].end = slice.end;
  }
}

void TraceBuilder::memory() {
  TraceCounter now;
  bool any = false;
  TraceCounter highest;  // highest state of this instant
  const auto flush = [&] {
    if (!any) return;
    if (highest.live > now.live) model_.counters.push_back(highest);
    model_.counters.push_back(now);
  };
  IdVector<AllocationId, std::size_t> open(program_.allocations.size(), kNoSlice);
  for (const TimelinePoint& point : timeline_.points) {
    if (any && point.time != now.time) {
      flush();
      highest = {};
    }
    const Allocation& allocation = program_.allocations[point.allocation];
    now.by_role[static_cast<std::size_t>(allocation.role)] += point.sign * allocation.bytes;
    now.time = point.time;
    now.live = point.live;
    now.reserved = point.reserved;
    any = true;
    if (now.live > highest.live) highest = now;
    if (point.sign > 0) {
      open[point.allocation] = model_.lifetimes.size();
      model_.lifetimes.push_back({point.allocation, point.time, timeline_.end});
    } else if (point.sign < 0 && open[point.allocation] != kNoSlice) {
      model_.lifetimes[open[point.allocation]].end = point.time;
      open[point.allocation] = kNoSlice;
    }
  }
  flush();
}

}  // namespace
}  // namespace trace_model_detail

TraceModel trace_model(const TrainingGraph& graph, const ProgramOrder& order,
                       const StepProgram& program, const CostTable& costs, const Scratch& scratch,
                       const MemoryTimeline& timeline) {
  return trace_model_detail::TraceBuilder(graph, order, program, costs, scratch, timeline).build();
}

std::string_view allocation_name(const TrainingGraph& graph, const StepProgram& program,
                                 AllocationId allocation) {
  const Allocation& b = program.allocations[allocation];
  if (b.storage.valid()) return graph.storages[b.storage].name;
  return allocation == program.matmul_workspace ? "cuBLAS workspace" : "workspace";
}

}  // namespace tidemark
