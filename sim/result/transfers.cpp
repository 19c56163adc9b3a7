#include "sim/result/transfers.hpp"

#include <algorithm>

#include "sim/engine/waits.hpp"

namespace tidemark {
namespace transfers_detail {
namespace {

constexpr std::array<Stream, 4> kLinks{Stream::kCopyOut, Stream::kCopyIn, Stream::kNvmeRead,
                                       Stream::kNvmeWrite};

bool is_link_copy(Opcode opcode) {
  return opcode == Opcode::kCopyOut || opcode == Opcode::kCopyIn || opcode == Opcode::kNvmeRead ||
         opcode == Opcode::kNvmeWrite;
}

// Returns the time that compute has lost to each instruction of the last step.
std::vector<std::int64_t> losses(const StepProgram& program, const Scratch& scratch) {
  std::vector<std::int64_t> lost(program.size(), 0);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    const bool work = program.opcode[i] == Opcode::kLaunch || program.opcode[i] == Opcode::kWait;
    if (!work || !compute || scratch.started[i] < 0) continue;
    if (!program.slot[program.position[i].index()].last_step) continue;
    const std::uint32_t before = scratch.previous[i];
    const std::int64_t free = before == kNoInstruction ? 0 : scratch.finished[before];
    const std::int64_t from = std::max(free, scratch.enqueued[i]);
    trace_wait(program, scratch, i, from, scratch.started[i],
               [&](std::uint32_t cause, std::int64_t time) { lost[cause] += time; });
  }
  return lost;
}

// Puts the copies of each storage together: a tensor's stay off the device ends with its copy in.
class Stays {
 public:
  Stays(const TrainingGraph& graph, const StepProgram& program, const Scratch& scratch)
      : program_(program),
        scratch_(scratch),
        lost_(losses(program, scratch)),
        open_(graph.storages.size()),
        begin_(graph.storages.size(), -1) {}

  void copy(std::uint32_t i) {
    const StorageId s = program_.allocations[AllocationId(program_.subject[i])].storage;
    MovedTensor& stay = open_[s];
    if (begin_[s] < 0) {
      stay = {.storage = s, .bytes = program_.allocations[AllocationId(program_.subject[i])].bytes};
      begin_[s] = ready(i);
    }
    stay.copies += Duration(scratch_.finished[i] - scratch_.started[i]);
    stay.stall += Duration(lost_[i]);
    const Opcode opcode = program_.opcode[i];
    if (opcode == Opcode::kNvmeRead || opcode == Opcode::kNvmeWrite) stay.farthest = Tier::kNvme;
    last_end_ = scratch_.finished[i];
    if (opcode == Opcode::kCopyIn) awaiting_use_.push_back({AllocationId(program_.subject[i]), s});
  }
  // Notes the first launch that reads what a copy has brought.
  void launch(std::uint32_t i, std::vector<MovedTensor>& moved) {
    if (awaiting_use_.empty()) return;
    for (AllocationUse use : program_.uses_of(i)) {
      const auto at = std::find_if(awaiting_use_.begin(), awaiting_use_.end(),
                                   [&](const auto& a) { return a.first == use.allocation(); });
      if (at == awaiting_use_.end()) continue;
      close(at->second, scratch_.started[i], moved);
      awaiting_use_.erase(at);
    }
  }
  void close_all(std::vector<MovedTensor>& moved) {
    for (StorageId s : ids_of(open_)) {
      if (begin_[s] >= 0) close(s, std::max(last_end_, begin_[s]), moved);
    }
  }

 private:
  // Returns the time at which a copy could have started: its operands were ready.
  [[nodiscard]] std::int64_t ready(std::uint32_t i) const {
    std::int64_t at = scratch_.enqueued[i];
    for (std::uint32_t edge : program_.edges_of(i))
      at = std::max(at, scratch_.finished[edge]);
    return std::min(at, scratch_.started[i]);
  }
  void close(StorageId s, std::int64_t now, std::vector<MovedTensor>& moved) {
    if (begin_[s] < 0) return;
    open_[s].window = Duration(now - begin_[s]);
    moved.push_back(open_[s]);
    begin_[s] = -1;
  }

