// The event loop's state. Its functions are grouped by subject: the host and its memory
// (event_loop_host.hpp), the streams (event_loop_streams.hpp), eviction (event_loop_eviction.hpp).
// Only event_loop_run.hpp includes them; everything else calls run(). The namespace is anonymous,
// so that the compiler may fold functions with one caller into the loop.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/content_check.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/eviction.hpp"
#include "sim/engine/peers.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/engine/scratch.hpp"

namespace tidemark {
namespace {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline constexpr std::uint32_t kNone = kNoInstruction;
inline constexpr std::size_t kCompute = static_cast<std::size_t>(Stream::kCompute);
inline constexpr std::size_t kOut = static_cast<std::size_t>(Stream::kCopyOut);
inline constexpr std::size_t kIn = static_cast<std::size_t>(Stream::kCopyIn);
inline constexpr std::size_t kHostWork = static_cast<std::size_t>(Stream::kHostWorker);
inline constexpr std::size_t kNvmeReads = static_cast<std::size_t>(Stream::kNvmeRead);
inline constexpr std::size_t kNvmeWrites = static_cast<std::size_t>(Stream::kNvmeWrite);

// An in-order queue: the running instruction and those behind it.
struct Queue {
  std::uint32_t running = kNone;
  std::int64_t ends = kNever;
  std::uint32_t head = kNone;
  std::uint32_t tail = kNone;    // last queued
  std::uint32_t issued = kNone;  // last issued so far: an event recorded now waits for it
  std::int64_t free_since = 0;   // moment at which the last instruction ended
  std::uint32_t waiting = 0;     // issued and not ended
  // The running copy or collective: how many bytes are left, or nanoseconds of it alone, and how
  // long each takes at the moment.
  double left = 0;
  double ns_per_unit = 0;
  std::int64_t updated = 0;
  // The running kernel: its duration divided by its duration alone on the device.
  double slowdown = 1;
};

// Launches that a stream of the device queues before the host has to wait: measured as about a
// thousand kernels for each stream, not adjustable (NVIDIA developer forum, topic 68937), 1,024 in
// the driver's ring.
inline constexpr std::uint32_t kLaunchQueue = 1024;

// Collectives that run at the same time leave at least half of the multiprocessors to compute.
inline constexpr double kMostTaken = 0.5;

constexpr bool is_copy(Opcode opcode) {
  return opcode == Opcode::kCopyOut || opcode == Opcode::kCopyIn || opcode == Opcode::kNvmeWrite ||
         opcode == Opcode::kNvmeRead;
}

// Page-locked host memory, or NVMe. With a pool, buffers are kept when they are freed and reused by
// their size class; otherwise only what is live counts.
struct OffDeviceMemory {
  Bytes capacity;
  Bytes live;   // bytes as requested
  Bytes taken;  // bytes from the system: live, or with a pool everything that it keeps
  bool pools = false;

  // Returns the bytes to take from the system for an allocation.
  [[nodiscard]] Bytes grows_by(const Scratch& scratch, AllocationId allocation,
                               const Allocation& b) const {
    if (!pools) return b.bytes;
    const std::uint32_t size = scratch.size_class[allocation.index()];
    return scratch.pooled[size] > 0 ? Bytes(0) : scratch.class_bytes[size];
  }
  void take(Scratch& scratch, AllocationId allocation, const Allocation& b, Bytes grown) {
    live += b.bytes;
    taken += grown;
    if (pools && grown == Bytes(0)) --scratch.pooled[scratch.size_class[allocation.index()]];
  }
  void give_back(Scratch& scratch, AllocationId allocation, const Allocation& b) {
    live -= b.bytes;
    if (pools) {
      ++scratch.pooled[scratch.size_class[allocation.index()]];
    } else {
      taken -= b.bytes;
    }
  }
};

// State of an eviction policy: allocations that are recomputed on demand.  The pool lists what may
// be dropped: resident, restorable and with no use in progress. As in DTR's simulator an allocation
// leaves it while an operator needs it and comes back at its end.
struct Evictor {
  struct Frame {  // a launch whose missing inputs, missing[begin ..), are being recomputed
    std::uint32_t launch = 0;
    std::size_t begin = 0;
    std::size_t next = 0;
  };

