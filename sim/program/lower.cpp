#include "sim/program/lower.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

constexpr std::uint32_t kNever = Id<void>::kNone;

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
           const IdVector<GapId, Decision>& decisions, const LibraryWorkspaces& libraries)
      : graph_(graph),
        order_(order),
        live_(live),
        decisions_(decisions),
        libraries_(libraries),
        resident_(graph.storages.size()),
        on_host_(graph.storages.size()),
        releases_(order.at.size()),
        fetches_(order.at.size()),
        waits_(order.at.size()) {
    for (auto& clock : known_)
      clock.fill(kNever);
    tail_.fill(kNever);
  }

  StepProgram run();

 private:
  struct LastUse {  // of a block, by stream; kNever where a stream has not used it
    std::uint32_t writer = kNever;
    Stream writer_stream = Stream::kCompute;
    std::uint32_t pool_edge = kNever;  // compute's tail when the block was taken from its pool
    std::array<std::uint32_t, 3> by_stream{kNever, kNever, kNever};  // compute, copy out, copy in
  };

  void index_gaps();
  void assign_roles();
  void index_kept();
  void emit_position(Position p);
  void emit_operator(Position p);
  void copy_out(Position p, GapId gap);
  void fetch(Position p, GapId gap);
  void wait_for_copy(Position p, GapId gap);
  void release(Position p, GapId gap);

  std::uint32_t emit(Opcode opcode, std::uint8_t stream, std::uint32_t subject, Position p);
  BlockId allocate(Bytes bytes, StorageId storage, Role role, Tier tier, Position p);
  void free_block(BlockId block, Position p);
  void use(BlockId block, Access access, Stream stream, std::uint32_t instruction);
  void finish_instruction();
  void depend(Stream stream, Stream on, std::uint32_t instruction);

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const Liveness& live_;
  const IdVector<GapId, Decision>& decisions_;
  LibraryWorkspaces libraries_;
  StepProgram program_;
  IdVector<StorageId, Role> role_;
  IdVector<StorageId, BlockId> resident_;
  IdVector<StorageId, BlockId> on_host_;
  IdVector<BlockId, LastUse> last_;
  GapsAt releases_;
  GapsAt fetches_;
  GapsAt waits_;
  std::vector<std::uint32_t> kept_begins_;  // memory of frames, by `since` and by `until`
  std::vector<std::uint32_t> kept_ends_;
  std::vector<BlockId> kept_blocks_;
  std::size_t next_begin_ = 0;
  std::size_t next_end_ = 0;
  // known_[a][b]: the latest instruction of stream b that stream a has waited for.
  std::array<std::array<std::uint32_t, kStreams>, kStreams> known_{};
  std::array<std::uint32_t, kStreams> tail_{};  // latest instruction of each stream
  std::vector<BlockId> scratch_;                // freed when the operator has been issued
};

constexpr std::uint8_t index_of(Stream stream) {
  return static_cast<std::uint8_t>(stream);
}

// Orders two instruction numbers where kNever is before all.
bool later(std::uint32_t a, std::uint32_t b) {
  return a != kNever && (b == kNever || a > b);
}

void Lowering::index_gaps() {
  const auto each = [&](auto&& visit) {
    for (GapId id : ids_of(live_.gaps)) {
      const Gap& gap = live_.gaps[id];
      if (gap.dead) {
        visit(releases_, gap.release, id);
      } else if (const auto* offload = std::get_if<Offload>(&decisions_[id])) {
        visit(releases_, gap.release, id);
        visit(fetches_, offload->fetch_at, id);
        if (offload->release_at.valid()) visit(waits_, offload->release_at, id);
      }
    }
  };
  each([](GapsAt& list, Position p, GapId) { list.count(p); });
  releases_.allocate();
  fetches_.allocate();
  waits_.allocate();
  each([](GapsAt& list, Position p, GapId id) { list.add(p, id); });
  // Copies that are issued together go in the order in which they are needed.
  fetches_.sort([this](GapId a, GapId b) { return live_.gaps[a].to < live_.gaps[b].to; });
}

// What recomputation reads from forward is kept for backward although autograd has not saved it:
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

