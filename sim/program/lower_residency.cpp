// Tracks where values are, tier by tier, and emits the copies that move them.
//
//   device  --d2h-->  page-locked memory  --nvme_write-->  NVMe
//   device  <--h2d--  page-locked memory  <--nvme_read---  NVMe
//
// An operator's executor says on which tier it needs what it touches; a value that has not got
// there yet is brought on demand. A value that was written off its home tier is copied back. Before
// work is issued, the host or compute may have to wait for what a policy has throttled.
#include <variant>

#include "sim/program/lowering.hpp"

namespace tidemark::lowering {
namespace lower_residency_detail {
namespace {

struct Route {
  Opcode opcode;
  Stream stream;
};

Route route_of(Tier from, Tier to) {
  if (from == Tier::kDevice) return {Opcode::kCopyOut, Stream::kCopyOut};
  if (from == Tier::kNvme) return {Opcode::kNvmeRead, Stream::kNvmeRead};
  if (to == Tier::kDevice) return {Opcode::kCopyIn, Stream::kCopyIn};
  return {Opcode::kNvmeWrite, Stream::kNvmeWrite};
}

Tier tier_of(Executor executor) {
  return executor == Executor::kHost ? Tier::kHost : Tier::kDevice;
}

}  // namespace
}  // namespace lower_residency_detail

// Copies between neighbouring tiers only.
void Lowering::transfer(Place v, Tier from, Tier to, Position p) {
  const lower_residency_detail::Route route = lower_residency_detail::route_of(from, to);
  throttle(route.stream, p);
  AllocationId& target = allocation_of(v, to);
  const bool whole = to == Tier::kDevice || compressed_[v.instance] == Bytes(0);
  const Bytes bytes = whole ? graph_.storages[v.storage].bytes : compressed_[v.instance];
  if (!target.valid()) target = allocate(bytes, v.storage, role_[v.storage], to, p);
  const AllocationId source = allocation_of(v, from);
  const AllocationId subject = from == Tier::kDevice || to == Tier::kDevice
                                   ? allocation_of(v, Tier::kDevice)
                                   : allocation_of(v, Tier::kHost);
  const std::uint32_t copy = emit_work(route.opcode, route.stream, subject.value, p);
  use(source, Access::kRead, route.stream, copy);
  use(target, Access::kOverwrite, route.stream, copy);
  finish_instruction();
  at_[v.instance].valid = static_cast<std::uint8_t>(at_[v.instance].valid | bit_of(to));
}

// Brings the current content of a storage to a tier, by way of the host.
void Lowering::bring(Place v, Tier to, Position p) {
  if (is_valid(v, to) || at_[v.instance].valid == 0) return;
  if (to == Tier::kHost) {
    transfer(v, is_valid(v, Tier::kDevice) ? Tier::kDevice : Tier::kNvme, to, p);
    return;
  }
  bring(v, Tier::kHost, p);
  transfer(v, Tier::kHost, to, p);
}

void Lowering::drop(Place v, Tier tier, Position p) {
  AllocationId& allocation = allocation_of(v, tier);
  if (allocation.valid()) free_allocation(allocation, p);
  allocation = AllocationId();
  at_[v.instance].valid = static_cast<std::uint8_t>(at_[v.instance].valid & ~bit_of(tier));
}

// Brings what an operator is about to touch to the tier of its executor.
void Lowering::require(const Touch& touch, Tier tier, Position p) {
  const Place v = place(touch.storage, p);
  if (touch.access == Access::kRead || touch.access == Access::kMutate) {
    bring(v, tier, p);
  } else if (!allocation_of(v, tier).valid() && at_[v.instance].valid != 0) {
    allocation_of(v, tier) =
        allocate(graph_.storages[v.storage].bytes, v.storage, role_[v.storage], tier, p);
  }
}

// Notes that the other tiers' copies are stale now. What the host has made for the device goes
// there at once; a copy that the host changes in place is kept for the next time.
void Lowering::wrote(const Touch& touch, Tier tier, Position p) {
  const Place v = place(touch.storage, p);
  at_[v.instance].valid = bit_of(tier);
  if (tier != Tier::kHost || graph_.storages[v.storage].home != Tier::kDevice) return;
  bring(v, Tier::kDevice, p);
  if (touch.access != Access::kMutate) drop(v, Tier::kHost, p);
}

void Lowering::wait_for_copy(Position p, GapId gap) {
  const Place v = place(live_.gaps[gap]);
  const AllocationId device = allocation_of(v, Tier::kDevice);
  if (!device.valid()) return;
  const std::uint32_t copy = last_[device].by_stream[index_of(Stream::kCopyOut)];
  if (later(copy, known_[0][index_of(Stream::kCopyOut)])) {
    const std::uint32_t wait = emit(Opcode::kWait, index_of(Stream::kCompute), 0, p);
    depend(Stream::kCompute, Stream::kCopyOut, copy);
    finish_instruction();
    tail_[index_of(Stream::kCompute)] = wait;
  }
  drop(v, Tier::kDevice, p);
}

// Starts the copy before the touch that ends the gap, to the tier where the touch needs the value.
void Lowering::fetch(Position p, GapId gap) {
  const Gap& g = live_.gaps[gap];
  const Place v = place(g);
  const Tier needed =
      lower_residency_detail::tier_of(graph_.operators[order_.at[g.to].op].executor);
  bring(v, needed, p);
  if (graph_.storages[v.storage].home != Tier::kDevice) return;
  bring(v, Tier::kDevice, p);
  if (needed != Tier::kHost) drop(v, Tier::kHost, p);
  drop(v, Tier::kNvme, p);
  compressed_[v.instance] = Bytes(0);
}

void Lowering::release(Position p, GapId gap) {
  const Place v = place(live_.gaps[gap]);
  if (live_.gaps[gap].dead) {
    for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme})
      drop(v, tier, p);
    compressed_[v.instance] = Bytes(0);
    return;
  }
  const auto* offload = std::get_if<Offload>(&decisions_[gap]);
  Tier target = graph_.storages[v.storage].home;
  if (offload != nullptr && target == Tier::kDevice) {
    target = offload->tier;
    compressed_[v.instance] = offload->compressed;
  }
  bring(v, target, p);
  if (offload == nullptr || !offload->release_at.valid()) drop(v, Tier::kDevice, p);
  if (target == Tier::kNvme) drop(v, Tier::kHost, p);
}

