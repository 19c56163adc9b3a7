#include "sim/program/lower.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/program/lowering.hpp"
#include "sim/program/program_sizes.hpp"

namespace tidemark {
namespace lowering {

Lowering::Lowering(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                   const IdVector<GapId, Decision>& decisions, const LibraryWorkspaces& libraries,
                   std::span<const Throttle> throttles)
    : graph_(graph),
      order_(order),
      live_(live),
      decisions_(decisions),
      libraries_(libraries),
      instances_(graph, order),
      at_(instances_.size()),
      compressed_(instances_.size()),
      releases_(order.at.size()),
      departures_(order.at.size()),
      fetches_(order.at.size()),
      waits_(order.at.size()) {
  for (auto& clock : known_)
    clock.fill(kNever);
  tail_.fill(kNever);
  for (const Throttle& throttle : throttles) {
    if (throttle.counts_freed_units) {
      most_freed_ = throttle.in_flight;
      continue;
    }
    Limit& limit = limits_[index_of(throttle.stream)];
    if (limit.in_flight >= 0 && limit.in_flight <= throttle.in_flight) continue;
    limit.in_flight = throttle.in_flight;
    limit.waits = throttle.waits;
  }
}

void Lowering::index_gaps() {
  const auto each = [&](auto&& visit) {
    for (GapId id : ids_of(live_.gaps)) {
      const Gap& gap = live_.gaps[id];
      const auto* offload = gap.dead ? nullptr : std::get_if<Offload>(&decisions_[id]);
      if (offload != nullptr) {
        if (offload->copy_at.valid()) {
          visit(departures_, offload->copy_at, id);
        } else {
          visit(releases_, gap.release, id);
        }
        visit(fetches_, offload->fetch_at, id);
        if (offload->release_at.valid()) visit(waits_, offload->release_at, id);
      } else if (gap.dead ||
                 (graph_.storages[gap.storage].home != Tier::kDevice && !gap.held_by_variable &&
                  !std::holds_alternative<Keep>(decisions_[id]))) {
        visit(releases_, gap.release, id);
      }
    }
  };
  each([](GapsAt& list, Position p, GapId) { list.count(p); });
  releases_.allocate();
  departures_.allocate();
  fetches_.allocate();
  waits_.allocate();
  each([](GapsAt& list, Position p, GapId id) { list.add(p, id); });
  // Copies that are issued together go in the order in which they are needed.
  fetches_.sort([this](GapId a, GapId b) { return live_.gaps[a].to < live_.gaps[b].to; });
}

// Recomputation keeps what it reads from forward for backward, although autograd has not saved it:
// the input of a checkpointed segment.
void Lowering::assign_roles() {
  role_.reserve(graph_.storages.size());
  for (const Storage& storage : graph_.storages)
    role_.push_back(storage.role);
  for (const Gap& gap : live_.gaps) {
    if (!gap.open() || role_[gap.storage] != Role::kTemporary) continue;
    const auto phase = [&](Position p) { return program_.slot[p.index()].phase; };
    if (phase(gap.from) == Phase::kForward && phase(gap.to) == Phase::kBackward) {
      role_[gap.storage] = Role::kSavedActivation;
    }
  }
}

std::uint32_t Lowering::emit(Opcode opcode, std::uint16_t stream, std::uint32_t subject,
                             Position p) {
  const auto id = static_cast<std::uint32_t>(program_.size());
  program_.opcode.push_back(opcode);
  program_.stream.push_back(stream);
  program_.subject.push_back(subject);
  program_.position.push_back(p);
  return id;
}

std::uint32_t Lowering::emit_work(Opcode opcode, Stream stream, std::uint32_t subject, Position p) {
  const std::uint32_t id = emit(opcode, index_of(stream), subject, p);
  tail_[index_of(stream)] = id;
  Limit& limit = limits_[index_of(stream)];
  if (limit.in_flight >= 0) limit.issued.push_back(id);
  return id;
}

// Closes the lists of edges and uses of the newest instruction.
void Lowering::finish_instruction() {
  program_.first_edge.push_back(static_cast<std::uint32_t>(program_.edges.size()));
  program_.first_use.push_back(static_cast<std::uint32_t>(program_.uses.size()));
}

void Lowering::depend(Stream stream, Stream on, std::uint32_t instruction) {
  if (stream == on || instruction == kNever) return;
  std::uint32_t& known = known_[index_of(stream)][index_of(on)];
  if (!later(instruction, known)) return;
  known = instruction;
  program_.edges.push_back(instruction);
}

// Adds the edges of one use: read after write, write after read, write after write, and the pool's.
void Lowering::use(AllocationId allocation, Access access, Stream stream,
                   std::uint32_t instruction) {
  LastUse& last = last_[allocation];
  depend(stream, last.writer_stream, last.writer);
  // Memory taken from a stream's pool may still be read by that stream's work issued before.
  depend(stream, program_.allocations[allocation].pool, last.pool_edge);
  if (access != Access::kRead) {
    for (std::size_t s = 0; s < last.by_stream.size(); ++s) {
      depend(stream, static_cast<Stream>(s), last.by_stream[s]);
    }
    last.writer = instruction;
    last.writer_stream = stream;
  }
  last.by_stream[index_of(stream)] = instruction;
  program_.uses.emplace_back(allocation, access);
}

AllocationId Lowering::allocate(Bytes bytes, StorageId storage, Role role, Tier tier, Position p,
                                Stream pool) {
  const AllocationId allocation = program_.allocations.push_back(
      {.bytes = bytes, .storage = storage, .role = role, .tier = tier, .pool = pool});
  last_.push_back({});
  if (tier == Tier::kDevice) last_[allocation].pool_edge = tail_[index_of(pool)];
  emit(Opcode::kAllocate, 0, allocation.value, p);
  finish_instruction();
  ++program_.allocate_instructions;
  return allocation;
}

// Streams that the pool's has not yet waited for may still use the allocation: it returns at their
// events. Buffers of a queue return at once, and the queue waits for who uses them: FSDP's and
// Megatron's code keeps a reference until it has made the queue wait. Gathered parameters are freed
// as by record_stream.
void Lowering::free_allocation(AllocationId allocation, Position p) {
  const LastUse& last = last_[allocation];
  const bool on_device = program_.allocations[allocation].tier == Tier::kDevice;
  const std::uint16_t pool = index_of(program_.allocations[allocation].pool);
  const bool waits = on_device && pool != index_of(Stream::kCompute) &&
                     program_.allocations[allocation].role != Role::kGatheredParameter;
  if (waits) make_queue_wait(static_cast<Stream>(pool), last, p);
  std::uint16_t mask = 0;
  for (std::size_t s = 0; s < last.by_stream.size(); ++s) {
    const std::uint32_t use_by = last.by_stream[s];
    if (use_by == kNever) continue;
    const bool ordered = on_device && (s == pool || !later(use_by, known_[pool][s]));
    if (!ordered) mask = static_cast<std::uint16_t>(mask | (1U << s));
  }
  emit(Opcode::kFree, mask, allocation.value, p);
  finish_instruction();
}

void Lowering::emit_creates(Position p, Tier tier) {
  const Occurrence& occurrence = order_.at[p];
  const std::span<const Touch> touches = graph_.touches_of(occurrence.op);
  const Stream pool = pool_of(graph_.operators[occurrence.op]);
  scratch_.clear();
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const StorageId s = touches[i].storage;
    if (touches[i].access != Access::kCreate) continue;
    const AllocationId allocation = allocate(graph_.storages[s].bytes, s, role_[s], tier, p, pool);
    if (is_scratch(occurrence, i)) {
      scratch_.push_back(allocation);
    } else {
      allocation_of(place(s, p), tier) = allocation;
    }
  }
}

// Returns the memory that a kernel needs while it runs, if any. The first matmul also allocates its
// library's workspace, which stays.
AllocationId Lowering::allocate_workspace(const Operator& op, Tier tier, Position p) {
  if (op.work.op_class == OperatorClass::kMatmul && libraries_.matmul > Bytes(0) &&
      !program_.matmul_workspace.valid()) {
    program_.matmul_workspace = allocate(libraries_.matmul, {}, Role::kWorkspace, Tier::kDevice, p);
  }
  const Bytes needed = workspace_bytes(op, libraries_);
  if (needed <= Bytes(0)) return {};
  return allocate(needed, {}, Role::kWorkspace, tier, p);
}

// Gathers and reductions of a shard group have streams of their own, but one communicator: NCCL
// runs what is issued to it in that order, whichever stream it is issued on. The allocator knows
// nothing of that.
void Lowering::follow_communicator(const Operator& op, std::uint32_t instruction) {
  const Stream stream = stream_of(op);
  if (stream != Stream::kShardGroup && stream != Stream::kShardReduction) return;
  if (op.work.op_class != OperatorClass::kCollective) return;
  // Smaller groups, as those that backward gathers in, have communicators of their own.
  const auto [last, fresh] = last_collective_.try_emplace(op.work.collective.ranks, instruction);
  if (fresh) return;
  const std::uint32_t before = std::exchange(last->second, instruction);
  if (program_.stream[before] != index_of(stream)) program_.edges.push_back(before);
}

void Lowering::note_message(const Operator& op, std::uint32_t instruction) {
  if (!is_message(op)) return;
  const Collective& message = op.work.collective;
  program_.messages.push_back({.instruction = instruction,
                               .peer = message.peer,
                               .tag = message.tag,
                               .bytes = message.bytes,
                               .sends = !is_receive(op)});
}

void Lowering::note_writes(Position p, Tier tier) {
  const Occurrence& occurrence = order_.at[p];
  const std::span<const Touch> touches = graph_.touches_of(occurrence.op);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].access != Access::kRead && !is_scratch(occurrence, i)) {
      wrote(touches[i], tier, p);
    }
  }
}