  const StepProgram& program_;
  const Scratch& scratch_;
  std::vector<std::int64_t> lost_;
  IdVector<StorageId, MovedTensor> open_;
  IdVector<StorageId, std::int64_t> begin_;
  std::vector<std::pair<AllocationId, StorageId>> awaiting_use_;
  std::int64_t last_end_ = 0;
};

constexpr char bit_of(Tier tier) {
  return static_cast<char>(1 << static_cast<int>(tier));
}

// Marks the tiers that hold each storage after the first `events` events, with one bit per tier.
IdVector<StorageId, char> tiers_that_hold(const TrainingGraph& graph, const StepProgram& program,
                                          const Scratch& scratch, std::size_t events) {
  IdVector<StorageId, char> tiers(graph.storages.size(), 0);
  for (std::size_t e = 0; e < std::min(events, scratch.events.size()); ++e) {
    const MemoryEvent& event = scratch.events[e];
    const Allocation& allocation = program.allocations[event.allocation];
    if (event.sign == 0 || !allocation.storage.valid()) continue;
    const char bit = bit_of(allocation.tier);
    char& held = tiers[allocation.storage];
    held = static_cast<char>(event.sign > 0 ? held | bit : held & ~bit);
  }
  return tiers;
}

}  // namespace
}  // namespace transfers_detail

double TransferReport::hidden() const {
  if (copies <= Duration(0)) return 1;
  return std::clamp(1 - static_cast<double>(exposed.count()) / static_cast<double>(copies.count()),
                    0.0, 1.0);
}

Duration copy_time(const RunResult& run) {
  Duration time{};
  for (Stream link : transfers_detail::kLinks)
    time += run.busy[static_cast<std::size_t>(link)];
  return time;
}

double hidden_share(const RunResult& run) {
  return TransferReport{.tensors = {}, .copies = copy_time(run), .exposed = run.exposed_transfer}
      .hidden();
}

TransferReport transfers(const TrainingGraph& graph, const StepProgram& program,
                         const Scratch& scratch, const RunResult& run) {
  TransferReport report{.tensors = {}, .copies = copy_time(run), .exposed = run.exposed_transfer};
  transfers_detail::Stays stays(graph, program, scratch);
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (!program.slot[program.position[i].index()].last_step || scratch.finished[i] < 0) continue;
    const Opcode opcode = program.opcode[i];
    if (opcode == Opcode::kLaunch) stays.launch(i, report.tensors);
    if (!transfers_detail::is_link_copy(opcode)) continue;
    stays.copy(i);
    const std::int64_t bytes = program.copied_bytes(i).count;
    if (opcode == Opcode::kCopyOut) report.bytes_out.count += bytes;
    if (opcode == Opcode::kCopyIn) report.bytes_in.count += bytes;
  }
  stays.close_all(report.tensors);

  // A value is off the device at the peak when some tier holds it and the device does not.
  const std::size_t events = run.live.events;
  const IdVector<StorageId, char> tiers =
      transfers_detail::tiers_that_hold(graph, program, scratch, events);
  const auto saves = [&](StorageId s) {
    return tiers[s] != 0 && (tiers[s] & transfers_detail::bit_of(Tier::kDevice)) == 0;
  };
  for (StorageId s : ids_of(graph.storages)) {
    if (saves(s)) report.saved_at_peak.count += graph.storages[s].bytes.count;
  }
  for (MovedTensor& tensor : report.tensors)
    tensor.saves_at_peak = saves(tensor.storage);
  std::stable_sort(report.tensors.begin(), report.tensors.end(),
                   [](const MovedTensor& a, const MovedTensor& b) {
                     return a.stall != b.stall ? a.stall > b.stall : a.bytes > b.bytes;
                   });
  return report;
}

BytesByRole held_by_role(const StepProgram& program, const Scratch& scratch, Tier tier,
                         std::size_t events) {
  BytesByRole held{};
  Bytes before;
  for (std::size_t e = 0; e < std::min(events, scratch.events.size()); ++e) {
    const MemoryEvent& event = scratch.events[e];
    const Allocation& allocation = program.allocations[event.allocation];
    if (allocation.tier != tier) continue;
    // A buffer that is freed while a stream uses it counts until the stream has passed.
    held[static_cast<std::size_t>(allocation.role)] += event.active - before;
    before = event.active;
  }
  return held;
}

}  // namespace tidemark
