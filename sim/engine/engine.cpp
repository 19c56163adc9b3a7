#include "sim/engine/engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/engine/eviction.hpp"

namespace tidemark {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kNone = kNoInstruction;
constexpr std::size_t kCompute = static_cast<std::size_t>(Stream::kCompute);
constexpr std::size_t kOut = static_cast<std::size_t>(Stream::kCopyOut);
constexpr std::size_t kIn = static_cast<std::size_t>(Stream::kCopyIn);

// An in-order queue: the instruction that runs and those behind it.
struct Queue {
  std::uint32_t running = kNone;
  std::int64_t ends = kForever;
  std::uint32_t head = kNone;
  std::uint32_t tail = kNone;    // last queued
  std::uint32_t issued = kNone;  // last issued ever: what an event recorded now waits for
  std::int64_t free_since = 0;   // when the last instruction ended
  // A running copy: what is left of it, and how fast it moves at the moment.
  double bytes_left = 0;
  double ns_per_byte = 0;
  std::int64_t updated = 0;
};

// Blocks made again on demand; only present with an eviction policy.
struct Evictor {
  EvictionPolicy* policy = nullptr;
  EvictionFacts facts;
  std::vector<char> resident;             // by block
  std::vector<char> evicted;              // by block: dropped while the program still owns it
  std::vector<char> pinned;               // by block
  std::vector<std::int64_t> last_access;  // by block, ns of the issue clock
  std::vector<EvictableBlock> view;
};

template <class A>
class Engine {
 public:
  Engine(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
         const RunOptions& options)
      : program_(program),
        costs_(costs),
        allocator_(allocator),
        scratch_(scratch),
        options_(options),
        count_(static_cast<std::uint32_t>(program.size())) {}

  RunResult run();

 private:
  // Host.
  void issue();
  void allocate(BlockId block);
  [[nodiscard]] bool allocate_device(BlockId block, std::int64_t bytes);
  bool try_allocate(BlockId block, std::int64_t bytes, bool again = false);
  void free(std::uint32_t i, BlockId block);
  void enqueue(std::uint32_t i);
  void synchronize();
  void notice_events();
  void fail(RunStatus status, BlockId block = {});
  void schedule_issue();
  // Streams.
  void start_ready(std::int64_t now);
  [[nodiscard]] bool edges_ended(std::uint32_t i) const;
  void start(std::size_t s, std::int64_t now);
  void end(std::size_t s, std::int64_t now);
  void retime_copies(std::int64_t now);
  void account_wait(std::uint32_t i, std::int64_t now);
  [[nodiscard]] std::int64_t earliest_end() const;
  // Accounting.
  void change_live(BlockId block, int sign) {
    const Block& b = program_.blocks[block];
    live_ += sign * b.bytes.count;
    if (b.role == Role::kWorkspace) workspace_ += sign * b.bytes.count;
  }
  void give_back(BlockId block) {
    if (program_.blocks[block].bytes.count > 0) allocator_.free(block);
  }
  void record(BlockId block, int sign);
  void note_peaks();
  void raise(Peak& peak, std::int64_t bytes) const;
  void note_phase_peak();
  [[nodiscard]] const Slot& slot(std::uint32_t i) const {
    return program_.slot[program_.position[i].index()];
  }
  // Eviction.
  void prepare_eviction();
  bool evict_one(std::int64_t requested);
  void pin_next_launch(bool pinned);
  void restore_inputs(std::uint32_t launch);
  bool restore(std::uint32_t launch);
  void drop(BlockId block);

  const StepProgram& program_;
  const CostTable& costs_;
  A& allocator_;
  Scratch& scratch_;
  const RunOptions& options_;
  const std::uint32_t count_;
  RunResult result_;
  Evictor evictor_;
  std::array<Queue, kStreams> queues_{};
  std::uint32_t pc_ = 0;
  std::int64_t host_ = 0;        // the host's clock
  std::int64_t next_issue_ = 0;  // kForever when the program is over
  std::int64_t injected_ = 0;    // compute time of restored operators before the next launch
  std::int64_t live_ = 0;
  std::int64_t workspace_ = 0;
  std::int64_t host_live_ = 0;
  bool events_ended_ = false;  // a side stream has made progress since the last look
  bool stopped_ = false;
};

template <class A>
RunResult Engine<A>::run() {
  if (options_.eviction != nullptr) prepare_eviction();
  schedule_issue();
  while (!stopped_) {
    const std::int64_t end_time = earliest_end();
    if (end_time == kForever && next_issue_ == kForever) break;
    if (end_time <= next_issue_) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (queues_[s].ends == end_time) end(s, end_time);
      }
      start_ready(end_time);
    } else {
      // The host goes on until something ends.
      while (!stopped_ && next_issue_ < earliest_end())
        issue();
    }
  }
  for (const Queue& queue : queues_) {
    if (!stopped_ && queue.head != kNone) fail(RunStatus::kDeadlock);
    result_.total = std::max(result_.total, Duration(queue.free_since));
  }
  for (Duration d : result_.phase)
    result_.step += d;
  if constexpr (requires { allocator_.segments(); }) result_.segments = allocator_.segments();
  return result_;
}

