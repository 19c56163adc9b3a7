#include "sim/result/communication.hpp"

#include <array>
#include <cmath>
#include <cstddef>

namespace tidemark {
namespace communication_detail {
namespace {

using ByKind = std::array<Communication, kCollectiveKinds>;

void share_exposed(ByKind& kinds, Duration exposed) {
  Duration busy{};
  for (const Communication& kind : kinds)
    busy += kind.busy;
  if (busy.count() == 0) return;
  for (Communication& kind : kinds) {
    const double share = static_cast<double>(kind.busy.count()) / static_cast<double>(busy.count());
    kind.exposed = Duration(std::llround(share * static_cast<double>(exposed.count())));
  }
}

}  // namespace
}  // namespace communication_detail

std::vector<Communication> communication_of(const TrainingGraph& graph, const StepProgram& program,
                                            const Scratch& scratch, const RunResult& run) {
  std::array<communication_detail::ByKind, kMeshDimensions> groups{};
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kLaunch) continue;
    if (!is_communication(static_cast<Stream>(program.stream[i]))) continue;
    if (!program.slot[program.position[i].index()].last_step || scratch.finished[i] < 0) continue;
    const Collective& collective = graph.operators[OperatorId(program.subject[i])].work.collective;
    Communication& kind = groups[static_cast<std::size_t>(collective.group)]
                                [static_cast<std::size_t>(collective.kind)];
    kind.group = collective.group;
    kind.kind = collective.kind;
    ++kind.count;
    kind.bytes += collective.bytes;
    kind.busy += Duration(scratch.finished[i] - scratch.started[i]);
  }
  std::vector<Communication> used;
  for (std::size_t d = 0; d < kMeshDimensions; ++d) {
    const Stream queue = queue_of(static_cast<MeshDimension>(d));
    communication_detail::share_exposed(groups[d], run.exposed[static_cast<std::size_t>(queue)]);
    for (const Communication& kind : groups[d]) {
      if (kind.count > 0) used.push_back(kind);
    }
  }
  return used;
}

}  // namespace tidemark