std::uint32_t Lowering::emit(Opcode opcode, std::uint8_t stream, std::uint32_t subject,
                             Position p) {
  const auto id = static_cast<std::uint32_t>(program_.size());
  program_.opcode.push_back(opcode);
  program_.stream.push_back(stream);
  program_.subject.push_back(subject);
  program_.position.push_back(p);
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

// Edges of one use: read after write, write after read, write after write, and the pool's.
void Lowering::use(BlockId block, Access access, Stream stream, std::uint32_t instruction) {
  LastUse& last = last_[block];
  depend(stream, last.writer_stream, last.writer);
  // Memory taken from the compute stream's pool may still be read by compute work issued before.
  if (stream != Stream::kCompute) depend(stream, Stream::kCompute, last.pool_edge);
  if (access != Access::kRead) {
    for (std::uint8_t s = 0; s < last.by_stream.size(); ++s) {
      depend(stream, static_cast<Stream>(s), last.by_stream[s]);
    }
    last.writer = instruction;
    last.writer_stream = stream;
  }
  last.by_stream[index_of(stream)] = instruction;
  program_.uses.emplace_back(block, access);
}

BlockId Lowering::allocate(Bytes bytes, StorageId storage, Role role, Tier tier, Position p) {
  const BlockId block =
      program_.blocks.push_back({.bytes = bytes, .storage = storage, .role = role, .tier = tier});
  last_.push_back({});
  if (tier == Tier::kDevice) last_[block].pool_edge = tail_[index_of(Stream::kCompute)];
  emit(Opcode::kAllocate, 0, block.value, p);
  finish_instruction();
  ++program_.allocations;
  return block;
}

// Streams that compute has not yet waited for may still use the block: it returns at their events.
void Lowering::free_block(BlockId block, Position p) {
  const LastUse& last = last_[block];
  const bool on_device = program_.blocks[block].tier == Tier::kDevice;
  std::uint8_t mask = 0;
  for (std::uint8_t s = 0; s < last.by_stream.size(); ++s) {
    const std::uint32_t use_by = last.by_stream[s];
    if (use_by == kNever) continue;
    const bool ordered =
        on_device && (s == index_of(Stream::kCompute) || !later(use_by, known_[0][s]));
    if (!ordered) mask = static_cast<std::uint8_t>(mask | (1U << s));
  }
  emit(Opcode::kFree, mask, block.value, p);
  finish_instruction();
}

void Lowering::copy_out(Position p, GapId gap) {
  const StorageId s = live_.gaps[gap].storage;
  const BlockId host = allocate(graph_.storages[s].bytes, s, role_[s], Tier::kHost, p);
  const std::uint32_t copy =
      emit(Opcode::kCopyOut, index_of(Stream::kCopyOut), resident_[s].value, p);
  use(resident_[s], Access::kRead, Stream::kCopyOut, copy);
  use(host, Access::kOverwrite, Stream::kCopyOut, copy);
  finish_instruction();
  tail_[index_of(Stream::kCopyOut)] = copy;
  on_host_[s] = host;
  if (!std::get<Offload>(decisions_[gap]).release_at.valid()) {
    free_block(resident_[s], p);
    resident_[s] = BlockId();
  }
}

void Lowering::wait_for_copy(Position p, GapId gap) {
  const StorageId s = live_.gaps[gap].storage;
  const std::uint32_t copy = last_[resident_[s]].by_stream[index_of(Stream::kCopyOut)];
  if (later(copy, known_[0][index_of(Stream::kCopyOut)])) {
    const std::uint32_t wait = emit(Opcode::kWait, index_of(Stream::kCompute), 0, p);
    depend(Stream::kCompute, Stream::kCopyOut, copy);
    finish_instruction();
    tail_[index_of(Stream::kCompute)] = wait;
  }
  free_block(resident_[s], p);
  resident_[s] = BlockId();
}

void Lowering::fetch(Position p, GapId gap) {
  const StorageId s = live_.gaps[gap].storage;
  const BlockId device = allocate(graph_.storages[s].bytes, s, role_[s], Tier::kDevice, p);
  const std::uint32_t copy = emit(Opcode::kCopyIn, index_of(Stream::kCopyIn), device.value, p);
  use(on_host_[s], Access::kRead, Stream::kCopyIn, copy);
  use(device, Access::kOverwrite, Stream::kCopyIn, copy);
  finish_instruction();
  tail_[index_of(Stream::kCopyIn)] = copy;
  free_block(on_host_[s], p);
  on_host_[s] = BlockId();
  resident_[s] = device;
}

void Lowering::release(Position p, GapId gap) {
  const StorageId s = live_.gaps[gap].storage;
  if (!live_.gaps[gap].dead) {
    copy_out(p, gap);
    return;
  }
  if (!resident_[s].valid()) return;
  free_block(resident_[s], p);
  resident_[s] = BlockId();
}

bool is_convolution(OperatorClass op_class) {
  return op_class == OperatorClass::kConvolution ||
         op_class == OperatorClass::kConvolutionBackwardData ||
         op_class == OperatorClass::kConvolutionBackwardWeight ||
         op_class == OperatorClass::kDepthwiseConvolution;
}

void Lowering::emit_operator(Position p) {
  const Occurrence& occurrence = order_.at[p];
  const Operator& op = graph_.operators[occurrence.op];
  const std::span<const Touch> touches = graph_.touches_of(occurrence.op);
  if (op.blocks_host) {
    emit(Opcode::kSynchronize, 0, occurrence.op.value, p);
    finish_instruction();
  }
  if (touches.empty()) return;  // a marker
  scratch_.clear();
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].access != Access::kCreate) continue;
    const Storage& storage = graph_.storages[touches[i].storage];
    const BlockId block =
        allocate(storage.bytes, touches[i].storage, role_[touches[i].storage], Tier::kDevice, p);
    if (is_scratch(occurrence, i)) {
      scratch_.push_back(block);
    } else {
      resident_[touches[i].storage] = block;
    }
  }
  if (op.work.op_class == OperatorClass::kMatmul && libraries_.matmul > Bytes(0) &&
      !program_.matmul_workspace.valid()) {
    program_.matmul_workspace = allocate(libraries_.matmul, {}, Role::kWorkspace, Tier::kDevice, p);
  }
  BlockId workspace;
  const Bytes needed =
      is_convolution(op.work.op_class)
          ? Bytes(std::llround(static_cast<double>(op.workspace.count) * libraries_.convolution))
          : op.workspace;
  if (needed > Bytes(0)) workspace = allocate(needed, {}, Role::kWorkspace, Tier::kDevice, p);
  const std::uint32_t launch =
      emit(Opcode::kLaunch, index_of(Stream::kCompute), occurrence.op.value, p);
  std::size_t next_scratch = 0;
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const bool to_scratch = touches[i].access == Access::kCreate && is_scratch(occurrence, i);
    const BlockId block = to_scratch ? scratch_[next_scratch++] : resident_[touches[i].storage];
    if (!block.valid()) {
      throw InternalError(fmt::format("{} touches '{}', which is not resident",
                                      graph_.describe(occurrence.op),
                                      graph_.storages[touches[i].storage].name));
    }
    use(block, touches[i].access, Stream::kCompute, launch);
  }
  if (workspace.valid()) use(workspace, Access::kCreate, Stream::kCompute, launch);
  finish_instruction();
  tail_[index_of(Stream::kCompute)] = launch;
  if (workspace.valid()) free_block(workspace, p);
  for (BlockId block : scratch_)
    free_block(block, p);
}