template <class A>
std::int64_t Engine<A>::earliest_end() const {
  std::int64_t earliest = queues_[0].ends;
  for (std::size_t s = 1; s < kStreams; ++s)
    earliest = std::min(earliest, queues_[s].ends);
  return earliest;
}

// The host pays for an instruction before the device sees it.
template <class A>
void Engine<A>::schedule_issue() {
  next_issue_ = kForever;
  if (pc_ == count_) return;
  next_issue_ = host_;
  if (program_.opcode[pc_] == Opcode::kLaunch) {
    next_issue_ += costs_.dispatch[OperatorId(program_.subject[pc_])].count();
  } else if (program_.opcode[pc_] == Opcode::kCopyOut || program_.opcode[pc_] == Opcode::kCopyIn) {
    next_issue_ += costs_.copy_dispatch.count();
  }
}

template <class A>
void Engine<A>::issue() {
  const std::uint32_t i = pc_;
  host_ = next_issue_;
  switch (program_.opcode[i]) {
    case Opcode::kAllocate:
      allocate(BlockId(program_.subject[i]));
      break;
    case Opcode::kFree:
      free(i, BlockId(program_.subject[i]));
      break;
    case Opcode::kLaunch:
      if (options_.eviction != nullptr) restore_inputs(i);
      if (stopped_) return;
      note_phase_peak();
      enqueue(i);
      break;
    case Opcode::kCopyOut:
    case Opcode::kCopyIn:
    case Opcode::kWait:
      enqueue(i);
      break;
    case Opcode::kSynchronize:
      synchronize();
      break;
  }
  if (stopped_) return;
  ++pc_;
  schedule_issue();
}

// --- Host: memory ---

template <class A>
void Engine<A>::record(BlockId block, int sign) {
  if (!options_.record_events) return;
  const bool device = program_.blocks[block].tier == Tier::kDevice;
  scratch_.events.push_back({.instruction = pc_,
                             .block = block,
                             .sign = sign,
                             .active = device ? allocator_.active() : host_live_,
                             .reserved = allocator_.reserved()});
}

template <class A>
void Engine<A>::note_peaks() {
  result_.most_live = std::max(result_.most_live, live_);
  result_.most_reserved = std::max(result_.most_reserved, allocator_.reserved());
  const Slot& at = slot(pc_);
  if (!at.last_step) return;
  raise(result_.live, live_);
  raise(result_.live_without_workspace, live_ - workspace_);
  raise(result_.allocated, allocator_.active());
  raise(result_.reserved, allocator_.reserved());
  note_phase_peak();
}

template <class A>
void Engine<A>::raise(Peak& peak, std::int64_t bytes) const {
  if (bytes > peak.bytes) peak = {bytes, pc_, scratch_.events.size()};
}

// A phase that allocates nothing still runs beside everything that is live; what its first free
// returns, it found there.
template <class A>
void Engine<A>::note_phase_peak() {
  const Slot& at = slot(pc_);
  if (!at.last_step) return;
  const auto phase = static_cast<std::size_t>(at.phase);
  raise(result_.phase_live[phase], live_);
  raise(result_.phase_live_without_workspace[phase], live_ - workspace_);
}

template <class A>
void Engine<A>::allocate(BlockId block) {
  const Block& b = program_.blocks[block];
  const std::int64_t bytes = b.bytes.count;
  if (b.tier == Tier::kHost) {
    notice_events();
    if (host_live_ + bytes > options_.host_capacity.count && !scratch_.pending.empty()) {
      synchronize();
    }
    if (host_live_ + bytes > options_.host_capacity.count) {
      fail(RunStatus::kOutOfHostMemory, block);
      return;
    }
    host_live_ += bytes;
    if (slot(pc_).last_step && host_live_ > result_.host.bytes) {
      result_.host = {host_live_, pc_, scratch_.events.size()};
    }
    record(block, +1);
    return;
  }
  if (!allocate_device(block, bytes)) {
    if (!stopped_) fail(RunStatus::kOutOfMemory, block);
    return;
  }
  change_live(block, +1);
  record(block, +1);
  note_peaks();
}

