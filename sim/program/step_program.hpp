// The step as instructions of a host that allocates, launches and frees, in issue order.
//
// Device independent: what a launch costs is looked up by operator. Immutable once built and shared
// by all threads. Structure of arrays; see architecture: layout for speed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"

namespace tidemark {

enum class Opcode : std::uint8_t {
  kAllocate,     // subject: allocation
  kFree,         // subject: allocation; stream: mask of the streams whose events it waits for
  kLaunch,       // subject: operator
  kCopyOut,      // device to host; subject: the device allocation
  kCopyIn,       // host to device; subject: the device allocation
  kNvmeWrite,    // host to NVMe; subject: the host allocation
  kNvmeRead,     // NVMe to host; subject: the host allocation
  kWait,         // the stream waits for the edges; no work
  kHostWait,     // the host waits for the edges
  kSynchronize,  // the host waits for the device
  kReceive,      // subject: operator; runs when the matching send of another rank has ended
};

inline constexpr std::uint32_t kNoInstruction = Id<void>::kNone;

// The part of the run in which a position lies, for accounting.
struct Slot {
  Phase phase = Phase::kForward;
  bool last_step = false;  // peaks and times are reported for the last step
  bool recompute = false;
};

// An allocation and how an instruction uses it, packed into 32 bits.
class AllocationUse {
 public:
  AllocationUse() = default;
  AllocationUse(AllocationId allocation, Access access)
      : packed_((allocation.value << 2U) | static_cast<std::uint32_t>(access)) {}
  [[nodiscard]] AllocationId allocation() const { return AllocationId(packed_ >> 2U); }
  [[nodiscard]] Access access() const { return static_cast<Access>(packed_ & 3U); }

 private:
  std::uint32_t packed_ = 0;
};

struct Allocation {
  Bytes bytes;
  StorageId storage;  // invalid for a workspace
  Role role = Role::kTemporary;
  Tier tier = Tier::kDevice;
  // The stream whose pool device memory comes from and goes back to: PyTorch's allocator gives a
  // block to the stream that is current when it is made.
  Stream pool = Stream::kCompute;
};

// A send, a launch, or a receive. Sends of rank a to rank b match receives of b from a in the order
// of their issue, where queue and tag are equal.
struct Message {
  std::uint32_t instruction = 0;
  int peer = 0;  // the other rank, by its place in the run
  int tag = 0;
  Bytes bytes;
  bool sends = false;
};

// Returns the queue that runs the operator.
[[nodiscard]] constexpr Stream stream_of(const Operator& op) {
  if (op.executor == Executor::kHost) return Stream::kHostWorker;
  if (op.executor == Executor::kReduction) return Stream::kShardReduction;
  if (op.executor == Executor::kReplicas) return Stream::kReplicateGroup;
  if (op.work.op_class != OperatorClass::kCollective) return Stream::kCompute;
  return queue_of(op.work.collective.group, op.work.collective.kind);
}

[[nodiscard]] constexpr bool is_receive(const Operator& op) {
  return op.work.op_class == OperatorClass::kCollective &&
         op.work.collective.kind == CollectiveKind::kReceive;
}
// A send to no particular rank is one that all ranks of a group make alike, around a ring.
[[nodiscard]] constexpr bool is_message(const Operator& op) {
  return is_receive(op) ||
         (op.work.op_class == OperatorClass::kCollective &&
          op.work.collective.kind == CollectiveKind::kSend && op.work.collective.peer >= 0);
}

// Returns the stream whose pool gives the memory that the operator creates: collectives are issued
// on streams of their own, but what a message is received into is made on compute's.
[[nodiscard]] constexpr Stream pool_of(const Operator& op) {
  const Stream stream = stream_of(op);
  return is_communication(stream) && !is_message(op) ? stream : Stream::kCompute;
}

struct StepProgram {
  std::vector<Opcode> opcode;
  std::vector<std::uint16_t> stream;   // Stream, or a mask of streams for kFree
  std::vector<std::uint32_t> subject;  // AllocationId or OperatorId
  std::vector<Position> position;      // position in the program order that the instruction serves
  std::vector<std::uint32_t> first_edge;  // one more than instructions
  std::vector<std::uint32_t> edges;       // earlier instructions that must have ended
  std::vector<std::uint32_t> first_use;   // one more than instructions
  std::vector<AllocationUse> uses;  // uses of launches and copies, in the order of the touches
  IdVector<AllocationId, Allocation> allocations;
  // workspace of the library of matrix products, never freed; often invalid
  AllocationId matmul_workspace;
  std::size_t allocate_instructions = 0;  // number of kAllocate instructions
  std::vector<Slot> slot;                 // slot of each position
  std::vector<Message> messages;          // messages in issue order

  [[nodiscard]] std::size_t size() const { return opcode.size(); }
  [[nodiscard]] std::span<const std::uint32_t> edges_of(std::size_t i) const {
    return std::span(edges).subspan(first_edge[i], first_edge[i + 1] - first_edge[i]);
  }
  [[nodiscard]] std::span<const AllocationUse> uses_of(std::size_t i) const {
    return std::span(uses).subspan(first_use[i], first_use[i + 1] - first_use[i]);
  }
  // Returns the bytes of a copy between two tiers: a compressed value is smaller off device.
  [[nodiscard]] Bytes copied_bytes(std::size_t i) const {
    Bytes least = allocations[AllocationId(subject[i])].bytes;
    for (const AllocationUse& use : uses_of(i))
      least = std::min(least, allocations[use.allocation()].bytes);
    return least;
  }
  [[nodiscard]] std::size_t memory_bytes() const;  // held by the arrays
};

}  // namespace tidemark
