// Several ranks that send to each other: each receive is matched with the send that it waits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/scratch.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// A send of another rank that a receive waits for.
struct MessageSource {
  int rank = kNoRank;  // none: the other rank sends nothing that matches
  std::uint32_t instruction = kNoInstruction;
};

struct Receipt {
  std::uint32_t instruction = 0;  // instruction number of the receive
  int from = 0;                   // the rank that the receive names
  MessageSource source;
};

// Returns by rank its receives, in issue order. The n-th receive of rank b from a matches the n-th
// send of a to b among those with the same queue and tag. Throws InternalError where a rank names
// itself or one that does not run, and where two that match differ in bytes.
[[nodiscard]] std::vector<std::vector<Receipt>> match_messages(
    std::span<const StepProgram* const> programs);

// Changes the status of ranks that wait for a rank which has failed for another reason from
// kDeadlock to kPeerFailed. `results`: by rank.
void tell_deadlock_from_failure(std::vector<RunResult>& results);

// The view that one rank has of the others during a run.
class Peers {
 public:
  Peers(std::span<const Receipt> receipts, std::span<const Scratch* const> scratch)
      : receipts_(receipts), scratch_(scratch) {}

  [[nodiscard]] const Receipt& receipt_of(std::uint32_t receive) const;
  // Whether the send that a receive waits for has ended.
  [[nodiscard]] bool has_arrived(std::uint32_t receive) const {
    const MessageSource& source = receipt_of(receive).source;
    if (source.rank == kNoRank) return false;
    return scratch_[static_cast<std::size_t>(source.rank)]->finished[source.instruction] >= 0;
  }

 private:
  std::span<const Receipt> receipts_;
  std::span<const Scratch* const> scratch_;  // scratch of each rank
};

}  // namespace tidemark