void Lowering::make_queue_wait(Stream queue, const LastUse& last, Position p) {
  bool behind = true;
  for (std::size_t s = 0; s < last.by_stream.size(); ++s) {
    const std::uint32_t use_by = last.by_stream[s];
    if (use_by == kNever || s == index_of(queue)) continue;
    behind = behind && !later(use_by, known_[index_of(queue)][s]);
  }
  if (behind) return;
  const std::uint32_t wait = emit(Opcode::kWait, index_of(queue), 0, p);
  for (std::size_t s = 0; s < last.by_stream.size(); ++s)
    depend(queue, static_cast<Stream>(s), last.by_stream[s]);
  finish_instruction();
  tail_[index_of(queue)] = wait;
}

// Called before work on a stream that limits the number of instructions in flight.
void Lowering::throttle(Stream stream, Position p) {
  const Limit& limit = limits_[index_of(stream)];
  if (limit.in_flight < 0) return;
  const auto allowed = static_cast<std::size_t>(limit.in_flight);
  if (limit.issued.size() <= allowed) return;
  const std::uint32_t must_end = limit.issued[limit.issued.size() - 1 - allowed];
  if (limit.waits == Throttle::Waits::kHost) {
    emit(Opcode::kHostWait, 0, 0, p);
    program_.edges.push_back(must_end);
    finish_instruction();
    return;
  }
  if (stream == Stream::kCompute || !later(must_end, known_[0][index_of(stream)])) return;
  const std::uint32_t wait = emit(Opcode::kWait, index_of(Stream::kCompute), 0, p);
  depend(Stream::kCompute, stream, must_end);
  finish_instruction();
  tail_[index_of(Stream::kCompute)] = wait;
}

// Called before memory for a gather is taken.
void Lowering::wait_for_freed_unit(Position p) {
  if (most_freed_ < 0 || freed_.size() < static_cast<std::size_t>(most_freed_)) return;
  emit(Opcode::kHostWait, 0, 0, p);
  program_.edges.push_back(freed_.front());
  freed_.pop_front();
  finish_instruction();
}

bool Lowering::frees_unit(const Operator& op, std::span<const Touch> touches) const {
  return op.part == OperatorPart::kRelease &&
         std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
           return graph_.storages[touch.storage].role == Role::kGatheredParameter;
         });
}

}  // namespace tidemark::lowering