  EvictionPolicy* policy = nullptr;
  EvictionFacts facts;
  std::vector<char> resident;   // by allocation: it is on the device
  std::vector<char> owned;      // by allocation: allocated by the program and not freed by it
  std::vector<char> written;    // by allocation: the program has written it
  std::vector<char> banished;   // by allocation: banished, cannot be recomputed
  std::vector<char> must_stay;  // by allocation: computed from a banished one, must stay resident
  std::vector<std::uint32_t> use_count;  // by allocation: operators that need it now
  // by allocation: its neighbour in the pool; kNone at the ends
  std::vector<std::uint32_t> previous;
  std::vector<std::uint32_t> next;
  std::vector<char> listed;  // by allocation: in the pool
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  std::vector<std::int32_t> restores;     // by allocation: number of recomputations
  std::vector<std::int64_t> last_access;  // by allocation: value of `clock`
  std::int64_t clock = 1;                 // compute time issued, recomputation included
  std::int64_t repeated = 0;              // compute time of recomputation
  double limit = 0;                       // most `repeated`; beyond it the run ends as kThrash
  std::uint32_t prepared = kNone;         // the launch whose inputs are resident and held
  std::vector<Frame> frames;
  std::vector<AllocationId> missing;
  std::vector<EvictableAllocation> view;
  std::vector<MemoryPiece> pieces;
  std::optional<ContentCheck> check;
  // Each allocation's part of `children` begins at its entry here; one more entry ends the last.
  std::vector<std::uint32_t> first_child;
  std::vector<std::uint32_t> children;  // allocations that were computed from this one
};

// The reason why the host waits before it goes on with its current instruction. Used only with
// several ranks: a single rank goes through the events of its streams itself while it waits.
enum class HostWait : std::uint8_t {
  kNothing,
  kEdges,             // waits for the instruction's edges
  kIdle,              // synchronize(false)
  kIdleWithHostWork,  // synchronize(true)
};

template <class A>
class Engine {
 public:
  // `peers` is null for a rank that runs alone.
  Engine(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
         const RunOptions& options, const Peers* peers = nullptr)
      : program_(program),
        costs_(costs),
        allocator_(allocator),
        scratch_(scratch),
        options_(options),
        peers_(peers),
        count_(static_cast<std::uint32_t>(program.size())),
        streams_(scratch.streams) {
    off_device(Tier::kHost) = {.capacity = options.host_capacity,
                               .pools = options.page_locked != PageLockedMemory::kExact};
    off_device(Tier::kNvme) = {.capacity = options.nvme_capacity};
    for (std::size_t s = 0; s < streams_ && !costs.tax_collective.empty(); ++s) {
      if (is_communication(static_cast<Stream>(s))) groups_[group_count_++] = s;
    }
  }

  RunResult run();
  // One of several ranks: see run_ranks().
  void begin();
  [[nodiscard]] std::int64_t next_end() const { return stopped_ ? kNever : earliest_end(); }
  [[nodiscard]] std::int64_t next_issue() const { return stopped_ ? kNever : next_issue_; }
  void step();
  void hear_of_sends(std::int64_t now);
  [[nodiscard]] bool take_sent() { return std::exchange(has_sent_, false); }
  RunResult finish();