template <class A>
bool Engine<A>::try_allocate(BlockId block, std::int64_t bytes, bool again) {
  Allocation allocation{.ok = true};
  if (bytes > 0) {  // requests for nothing never reach the allocator
    allocation =
        again ? allocator_.allocate_again(block, bytes) : allocator_.allocate(block, bytes);
  }
  host_ += allocation.device_mallocs * costs_.device_malloc.count() +
           allocation.device_frees * costs_.device_free.count();
  if (allocation.ok && options_.eviction != nullptr) evictor_.resident[block.index()] = 1;
  return allocation.ok;
}

// As the caching allocator retries: events that have ended, then a synchronisation and everything
// cached, then whatever the eviction policy gives up.
template <class A>
bool Engine<A>::allocate_device(BlockId block, std::int64_t bytes) {
  notice_events();
  if (try_allocate(block, bytes)) return true;
  if (!scratch_.pending.empty()) synchronize();
  const int released = allocator_.release_cached();
  host_ += released * costs_.device_free.count();
  ++result_.retries;
  if (try_allocate(block, bytes, true)) return true;
  while (options_.eviction != nullptr && evict_one(bytes)) {
    if (try_allocate(block, bytes)) return true;
    allocator_.release_cached();
    if (try_allocate(block, bytes)) return true;
  }
  return false;
}

template <class A>
void Engine<A>::free(std::uint32_t i, BlockId block) {
  const Block& b = program_.blocks[block];
  if (options_.eviction != nullptr && b.tier == Tier::kDevice) {
    evictor_.resident[block.index()] = 0;
    if (evictor_.evicted[block.index()] != 0) {  // nothing is there
      evictor_.evicted[block.index()] = 0;
      return;
    }
  }
  if (b.tier == Tier::kDevice) {
    note_phase_peak();
    change_live(block, -1);
  }
  std::array<std::uint32_t, kStreams> events{};
  events.fill(kNone);
  bool waits = false;
  const std::uint8_t mask = program_.stream[i];
  for (std::size_t s = 0; mask != 0 && s < kStreams; ++s) {
    const std::uint32_t last = queues_[s].issued;
    if (((mask >> s) & 1U) == 0 || last == kNone || scratch_.finished[last] >= 0) continue;
    events[s] = last;
    waits = true;
  }
  if (waits) {
    if (b.tier == Tier::kDevice && b.bytes.count > 0) allocator_.defer_free(block);
    scratch_.pending.push_back(block.value);
    scratch_.event_of.push_back(events);
    record(block, -1);
    return;
  }
  if (b.tier == Tier::kDevice) {
    give_back(block);
  } else {
    host_live_ -= b.bytes.count;
  }
  record(block, -1);
}

// Blocks whose events have all ended return to their pools; looked at when memory is asked for.
template <class A>
void Engine<A>::notice_events() {
  if (!events_ended_ || scratch_.pending.empty()) return;
  events_ended_ = false;
  std::size_t kept = 0;
  for (std::size_t p = 0; p < scratch_.pending.size(); ++p) {
    bool ended = true;
    for (std::uint32_t event : scratch_.event_of[p]) {
      ended = ended && (event == kNone || scratch_.finished[event] >= 0);
    }
    const BlockId block(scratch_.pending[p]);
    if (!ended) {
      scratch_.pending[kept] = scratch_.pending[p];
      scratch_.event_of[kept++] = scratch_.event_of[p];
      continue;
    }
    if (program_.blocks[block].tier == Tier::kDevice) {
      give_back(block);
    } else {
      host_live_ -= program_.blocks[block].bytes.count;
    }
    record(block, 0);
  }
  scratch_.pending.resize(kept);
  scratch_.event_of.resize(kept);
}

// The host waits until everything that it has issued is over.
template <class A>
void Engine<A>::synchronize() {
  std::int64_t now = host_;
  for (std::int64_t next = earliest_end(); next != kForever; next = earliest_end()) {
    now = std::max(now, next);
    for (std::size_t s = 0; s < kStreams; ++s) {
      if (queues_[s].ends == next) end(s, next);
    }
    start_ready(next);
  }
  host_ = now + costs_.synchronize.count();
  events_ended_ = true;
  notice_events();
}

