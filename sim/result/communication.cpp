#include "sim/result/communication.hpp"

#include <array>
#include <cmath>
#include <cstddef>

namespace tidemark {
namespace communication_detail {
namespace {

using ByKind = std::array<Communication, kCollectiveKinds>;

// Shares the time for which compute waited for a queue among the kinds that ran on it.
void share_exposed(MeshDimension group, ByKind& kinds, const RunResult& run) {
  std::array<Duration, kStreams> busy{};
  const auto queue = [&](std::size_t kind) {
    return static_cast<std::size_t>(queue_of(group, static_cast<CollectiveKind>(kind)));
  };
  for (std::size_t k = 0; k < kinds.size(); ++k)
    busy[queue(k)] += kinds[k].busy;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::size_t q = queue(k);
    if (busy[q].count() == 0) continue;
    const double share =
        static_cast<double>(kinds[k].busy.count()) / static_cast<double>(busy[q].count());
    kinds[k].exposed = Duration(std::llround(share * static_cast<double>(run.exposed[q].count())));
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
    communication_detail::share_exposed(static_cast<MeshDimension>(d), groups[d], run);
    for (const Communication& kind : groups[d]) {
      if (kind.count > 0) used.push_back(kind);
    }
  }
  return used;
}

}  // namespace tidemark
