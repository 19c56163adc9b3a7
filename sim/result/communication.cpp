#include "sim/result/communication.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

namespace tidemark {
namespace communication_detail {
namespace {

std::size_t queue(const Communication& used) {
  return static_cast<std::size_t>(queue_of(used.group, used.kind));
}

auto key(const Communication& used) {
  return std::tuple(used.group, used.kind, used.ranks);
}

// Shares the time for which compute waited for a queue among the kinds that ran on it.
void share_exposed(std::vector<Communication>& all, const RunResult& run) {
  std::array<Duration, kStreams> busy{};
  for (const Communication& used : all)
    busy[queue(used)] += used.busy;
  for (Communication& used : all) {
    const std::size_t q = queue(used);
    if (busy[q].count() == 0) continue;
    const double share =
        static_cast<double>(used.busy.count()) / static_cast<double>(busy[q].count());
    used.exposed = Duration(std::llround(share * static_cast<double>(run.exposed[q].count())));
    if (used.group == MeshDimension::kPipeline) used.exposed = std::min(used.exposed, used.busy);
  }
}

// Returns the collective that an instruction has run in the last step; null for other instructions.
const Collective* collective_of(const TrainingGraph& graph, const StepProgram& program,
                                const Scratch& scratch, std::size_t i) {
  if (program.opcode[i] != Opcode::kLaunch || scratch.finished[i] < 0) return nullptr;
  if (!is_communication(static_cast<Stream>(program.stream[i]))) return nullptr;
  if (!program.slot[program.position[i].index()].last_step) return nullptr;
  const Work& work = graph.operators[OperatorId(program.subject[i])].work;
  // FSDP casts and adds on its stream of reductions.
  return work.op_class == OperatorClass::kCollective ? &work.collective : nullptr;
}

}  // namespace
}  // namespace communication_detail

std::vector<Communication> communication_of(const TrainingGraph& graph, const StepProgram& program,
                                            const CostTable& costs, const Scratch& scratch,
                                            const RunResult& run) {
  std::vector<Communication> all;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Collective* collective = communication_detail::collective_of(graph, program, scratch, i);
    if (collective == nullptr) continue;
    const Communication kind{
        .group = collective->group, .kind = collective->kind, .ranks = collective->ranks};
    auto known = std::find_if(all.begin(), all.end(), [&](const Communication& other) {
      return communication_detail::key(other) == communication_detail::key(kind);
    });
    if (known == all.end()) known = all.insert(all.end(), kind);
    ++known->count;
    known->bytes += collective->bytes;
    const Duration busy(scratch.finished[i] - scratch.started[i]);
    known->busy += busy;
    known->shared += busy - costs.device[OperatorId(program.subject[i])];
  }
  std::sort(all.begin(), all.end(), [](const Communication& a, const Communication& b) {
    return communication_detail::key(a) < communication_detail::key(b);
  });
  communication_detail::share_exposed(all, run);
  return all;
}

int ranks_of(const Communication& communication, const Mesh& mesh) {
  // All ranks of a ring send alike.
  const bool message = communication.group == MeshDimension::kPipeline &&
                       (communication.kind == CollectiveKind::kSend ||
                        communication.kind == CollectiveKind::kReceive);
  if (message) return 2;
  return communication.ranks > 0 ? communication.ranks : mesh.group(communication.group).size;
}

std::vector<CommunicationStretch> communication_stretches(const TrainingGraph& graph,
                                                          const StepProgram& program,
                                                          const Scratch& scratch) {
  std::vector<CommunicationStretch> found;
  std::array<std::size_t, kMeshDimensions> latest;
  latest.fill(std::numeric_limits<std::size_t>::max());
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Collective* collective = communication_detail::collective_of(graph, program, scratch, i);
    if (collective == nullptr) continue;
    const MeshDimension group = collective->group;
    const Duration begin(scratch.started[i]);
    const Duration end(scratch.finished[i]);
    std::size_t& last = latest[static_cast<std::size_t>(group)];
    if (last < found.size() && found[last].end == begin) {
      found[last].end = end;
    } else {
      last = found.size();
      found.push_back({group, begin, end});
    }
  }
  return found;
}

}  // namespace tidemark
