// The state of lowering. lower.cpp emits the operators, lower_residency.cpp tracks where values are
// and moves them. Only these two include this file; everything else calls lower().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "graph/analysis/instances.hpp"
#include "sim/program/lower.hpp"

namespace tidemark::lowering {

inline constexpr std::uint32_t kNever = Id<void>::kNone;

constexpr std::uint8_t index_of(Stream stream) {
  return static_cast<std::uint8_t>(stream);
}
constexpr std::size_t index_of(Tier tier) {
  return static_cast<std::size_t>(tier);
}
constexpr std::uint8_t bit_of(Tier tier) {
  return static_cast<std::uint8_t>(1U << index_of(tier));
}

// Whether instruction `a` comes after `b`, where kNever is before all.
constexpr bool later(std::uint32_t a, std::uint32_t b) {
  return a != kNever && (b == kNever || a > b);
}

// Lists of gaps by position, as one array with offsets.
class GapsAt {
 public:
  explicit GapsAt(std::size_t positions) : first_(positions + 1, 0) {}
  void count(Position p) { ++first_[p.index() + 1]; }
  void allocate() {
    for (std::size_t i = 1; i < first_.size(); ++i)
      first_[i] += first_[i - 1];
    gaps_.resize(first_.back());
    next_.assign(first_.begin(), first_.end() - 1);
  }
  void add(Position p, GapId gap) { gaps_[next_[p.index()]++] = gap; }
  template <class Less>
  void sort(Less less) {
    for (std::size_t i = 0; i + 1 < first_.size(); ++i) {
      if (first_[i + 1] - first_[i] < 2) continue;
      std::stable_sort(gaps_.begin() + first_[i], gaps_.begin() + first_[i + 1], less);
    }
  }
  [[nodiscard]] std::span<const GapId> at(Position p) const {
    return std::span(gaps_).subspan(first_[p.index()], first_[p.index() + 1] - first_[p.index()]);
  }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> next_;
  std::vector<GapId> gaps_;
};

class Lowering {
 public:
  Lowering(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
           const IdVector<GapId, Decision>& decisions, const LibraryWorkspaces& libraries,
           std::span<const Throttle> throttles);

  StepProgram run();

 private:
  struct LastUse {  // last uses of an allocation by stream; kNever: not used there
    LastUse() { by_stream.fill(kNever); }
    std::uint32_t writer = kNever;
    Stream writer_stream = Stream::kCompute;
    // last compute instruction when the allocation was taken from its pool
    std::uint32_t pool_edge = kNever;
    std::array<std::uint32_t, kStreams> by_stream{};
  };
  // A storage as one occurrence of an operator touches it.
  struct Place {
    StorageId storage;
    InstanceId instance;
  };
  // Places of an instance: its allocations by tier, and which of them hold its current content.
  struct Residence {
    std::array<AllocationId, kTiers> allocation{};
    std::uint8_t valid = 0;
  };
  struct Limit {  // limit on the instructions in flight of a throttled stream
    int in_flight = -1;
    Throttle::Waits waits = Throttle::Waits::kHost;
    std::vector<std::uint32_t> issued;
  };

  void index_gaps();
  void assign_roles();
  void index_kept();
  void emit_position(Position p);
  void emit_operator(Position p);
  void emit_creates(Position p, Tier tier);
  void note_message(const Operator& op, std::uint32_t instruction);
  void follow_communicator(const Operator& op, std::uint32_t instruction);
  void note_writes(Position p, Tier tier);
  AllocationId allocate_workspace(const Operator& op, Tier tier, Position p);
  void join_host(Position p);
  void wait_for(Stream stream, std::uint32_t instruction, Position p);

  // Residency of values.
  [[nodiscard]] Place place(StorageId s, Position p) const {
    return {s, instances_.of(s, order_.at[p].instance)};
  }
  [[nodiscard]] Place place(const Gap& gap) const {
    return {gap.storage, instances_.of(gap.storage, gap.instance)};
  }
  [[nodiscard]] bool is_valid(Place v, Tier tier) const {
    return (at_[v.instance].valid & bit_of(tier)) != 0;
  }
  [[nodiscard]] AllocationId& allocation_of(Place v, Tier tier) {
    return at_[v.instance].allocation[index_of(tier)];
  }
  void bring(Place v, Tier to, Position p);
  void transfer(Place v, Tier from, Tier to, Position p);
  void drop(Place v, Tier tier, Position p);
  void require(const Touch& touch, Tier tier, Position p);
  void wrote(const Touch& touch, Tier tier, Position p);
  void fetch(Position p, GapId gap);
  void wait_for_copy(Position p, GapId gap);
  void release(Position p, GapId gap);

  std::uint32_t emit(Opcode opcode, std::uint16_t stream, std::uint32_t subject, Position p);
  // Emits work on a stream: throttles it before and moves the stream's tail.
  std::uint32_t emit_work(Opcode opcode, Stream stream, std::uint32_t subject, Position p);
  void throttle(Stream stream, Position p);
  void wait_for_freed_unit(Position p);
  [[nodiscard]] bool frees_unit(const Operator& op, std::span<const Touch> touches) const;
  AllocationId allocate(Bytes bytes, StorageId storage, Role role, Tier tier, Position p,
                        Stream pool = Stream::kCompute);
  void free_allocation(AllocationId allocation, Position p);
  // Makes a queue wait for all other streams that use an allocation.
  void make_queue_wait(Stream queue, const LastUse& last, Position p);
  void use(AllocationId allocation, Access access, Stream stream, std::uint32_t instruction);
  void finish_instruction();
  void depend(Stream stream, Stream on, std::uint32_t instruction);

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const Liveness& live_;
  const IdVector<GapId, Decision>& decisions_;
  LibraryWorkspaces libraries_;
  StepProgram program_;
  Instances instances_;
  IdVector<StorageId, Role> role_;
  IdVector<InstanceId, Residence> at_;
  IdVector<InstanceId, Bytes> compressed_;  // size while it is off device; 0: not compressed
  IdVector<AllocationId, LastUse> last_;
  GapsAt releases_;
  GapsAt departures_;  // values that leave the device later than they could
  GapsAt fetches_;
  GapsAt waits_;
  std::array<Limit, kStreams> limits_;
  int most_freed_ = -1;              // units that are freed and perhaps in use; negative: unlimited
  std::deque<std::uint32_t> freed_;  // the instructions at which compute leaves them
  std::vector<std::uint32_t> kept_begins_;  // memory held by frames, by `since` and by `until`
  std::vector<std::uint32_t> kept_ends_;
  std::vector<AllocationId> kept_allocations_;
  std::size_t next_begin_ = 0;
  std::size_t next_end_ = 0;
  // known_[a][b] is the latest instruction of stream b that stream a has waited for.
  std::array<std::array<std::uint32_t, kStreams>, kStreams> known_{};
  std::array<std::uint32_t, kStreams> tail_{};  // latest instruction of each stream
  // Latest collective of each communicator of shard groups, by the ranks that take part; 0: all.
  std::map<int, std::uint32_t> last_collective_;
  std::vector<AllocationId> scratch_;  // freed when the operator has been issued
  // The host's latest operator of the current step whose results the model reads.
  std::uint32_t host_result_ = kNever;
};

}  // namespace tidemark::lowering
