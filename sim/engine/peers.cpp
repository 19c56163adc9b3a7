#include "sim/engine/peers.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace peers_detail {
namespace {

struct Sent {
  std::uint32_t instruction = 0;
  Bytes bytes;
};

// The fields of a channel are sender, receiver, queue and tag.
using Channel = std::tuple<int, int, std::uint16_t, int>;

void check_peer(const Message& message, int rank, std::size_t ranks) {
  if (message.peer != rank && message.peer >= 0 && message.peer < static_cast<int>(ranks)) return;
  throw InternalError(fmt::format("instruction {} of rank {} {} rank {} of {}", message.instruction,
                                  rank, message.sends ? "sends to" : "receives from", message.peer,
                                  ranks));
}

}  // namespace
}  // namespace peers_detail

std::vector<std::vector<Receipt>> match_messages(std::span<const StepProgram* const> programs) {
  std::map<peers_detail::Channel, std::vector<peers_detail::Sent>> sent;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const StepProgram& program = *programs[r];
    const int rank = static_cast<int>(r);
    for (const Message& message : program.messages) {
      peers_detail::check_peer(message, rank, programs.size());
      if (!message.sends) continue;
      sent[{rank, message.peer, program.stream[message.instruction], message.tag}].push_back(
          {message.instruction, message.bytes});
    }
  }
  std::map<peers_detail::Channel, std::size_t> taken;
  std::vector<std::vector<Receipt>> receipts(programs.size());
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const StepProgram& program = *programs[r];
    for (const Message& message : program.messages) {
      if (message.sends) continue;
      const peers_detail::Channel channel{message.peer, static_cast<int>(r),
                                          program.stream[message.instruction], message.tag};
      Receipt& receipt = receipts[r].emplace_back(
          Receipt{.instruction = message.instruction, .from = message.peer, .source = {}});
      const auto sends = sent.find(channel);
      const std::size_t next = taken[channel]++;
      if (sends == sent.end() || next >= sends->second.size()) continue;
      const peers_detail::Sent& source = sends->second[next];
      if (source.bytes != message.bytes) {
        throw InternalError(fmt::format(
            "rank {} sends {} bytes by instruction {}, rank {} receives {} by instruction {}",
            message.peer, source.bytes.count, source.instruction, r, message.bytes.count,
            message.instruction));
      }
      receipt.source = {.rank = message.peer, .instruction = source.instruction};
    }
  }
  return receipts;
}

void tell_deadlock_from_failure(std::vector<RunResult>& results) {
  for (RunResult& result : results) {
    int rank = result.awaited_rank;
    for (std::size_t i = 0; i < results.size() && rank != kNoRank; ++i) {
      const RunResult& other = results[static_cast<std::size_t>(rank)];
      const bool waits =
          other.status == RunStatus::kDeadlock || other.status == RunStatus::kPeerFailed;
      if (other.status != RunStatus::kCompleted && !waits) {
        result.status = RunStatus::kPeerFailed;
        break;
      }
      rank = other.awaited_rank;
    }
  }
}

const Receipt& Peers::receipt_of(std::uint32_t receive) const {
  return *std::lower_bound(
      receipts_.begin(), receipts_.end(), receive,
      [](const Receipt& receipt, std::uint32_t at) { return receipt.instruction < at; });
}

}  // namespace tidemark