template <class A>
void Engine<A>::fail(RunStatus status, BlockId block) {
  result_.status = status;
  result_.failed_instruction = pc_;
  result_.failed_block = block;
  if (block.valid()) result_.requested = program_.blocks[block].bytes.count;
  result_.live_at_failure = live_;
  result_.reserved_at_failure = allocator_.reserved();
  if (status != RunStatus::kDeadlock) ++result_.ooms;
  stopped_ = true;
}

// --- Streams ---

template <class A>
void Engine<A>::enqueue(std::uint32_t i) {
  Queue& queue = queues_[program_.stream[i]];
  scratch_.enqueued[i] = host_;
  scratch_.finished[i] = -1;
  scratch_.next[i] = kNone;
  if (queue.head == kNone) {
    queue.head = i;
  } else {
    scratch_.next[queue.tail] = i;
  }
  queue.tail = i;
  queue.issued = i;
  if (options_.eviction != nullptr && program_.stream[i] == kCompute) {
    scratch_.restored[i] = std::exchange(injected_, 0);
  }
  if (queue.running == kNone && queue.head == i && host_ < earliest_end() && edges_ended(i)) {
    start(program_.stream[i], host_);
  }
}

template <class A>
bool Engine<A>::edges_ended(std::uint32_t i) const {
  for (std::uint32_t edge : program_.edges_of(i)) {
    if (scratch_.finished[edge] < 0) return false;
  }
  return true;
}

template <class A>
void Engine<A>::start_ready(std::int64_t now) {
  for (std::size_t s = 0; s < kStreams; ++s) {
    Queue& queue = queues_[s];
    while (queue.running == kNone && queue.head != kNone && edges_ended(queue.head)) {
      start(s, now);
      if (queue.ends != now) break;
      end(s, now);  // a wait takes no time
    }
  }
}

// Time that the compute stream stood still before an instruction, by cause.
template <class A>
void Engine<A>::account_wait(std::uint32_t i, std::int64_t now) {
  const std::int64_t free_since = queues_[kCompute].free_since;
  const std::int64_t idle = now - free_since;
  if (idle <= 0) return;
  const std::int64_t host = std::clamp<std::int64_t>(scratch_.enqueued[i] - free_since, 0, idle);
  result_.host_bound += Duration(host);
  if (idle == host) return;
  std::int64_t latest = -1;
  std::uint8_t cause = static_cast<std::uint8_t>(Stream::kHostWorker);
  for (std::uint32_t edge : program_.edges_of(i)) {
    if (scratch_.finished[edge] <= latest) continue;
    latest = scratch_.finished[edge];
    cause = program_.stream[edge];
  }
  const Duration waited(idle - host);
  if (cause == kOut || cause == kIn) result_.exposed_transfer += waited;
  if (cause == static_cast<std::uint8_t>(Stream::kCommunication)) {
    result_.exposed_communication += waited;
  }
}

template <class A>
void Engine<A>::start(std::size_t s, std::int64_t now) {
  Queue& queue = queues_[s];
  const std::uint32_t i = queue.head;
  queue.head = scratch_.next[i];
  queue.running = i;
  // Restored operators run right before the launch that needs them.
  const std::int64_t restored =
      options_.eviction != nullptr && s == kCompute ? scratch_.restored[i] : 0;
  if (slot(i).last_step && !slot(i).recompute) result_.recompute += Duration(restored);
  now = std::max(now, scratch_.enqueued[i]);
  const bool counts = s == kCompute && slot(i).last_step;
  if (counts) account_wait(i, now);
  scratch_.started[i] = now;
  switch (program_.opcode[i]) {
    case Opcode::kLaunch: {
      std::int64_t duration = costs_.device[OperatorId(program_.subject[i])].count();
      const double tax = (queues_[kOut].running != kNone ? costs_.tax_copy_out : 0) +
                         (queues_[kIn].running != kNone ? costs_.tax_copy_in : 0);
      if (tax > 0) duration += std::llround(static_cast<double>(duration) * tax);
      queue.ends = now + restored + duration;
      return;
    }
    case Opcode::kCopyOut:
    case Opcode::kCopyIn: {
      const BlockId block(program_.subject[i]);
      queue.bytes_left = static_cast<double>(program_.blocks[block].bytes.count);
      queue.ns_per_byte = 0;
      queue.updated = now + (s == kOut ? costs_.copy_out : costs_.copy_in).latency.count();
      retime_copies(now);
      return;
    }
    default:
      queue.ends = now;
      return;
  }
}