// Memory that frames keep beside storages.
void Lowering::index_kept() {
  for (std::uint32_t k = 0; k < order_.kept.size(); ++k) {
    if (!order_.kept[k].storage.valid()) kept_begins_.push_back(k);
  }
  kept_ends_ = kept_begins_;
  kept_blocks_.resize(order_.kept.size());
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
    kept_blocks_[k] = allocate(order_.kept[k].bytes, {}, Role::kTemporary, Tier::kDevice, p);
  }
  for (GapId gap : waits_.at(p))
    wait_for_copy(p, gap);
  for (GapId gap : fetches_.at(p))
    fetch(p, gap);
  emit_operator(p);
  for (GapId gap : releases_.at(p))
    release(p, gap);
  for (; next_end_ < kept_ends_.size() && order_.kept[kept_ends_[next_end_]].until == p;
       ++next_end_) {
    free_block(kept_blocks_[kept_ends_[next_end_]], p);
  }
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
    // What is computed again for backward belongs to backward.
    program_.slot.push_back(
        {.phase = occurrence.recompute ? Phase::kBackward : graph_.operators[occurrence.op].phase,
         .last_step = occurrence.step + 1 == order_.steps,
         .recompute = occurrence.recompute});
  }
  assign_roles();
  for (StorageId s : ids_of(graph_.storages)) {
    if (!graph_.storages[s].initial) continue;
    resident_[s] =
        allocate(graph_.storages[s].bytes, s, role_[s], Tier::kDevice, Position(std::uint32_t{0}));
  }
  for (Position p : ids_of(order_.at))
    emit_position(p);
  return std::move(program_);
}

}  // namespace

StepProgram lower(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                  const IdVector<GapId, Decision>& decisions, const LibraryWorkspaces& libraries) {
  return Lowering(graph, order, live, decisions, libraries).run();
}

std::size_t StepProgram::memory_bytes() const {
  const auto held = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return held(opcode) + held(stream) + held(subject) + held(position) + held(first_edge) +
         held(edges) + held(first_use) + held(uses) + blocks.size() * sizeof(Block);
}

}  // namespace tidemark