void Lowering::emit_operator(Position p) {
  const Occurrence& occurrence = order_.at[p];
  const Operator& op = graph_.operators[occurrence.op];
  const std::span<const Touch> touches = graph_.touches_of(occurrence.op);
  if (op.blocks_host) {
    join_host(p);
    emit(Opcode::kSynchronize, 0, occurrence.op.value, p);
    finish_instruction();
  }
  if (touches.empty()) return;  // nothing to do for a marker
  const bool on_host = op.executor == Executor::kHost;
  const Tier tier = on_host ? Tier::kHost : Tier::kDevice;
  const Stream stream = stream_of(op);
  for (const Touch& touch : touches) {
    if (touch.access != Access::kCreate) require(touch, tier, p);
  }
  if (op.work.op_class == OperatorClass::kCollective && stream == Stream::kShardGroup)
    wait_for_freed_unit(p);
  emit_creates(p, tier);
  const AllocationId workspace = allocate_workspace(op, tier, p);
  throttle(stream, p);
  const Opcode opcode = is_receive(op) ? Opcode::kReceive : Opcode::kLaunch;
  const std::uint32_t launch = emit_work(opcode, stream, occurrence.op.value, p);
  note_message(op, launch);
  follow_communicator(op, launch);
  std::size_t next_scratch = 0;
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const bool to_scratch = touches[i].access == Access::kCreate && is_scratch(occurrence, i);
    const AllocationId allocation =
        to_scratch ? scratch_[next_scratch++] : allocation_of(place(touches[i].storage, p), tier);
    if (!allocation.valid()) {
      throw InternalError(fmt::format("{} touches '{}', which is not resident",
                                      graph_.describe(occurrence.op),
                                      graph_.storages[touches[i].storage].name));
    }
    use(allocation, touches[i].access, stream, launch);
  }
  if (workspace.valid()) use(workspace, Access::kCreate, stream, launch);
  finish_instruction();
  if (op.work.op_class == OperatorClass::kCollective && op.work.collective.blocks_compute)
    wait_for(stream, launch, p);
  if (workspace.valid()) free_allocation(workspace, p);
  for (AllocationId allocation : scratch_)
    free_allocation(allocation, p);
  note_writes(p, tier);
  const auto delivers = [&](const Touch& touch) {
    return touch.access != Access::kRead && role_[touch.storage] != Role::kOptimizerState;
  };
  if (on_host && std::any_of(touches.begin(), touches.end(), delivers)) host_result_ = launch;
  if (most_freed_ >= 0 && frees_unit(op, touches)) freed_.push_back(launch);
}