// Both directions of the link share it: what is left of a copy goes on at the rate of the moment.
template <class A>
void Engine<A>::retime_copies(std::int64_t now) {
  const bool both = queues_[kOut].running != kNone && queues_[kIn].running != kNone;
  for (std::size_t s : {kOut, kIn}) {
    Queue& queue = queues_[s];
    if (queue.running == kNone) continue;
    const CostTable::Link& link = s == kOut ? costs_.copy_out : costs_.copy_in;
    const double rate = both ? link.ns_per_byte_duplex : link.ns_per_byte_alone;
    if (rate == queue.ns_per_byte) continue;
    if (now > queue.updated && queue.ns_per_byte > 0) {
      queue.bytes_left -= static_cast<double>(now - queue.updated) / queue.ns_per_byte;
      queue.updated = now;
    }
    queue.ns_per_byte = rate;
    const double left = std::max(queue.bytes_left, 0.0) * rate;
    queue.ends = std::max(now, queue.updated) + std::llround(left);
  }
}

template <class A>
void Engine<A>::end(std::size_t s, std::int64_t now) {
  Queue& queue = queues_[s];
  const std::uint32_t i = queue.running;
  scratch_.finished[i] = now;
  const Slot& at = slot(i);
  if (at.last_step) {
    const Duration busy(now - scratch_.started[i]);
    result_.busy[s] += busy;
    if (s == kCompute) {
      result_.phase[static_cast<std::size_t>(at.phase)] += Duration(now - queue.free_since);
      if (at.recompute) result_.recompute += busy;
    }
  }
  queue.free_since = now;
  queue.running = kNone;
  queue.ends = kForever;
  if (s == kOut || s == kIn) retime_copies(now);
  if (!scratch_.pending.empty()) events_ended_ = true;
}

// --- Eviction: blocks dropped when an allocation fails and made again when something needs them
// ---

template <class A>
void Engine<A>::prepare_eviction() {
  const std::size_t blocks = program_.blocks.size();
  evictor_.policy = options_.eviction;
  evictor_.facts = eviction_facts(program_);
  evictor_.resident.assign(blocks, 0);
  evictor_.evicted.assign(blocks, 0);
  evictor_.pinned.assign(blocks, 0);
  evictor_.last_access.assign(blocks, 0);
  scratch_.restored.assign(program_.size(), 0);
}

// What the launch that is being prepared reads and writes stays.
template <class A>
void Engine<A>::pin_next_launch(bool pinned) {
  std::uint32_t i = pc_;
  while (i < count_ && program_.opcode[i] != Opcode::kLaunch)
    ++i;
  if (i == count_) return;
  for (BlockUse use : program_.uses_of(i))
    evictor_.pinned[use.block().index()] = pinned ? 1 : 0;
}

template <class A>
void Engine<A>::drop(BlockId block) {
  give_back(block);
  evictor_.resident[block.index()] = 0;
  change_live(block, -1);
  record(block, -1);
}

template <class A>
bool Engine<A>::evict_one(std::int64_t requested) {
  std::vector<char> before = evictor_.pinned;
  pin_next_launch(true);
  evictor_.view.clear();
  for (BlockId block : ids_of(program_.blocks)) {
    const std::size_t b = block.index();
    if (evictor_.resident[b] == 0 || evictor_.facts.evictable[b] == 0 || evictor_.pinned[b] != 0) {
      continue;
    }
    if (program_.blocks[block].bytes.count == 0) continue;  // gains nothing
    const std::uint32_t producer = evictor_.facts.producer[b];
    if (producer >= pc_) continue;  // its content has not been made yet
    evictor_.view.push_back(
        {.block = block,
         .bytes = program_.blocks[block].bytes,
         .address = allocator_.address(block),
         .last_access = Duration(evictor_.last_access[b]),
         .recompute_cost = costs_.device[OperatorId(program_.subject[producer])]});
  }
  evictor_.pinned = std::move(before);
  if (evictor_.view.empty()) return false;
  const std::size_t chosen = evictor_.policy->choose(
      {.now = Duration(host_), .requested = Bytes(requested), .evictable = evictor_.view});
  const BlockId block = evictor_.view.at(chosen).block;
  drop(block);
  evictor_.evicted[block.index()] = 1;
  ++result_.evictions;
  return true;
}

