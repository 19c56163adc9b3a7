#include "plots/timeline_csv.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "graph/core/csv.hpp"

namespace tidemark {
namespace timeline_csv_detail {
namespace {

// Whether an operator drops or fills the gradients of the step before.
IdVector<OperatorId, char> zero_grad_operators(const TrainingGraph& graph) {
  IdVector<OperatorId, char> found(graph.operators.size(), 0);
  for (const StepPart& part : graph.parts.all()) {
    if (part.kind != PartKind::kZeroGrad) continue;
    for (const OperatorId id : part.operators)
      found[id] = 1;
  }
  return found;
}

}  // namespace
}  // namespace timeline_csv_detail

void write_timeline_csv(std::ostream& out, const TrainingGraph& graph, const ProgramOrder& order,
                        const StepProgram& program, const MemoryTimeline& timeline) {
  out << "time_ns,step,phase,operator,layer,tensor,event,bytes,live,active,reserved";
  for (int r = 0; r < kRoles; ++r)
    out << ',' << name_of(static_cast<Role>(r));
  out << '\n';
  const IdVector<OperatorId, char> zeroes = timeline_csv_detail::zero_grad_operators(graph);
  BytesByRole live{};
  fmt::memory_buffer line;
  for (const TimelinePoint& point : timeline.points) {
    const Allocation& allocation = program.allocations[point.allocation];
    live[static_cast<std::size_t>(allocation.role)] += point.sign * allocation.bytes;
    // Restores of evicted allocations may come after the program's last instruction.
    const std::size_t instruction = std::min<std::size_t>(point.instruction, program.size() - 1);
    const Position position = program.position[instruction];
    const Occurrence& occurrence = order.at[position];
    const Operator& op = graph.operators[occurrence.op];
    const std::string_view tensor = allocation.storage.valid()
                                        ? std::string_view(graph.storages[allocation.storage].name)
                                        : "workspace";
    // A storage that exists from the start was made by no operator.
    const bool made = !allocation.storage.valid() || !graph.storages[allocation.storage].initial;
    const std::string_view phase = made && zeroes[occurrence.op] != 0
                                       ? name_of(PartKind::kZeroGrad)
                                       : name_of(program.slot[position.index()].phase);
    line.clear();
    fmt::format_to(std::back_inserter(line), "{},{},{},{},{},{},{},{},{},{},{}", point.time.count(),
                   occurrence.step, phase, made ? csv_field(op.name) : "",
                   csv_field(graph.layer_name(op.layer)), csv_field(tensor),
                   point.sign > 0   ? "allocate"
                   : point.sign < 0 ? "free"
                                    : "return",
                   allocation.bytes.count, point.live.count, point.active.count,
                   point.reserved.count);
    for (const Bytes bytes : live)
      fmt::format_to(std::back_inserter(line), ",{}", bytes.count);
    line.push_back('\n');
    out.write(line.data(), static_cast<std::streamsize>(line.size()));
  }
}

}  // namespace tidemark