// The compute stream goes on when an instruction of another stream has ended.
void Lowering::wait_for(Stream stream, std::uint32_t instruction, Position p) {
  const std::uint32_t wait = emit(Opcode::kWait, index_of(Stream::kCompute), 0, p);
  depend(Stream::kCompute, stream, instruction);
  finish_instruction();
  tail_[index_of(Stream::kCompute)] = wait;
}

// The training loop goes on when the host's updates are over and have arrived on the device; an
// operator that changes only its own state does not delay it.
void Lowering::join_host(Position p) {
  if (host_result_ == kNever) return;
  const std::uint32_t wait = emit(Opcode::kWait, index_of(Stream::kCompute), 0, p);
  depend(Stream::kCompute, Stream::kHostWorker, std::exchange(host_result_, kNever));
  depend(Stream::kCompute, Stream::kCopyIn, tail_[index_of(Stream::kCopyIn)]);
  finish_instruction();
  tail_[index_of(Stream::kCompute)] = wait;
}

// Indexes the memory that frames hold in addition to storages.
void Lowering::index_kept() {
  for (std::uint32_t k = 0; k < order_.kept.size(); ++k) {
    if (!order_.kept[k].storage.valid()) kept_begins_.push_back(k);
  }
  kept_ends_ = kept_begins_;
  kept_allocations_.resize(order_.kept.size());
  const auto by = [&](Position Kept::*at) {
    return [this, at](std::uint32_t a, std::uint32_t b) {
      return order_.kept[a].*at < order_.kept[b].*at;
    };
  };
  std::stable_sort(kept_begins_.begin(), kept_begins_.end(), by(&Kept::since));
  std::stable_sort(kept_ends_.begin(), kept_ends_.end(), by(&Kept::until));
}