template <class A>
void Engine<A>::restore_inputs(std::uint32_t launch) {
  for (BlockUse use : program_.uses_of(launch)) {
    const std::size_t b = use.block().index();
    if (evictor_.evicted[b] != 0 && !restore(evictor_.facts.producer[b])) return;
    evictor_.last_access[b] = host_;
  }
}

// Runs a launch again in host order. Its inputs come first: evicted ones return, those that the
// program has freed already come back as guests and leave after this repetition.
template <class A>
bool Engine<A>::restore(std::uint32_t first) {
  struct Frame {
    std::uint32_t launch;
    std::size_t next_input = 0;
    std::vector<BlockId> guests;
    std::vector<BlockId> pins;
  };
  std::vector<Frame> stack;
  stack.push_back({.launch = first});
  const auto pin = [&](Frame& frame, BlockId block) {
    if (evictor_.pinned[block.index()] != 0) return;
    evictor_.pinned[block.index()] = 1;
    frame.pins.push_back(block);
  };
  // Pins the inputs of the launch at hand for the whole restoration.
  Frame outer{.launch = pc_};
  for (BlockUse use : program_.uses_of(pc_))
    pin(outer, use.block());
  while (!stack.empty() && !stopped_) {
    Frame& frame = stack.back();
    const std::span<const BlockUse> uses = program_.uses_of(frame.launch);
    bool descended = false;
    while (frame.next_input < uses.size()) {
      const BlockUse use = uses[frame.next_input++];
      if (use.access() != Access::kRead) continue;
      const std::size_t b = use.block().index();
      pin(frame, use.block());
      if (evictor_.resident[b] != 0 || evictor_.facts.producer[b] == kNone) continue;
      if (evictor_.evicted[b] == 0) frame.guests.push_back(use.block());
      stack.push_back({.launch = evictor_.facts.producer[b]});
      descended = true;
      break;
    }
    if (descended) continue;
    // All inputs are there: allocate the outputs, run, let scratch and guests go.
    Frame done = std::move(stack.back());
    stack.pop_back();
    std::vector<BlockId> scratch_outputs;
    for (BlockUse use : program_.uses_of(done.launch)) {
      if (use.access() != Access::kCreate) continue;
      const std::size_t b = use.block().index();
      const bool is_guest_of_caller =
          !stack.empty() && std::find(stack.back().guests.begin(), stack.back().guests.end(),
                                      use.block()) != stack.back().guests.end();
      const bool wanted = evictor_.evicted[b] != 0 || is_guest_of_caller;
      if (evictor_.resident[b] != 0) continue;  // writing it again gives the same content
      pin(outer, use.block());
      if (!allocate_device(use.block(), program_.blocks[use.block()].bytes.count)) {
        if (!stopped_) fail(RunStatus::kOutOfMemory, use.block());
        break;
      }
      change_live(use.block(), +1);
      record(use.block(), +1);
      note_peaks();
      evictor_.evicted[b] = 0;
      if (!wanted) scratch_outputs.push_back(use.block());
    }
    if (stopped_) break;
    const OperatorId op(program_.subject[done.launch]);
    host_ += costs_.dispatch[op].count();
    injected_ += costs_.device[op].count();
    ++result_.restores;
    for (BlockId block : scratch_outputs)
      drop(block);
    for (BlockId block : done.guests)
      drop(block);
    for (BlockId block : done.pins)
      evictor_.pinned[block.index()] = 0;
  }
  for (BlockId block : outer.pins)
    evictor_.pinned[block.index()] = 0;
  return !stopped_;
}

}  // namespace

void Scratch::prepare(const StepProgram& program, bool record_events) {
  const std::size_t n = program.size();
  started.assign(n, -1);
  finished.assign(n, -1);
  enqueued.assign(n, 0);
  next.assign(n, kNone);
  events.clear();
  pending.clear();
  event_of.clear();
  std::size_t deferred = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (program.opcode[i] == Opcode::kFree && program.stream[i] != 0) ++deferred;
  }
  pending.reserve(deferred);
  event_of.reserve(deferred);
  if (record_events) events.reserve(2 * program.allocations + deferred);
}

std::size_t Scratch::memory_bytes() const {
  const auto held = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return held(started) + held(finished) + held(enqueued) + held(next) + held(events) +
         held(pending) + held(event_of);
}

template <class A>
RunResult run(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
              const RunOptions& options) {
  return Engine<A>(program, costs, allocator, scratch, options).run();
}

template RunResult run(const StepProgram&, const CostTable&, IdealAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, TorchAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, BfcAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, PackedAllocator&, Scratch&,
                       const RunOptions&);

}  // namespace tidemark
