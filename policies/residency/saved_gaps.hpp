// Values that forward leaves for backward, which activation offloading may move, and the decisions
// to move them. Shared by the policies of this folder.
#pragma once

#include <optional>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "policies/plan/policy.hpp"

namespace tidemark {

struct SavedGap {
  GapId id;
  StorageId storage;
  Bytes bytes;
  Position from;                // the last touch in forward
  Position release;             // the copy out may be issued after this operator
  Position to;                  // the first touch in backward or in recomputation for it
  int block = kNoBlock;         // block of the operator at `from`
  int needed_by = 0;            // block of the operator at `to`; 0 outside blocks
  std::size_t micro_batch = 0;  // step * micro-batches + micro-batch
};

// The open gaps from forward to backward of at least `min_bytes`, in the order in which forward
// leaves them. Gaps that are decided already are among them.
[[nodiscard]] std::vector<SavedGap> saved_gaps(const PolicyContext& context, Bytes min_bytes);

// Returns the occurrence that created the content behind a gap; invalid for values that were there
// from the start.
[[nodiscard]] Position creator_of(const PolicyContext& context, GapId gap);

// The least size of a value that is moved: a threshold in elements, as systems count them, unless
// the scenario gives one in bytes.
struct SmallestMoved {
  Elements elements;
  std::optional<Bytes> bytes;
};
// Reads `min_elements` or `min_bytes`; not both.
[[nodiscard]] SmallestMoved decode_smallest(const Decoder& decoder, Elements elements);
// Returns the gaps of at least the given size. Storages have no type: elements are those of the
// type in which the operator that made the value computes.
[[nodiscard]] std::vector<SavedGap> saved_gaps(const PolicyContext& context,
                                               const SmallestMoved& smallest);

// The positions of one block of one micro-batch in the order; invalid where it has no such
// operator.
struct BlockSpan {
  Position forward_begin;
  Position forward_end;
  Position backward_begin;  // recomputation included
  Position backward_end;
};
// Returns the spans by micro-batch index, then by block.
[[nodiscard]] std::vector<std::vector<BlockSpan>> block_spans(const PolicyContext& context);

[[nodiscard]] std::size_t micro_batch_index(const PolicyContext& context,
                                            const Occurrence& occurrence);

// Returns the time at which each operator starts if compute never waits; one more than positions.
[[nodiscard]] std::vector<Duration> predicted_starts(const PolicyContext& context);

// Returns the time of a copy of page-locked memory with the link to itself.
[[nodiscard]] Duration copy_out_time(const PolicyContext& context, Bytes bytes);
[[nodiscard]] Duration copy_in_time(const PolicyContext& context, Bytes bytes);

// A value that a policy wants to move. Positions, tier and compression as in Offload; an invalid
// `fetch_at` is on demand.
struct Departure {
  SavedGap gap;
  Position release_at;
  Position fetch_at;
  Tier tier = Tier::kHost;
  Position copy_at = {};
  Bytes compressed = {};
};
// Returns the first position at which the value's memory is freed.
[[nodiscard]] Position away_from(const Departure& departure);
// Decides the departures whose memory is free for at least one operator; counts the bytes that move
// in the last step.
void decide_offloads(const PolicyContext& context, const std::vector<Departure>& departures,
                     ResidencyPlan& plan);
// Whether the decision would free the memory for at least one operator.
[[nodiscard]] bool frees_memory(const Departure& departure);

}  // namespace tidemark
