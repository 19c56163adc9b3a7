// The orders in which the ranks of a pipeline run the parts of their chunks.
//
//   placement   loop   chunk c of rank r is piece c p + r of the model    0 1 2 3 | 4 5 6 7
//               v      rank r has pieces r and 2 p - 1 - r                0 1 2 3
//                                                                         7 6 5 4
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/analysis/schedule.hpp"

namespace tidemark {

enum class PipelineOrder : std::uint8_t {
  kGpipe,
  k1F1B,
  kInterleaved,
  kZeroBubbleH1,
  kZeroBubbleV
};
[[nodiscard]] constexpr std::string_view name_of(PipelineOrder order) {
  constexpr std::string_view kNames[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"};
  return kNames[static_cast<int>(order)];
}

// The place of a chunk: the chunk-th piece of what its rank holds.
struct ChunkPlace {
  int rank = 0;
  int chunk = 0;
  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};
// Returns where the pieces of a model lie, in forward order: `stages` x `chunks` of them.
[[nodiscard]] std::vector<ChunkPlace> chunk_places(int stages, int chunks, bool in_v);

// Megatron's interleaved 1F1B (Narayanan et al. 2021): forwards go through the chunks in groups of
// `group` micro-batches, min(m v, 2 (p - r - 1) + (v - 1) group) of them before the first backward.
[[nodiscard]] std::vector<ScheduledPart> interleaved_1f1b(int stages, int chunks, int stage,
                                                          int micro_batches, int group);
// Returns whether the interleaved schedule can run: stages <= group <= micro-batches, and what is
// left of the last group is nothing or reaches every stage.
[[nodiscard]] bool can_interleave(int stages, int micro_batches, int group);

// ZB-H1 of Qi et al. 2023 (arXiv 2401.10241): 1F1B whose weight gradients are delayed by as many
// micro-batches as the stage's number, so that all stages keep as much as the first one of 1F1B and
// the gaps of the cool-down are filled.
[[nodiscard]] std::vector<ScheduledPart> zero_bubble_h1(int stages, int stage, int micro_batches);
// ZBV of the same paper: two chunks per rank in a V, without a bubble where forward, backward and
// weight gradients take the same time.
[[nodiscard]] std::vector<ScheduledPart> zero_bubble_v(int stages, int stage, int micro_batches);

// Returns the parts of one rank; `chunks` and `group` are those of the interleaved schedule.
[[nodiscard]] std::vector<ScheduledPart> pipeline_schedule(PipelineOrder order, int stages,
                                                           int chunks, int stage, int micro_batches,
                                                           int group);

// Returns "F0 F1 B0 ...", with chunks "F0.0 F1.0 F0.1 B0.1 ..."; W are weight gradients.
[[nodiscard]] std::string order_text(std::span<const ScheduledPart> work, bool with_chunks);
// Returns the most forwards that have no backward yet; without backwards each is over by itself.
[[nodiscard]] int most_in_flight(std::span<const ScheduledPart> work);

}  // namespace tidemark