void Lowering::emit_position(Position p) {
  for (; next_begin_ < kept_begins_.size(); ++next_begin_) {
    const std::uint32_t k = kept_begins_[next_begin_];
    if (order_.kept[k].since != p) break;
    kept_allocations_[k] = allocate(order_.kept[k].bytes, {}, Role::kTemporary, Tier::kDevice, p);
  }
  for (GapId gap : departures_.at(p))
    release(p, gap);
  for (GapId gap : waits_.at(p))
    wait_for_copy(p, gap);
  for (GapId gap : fetches_.at(p))
    fetch(p, gap);
  emit_operator(p);
  for (GapId gap : releases_.at(p))
    release(p, gap);
  for (; next_end_ < kept_ends_.size() && order_.kept[kept_ends_[next_end_]].until == p;
       ++next_end_) {
    free_allocation(kept_allocations_[kept_ends_[next_end_]], p);
  }
  const Position next(p.value + 1);
  if (!order_.at.contains(next) || order_.at[next].step != order_.at[p].step) join_host(p);
}

StepProgram Lowering::run() {
  index_gaps();
  index_kept();
  const std::size_t estimate = order_.at.size() * 4 + graph_.storages.size();
  program_.opcode.reserve(estimate);
  program_.stream.reserve(estimate);
  program_.subject.reserve(estimate);
  program_.position.reserve(estimate);
  program_.first_edge.reserve(estimate + 1);
  program_.first_use.reserve(estimate + 1);
  program_.uses.reserve(live_.gaps.size() + order_.at.size());
  program_.first_edge.push_back(0);
  program_.first_use.push_back(0);
  program_.slot.reserve(order_.at.size());
  for (const Occurrence& occurrence : order_.at) {
    // Recomputation for backward counts as backward.
    program_.slot.push_back(
        {.phase = occurrence.recompute ? Phase::kBackward : graph_.operators[occurrence.op].phase,
         .last_step = occurrence.step + 1 == order_.steps,
         .recompute = occurrence.recompute && !gathers(graph_, occurrence.op)});
  }
  assign_roles();
  for (StorageId s : ids_of(graph_.storages)) {
    if (!graph_.storages[s].initial) continue;
    const Tier home = graph_.storages[s].home;
    const Place v{s, instances_.of(s, 0)};
    allocation_of(v, home) =
        allocate(graph_.storages[s].bytes, s, role_[s], home, Position(std::uint32_t{0}));
    at_[v.instance].valid = bit_of(home);
  }
  for (Position p : ids_of(order_.at))
    emit_position(p);
  return std::move(program_);
}

}  // namespace lowering

StepProgram lower(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                  const IdVector<GapId, Decision>& decisions, const LibraryWorkspaces& libraries,
                  std::span<const Throttle> throttles) {
  return lowering::Lowering(graph, order, live, decisions, libraries, throttles).run();
}

std::size_t StepProgram::memory_bytes() const {
  const auto held = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return held(opcode) + held(stream) + held(subject) + held(position) + held(first_edge) +
         held(edges) + held(first_use) + held(uses) + allocations.size() * sizeof(Allocation);
}

}  // namespace tidemark
