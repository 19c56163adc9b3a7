#include "sim/result/deadlock.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace tidemark {

std::string describe_deadlock(std::span<const RankProgram> ranks,
                              std::span<const RunResult> results) {
  std::string text;
  for (std::size_t r = 0; r < results.size(); ++r) {
    const RunResult& result = results[r];
    if (result.status != RunStatus::kDeadlock && result.status != RunStatus::kPeerFailed) continue;
    if (!text.empty()) text += "; ";
    const RankProgram& rank = ranks[r];
    if (result.failed_instruction >= rank.program->size()) {
      text += fmt::format("rank {} waits for itself", r);
      continue;
    }
    const Occurrence& occurrence =
        rank.order->at[rank.program->position[result.failed_instruction]];
    text += fmt::format("rank {} waits in step {} in '{}'", r, occurrence.step,
                        rank.graph->describe(occurrence.op));
    if (result.awaited_rank == kNoRank) continue;
    const RunStatus other = results[static_cast<std::size_t>(result.awaited_rank)].status;
    const bool waits = other == RunStatus::kDeadlock || other == RunStatus::kPeerFailed;
    text += fmt::format(" for rank {}", result.awaited_rank);
    if (!waits) text += other == RunStatus::kCompleted ? ", which has ended" : ", which has failed";
  }
  return text;
}

}  // namespace tidemark