 private:
  void report_deadlock();
  // The host.
  [[nodiscard]] bool suspend(HostWait wait);
  [[nodiscard]] bool is_over(HostWait wait) const;
  void resume_host(std::int64_t now);
  [[nodiscard]] bool streams_go_on(bool with_host_work) const;
  [[nodiscard]] std::uint32_t last_ended() const;
  void issue();
  void allocate(AllocationId allocation);
  void allocate_away(AllocationId allocation);
  void note_away_peaks();
  [[nodiscard]] OffDeviceMemory& off_device(Tier tier) {
    return tier == Tier::kHost ? host_memory_ : nvme_;
  }
  [[nodiscard]] bool allocate_device(AllocationId allocation, Bytes bytes);
  bool try_allocate(AllocationId allocation, Bytes bytes, bool again = false);
  void release_cached(bool is_idle = false);
  void begin_last_step();
  // Only some allocators capture graphs.
  [[nodiscard]] bool is_capturing() const {
    if constexpr (requires { allocator_.is_capturing(); }) return allocator_.is_capturing();
    return false;
  }
  [[nodiscard]] bool captures() const {
    if constexpr (requires { allocator_.captures(); }) return allocator_.captures();
    return false;
  }
  void free(std::uint32_t i, AllocationId allocation);
  bool defer_free(std::uint32_t i, AllocationId allocation);
  void enqueue(std::uint32_t i);
  void synchronize(bool with_host_work);
  void wait_for_edges(std::uint32_t i);
  void notice_events();
  void fail(RunStatus status, AllocationId allocation = {});
  void schedule_issue();
  [[nodiscard]] bool queue_is_full(std::uint32_t i) const;
  // The streams.
  void start_ready(std::int64_t now);
  [[nodiscard]] bool edges_ended(std::uint32_t i) const;
  void start(std::size_t s, std::int64_t now);
  void end(std::size_t s, std::int64_t now);
  void retime_copies(std::int64_t now);
  void retime_kernel(std::int64_t now);
  [[nodiscard]] bool runs_collective(std::size_t s) const;
  [[nodiscard]] bool copies() const;
  void retime_collectives(std::int64_t now);
  void retime_links(std::int64_t now, bool copy);
  [[nodiscard]] double slowdown(std::uint32_t i) const;
  void account_wait(std::uint32_t i, std::int64_t now);
  void account_block(std::uint32_t cause, std::int64_t from, std::int64_t until);
  [[nodiscard]] std::int64_t earliest_end() const;
  [[nodiscard]] std::int64_t arrival_of(std::uint32_t receive) const;
  // Accounting of memory.
  void change_live(AllocationId allocation, int sign) {
    const Allocation& b = program_.allocations[allocation];
    live_ += sign * b.bytes;
    if (b.role == Role::kWorkspace) workspace_ += sign * b.bytes;
  }
  void give_back(AllocationId allocation) {
    if (program_.allocations[allocation].bytes > Bytes(0)) allocator_.free(allocation);
  }
  void return_memory(AllocationId allocation) {
    const Allocation& b = program_.allocations[allocation];
    if (b.tier == Tier::kDevice) {
      give_back(allocation);
    } else {
      off_device(b.tier).give_back(scratch_, allocation, b);
    }
  }
  void record(AllocationId allocation, int sign);
  void note_peaks();
  static void raise(Bytes& most, Bytes bytes) {
    if (bytes > most) most = bytes;
  }
  void raise(Peak& peak, Bytes bytes) const {
    if (bytes > peak.bytes) peak = {bytes, pc_, scratch_.events.size()};
  }
  void note_phase_peak();
  void note_fragmentation();
  [[nodiscard]] const Slot& slot(std::uint32_t i) const {
    return program_.slot[program_.position[i].index()];
  }
  // Eviction.
  void prepare_eviction();
  bool evict_some(Bytes requested);
  void list_evictable();
  void list_pieces(Bytes requested);
  void prepare_launch(std::uint32_t launch);
  void finish_launch(std::uint32_t launch);
  void open_launch(std::uint32_t launch);
  void close_launch(std::uint32_t launch);
  bool repeat(std::uint32_t launch);
  void banish_inputs(std::uint32_t launch);
  void release(AllocationId allocation);
  bool banish(AllocationId allocation);
  void drop(AllocationId allocation);
  void access(AllocationId allocation);
  void add_use(AllocationId allocation);
  void drop_use(AllocationId allocation);
  void update_pool(AllocationId allocation);
  [[nodiscard]] bool restorable(AllocationId allocation) const {
    return evictor_.facts.restorable[allocation.index()] != 0;
  }

  const StepProgram& program_;
  const CostTable& costs_;
  A& allocator_;
  Scratch& scratch_;
  const RunOptions& options_;
  const Peers* const peers_;
  const std::uint32_t count_;
  const std::size_t streams_;  // streams that the program uses
  // The queues of groups among them, where ranks communicate.
  std::array<std::size_t, kStreams> groups_{};
  std::size_t group_count_ = 0;
  RunResult result_;
  Evictor evictor_;
  std::array<Queue, kStreams> queues_{};
  std::uint32_t pc_ = 0;
  std::int64_t host_ = 0;  // the host's clock
  // kNever when the program is over, or when the queue it needs is full
  std::int64_t next_issue_ = 0;
  std::int64_t injected_ = 0;  // compute time of restored operators before the next launch
  Bytes live_;
  Bytes workspace_;
  OffDeviceMemory host_memory_;
  OffDeviceMemory nvme_;
  // Time that the host was blocked while compute had nothing left to do, since compute last
  // started, by the stream for which the host waited.
  std::array<std::int64_t, kStreams> blocked_{};
  std::int64_t blocked_total_ = 0;
  bool events_ended_ = false;  // a side stream has made progress since the last look
  bool stopped_ = false;
  bool in_last_step_ = false;
  HostWait host_wait_ = HostWait::kNothing;
  bool has_waited_ =
      false;                // the host has waited for idle streams before the allocation is retried
  bool owes_wait_ = false;  // the allocator gave memory back, which requires idle streams
  bool has_sent_ = false;   // a send has ended since the last take_sent()
  // How much longer what runs on a link now takes there than alone.
  LinkUse stretch_{.inside = 1, .network = 1};
  // Collectives that run now and take multiprocessors, and how much longer memory traffic takes
  // beside them.
  int collectives_ = 0;
  double tax_collectives_ = 0;
};

}  // namespace
}  // namespace tidemark
