#include "sim/program/verify.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "sim/program/expected_contents.hpp"

namespace tidemark {
namespace verify_detail {
namespace {

constexpr std::size_t kMaxProblems = 8;

using Clock = std::array<std::uint32_t, kStreams>;  // instruction number + 1 that has surely ended

struct Route {
  Tier from;
  Tier to;
  Stream stream;
};

// Returns the link that a copy takes; none for other instructions.
std::optional<Route> route_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCopyOut:
      return Route{Tier::kDevice, Tier::kHost, Stream::kCopyOut};
    case Opcode::kCopyIn:
      return Route{Tier::kHost, Tier::kDevice, Stream::kCopyIn};
    case Opcode::kNvmeWrite:
      return Route{Tier::kHost, Tier::kNvme, Stream::kNvmeWrite};
    case Opcode::kNvmeRead:
      return Route{Tier::kNvme, Tier::kHost, Stream::kNvmeRead};
    default:
      return std::nullopt;
  }
}

class Verifier {
 public:
  Verifier(const TrainingGraph& graph, const ProgramOrder& plain, const ProgramOrder& order,
           const StepProgram& program)
      : graph_(graph),
        order_(order),
        program_(program),
        expected_(expected_contents(graph, plain)),
        plain_(plain),
        state_(program.allocations.size(), State::kUnborn),
        content_(program.allocations.size(), 0),
        home_(graph.storages.size()),
        writer_(program.allocations.size(), kNoInstruction),
        pool_tail_(program.allocations.size(), kNoInstruction),
        last_use_(program.allocations.size()),
        clock_(program.size()),
        persistent_writes_(graph, plain) {
    for (auto& uses : last_use_)
      uses.fill(kNoInstruction);
    tail_.fill(kNoInstruction);
  }

  std::vector<std::string> run() {
    for (std::size_t i = 0; i < program_.size() && problems_.size() < kMaxProblems; ++i)
      step(i);
    if (problems_.size() < kMaxProblems) check_end();
    return std::move(problems_);
  }

 private:
  enum class State : char { kUnborn, kLive, kFreed };

  void step(std::size_t i);
  void allocate(AllocationId allocation);
  void free(std::size_t i, AllocationId allocation);
  void work(std::size_t i);
  void check_use(std::size_t i, Stream stream, AllocationUse use);
  void check_content(std::size_t i);
  void check_copy(std::size_t i);
  void check_homes();
  void check_end();
  [[nodiscard]] bool happened_before(std::uint32_t earlier, std::size_t later) const;
  [[nodiscard]] std::size_t pool_of(AllocationId allocation) const {
    return static_cast<std::size_t>(program_.allocations[allocation].pool);
  }
  [[nodiscard]] std::string name(AllocationId allocation) const;
  [[nodiscard]] std::string place(std::size_t i) const;
  void report(std::string problem) { problems_.push_back(std::move(problem)); }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const StepProgram& program_;
  ExpectedContents expected_;
  const ProgramOrder& plain_;
  IdVector<AllocationId, State> state_;
  IdVector<AllocationId, Content> content_;
  IdVector<StorageId, AllocationId> home_;  // the latest allocation on the storage's home tier
  IdVector<AllocationId, std::uint32_t> writer_;
  IdVector<AllocationId, std::uint32_t> pool_tail_;
  IdVector<AllocationId, Clock> last_use_;
  std::vector<Clock> clock_;  // by instruction: what has ended before it starts, itself included
  Clock tail_{};
  OccurrenceTable<std::uint8_t> persistent_writes_;  // 2 for more than one
  std::vector<std::string> problems_;
};

std::string Verifier::name(AllocationId allocation) const {
  const Allocation& b = program_.allocations[allocation];
  return b.storage.valid() ? fmt::format("'{}' ({})", graph_.storages[b.storage].name,
                                         graph_.layer_name(graph_.storages[b.storage].layer))
                           : fmt::format("a {}", name_of(b.role));
}

std::string Verifier::place(std::size_t i) const {
  const Occurrence& occurrence = order_.at[program_.position[i]];
  return fmt::format("instruction {} (step {}, {})", i, occurrence.step,
                     graph_.describe(occurrence.op));
}

bool Verifier::happened_before(std::uint32_t earlier, std::size_t later) const {
  if (earlier == kNoInstruction) return true;
  const auto stream = program_.stream[earlier];
  return clock_[later][stream] > earlier;
}

void Verifier::step(std::size_t i) {
  const AllocationId allocation(program_.subject[i]);
  switch (program_.opcode[i]) {
    case Opcode::kAllocate:
      allocate(allocation);
      return;
    case Opcode::kFree:
      free(i, allocation);
      return;
    case Opcode::kSynchronize:
    case Opcode::kHostWait:
      return;  // they order nothing that is counted on
    case Opcode::kLaunch:
    case Opcode::kReceive:
    case Opcode::kCopyOut:
    case Opcode::kCopyIn:
    case Opcode::kNvmeWrite:
    case Opcode::kNvmeRead:
    case Opcode::kWait:
      work(i);
      return;
  }
}

void Verifier::allocate(AllocationId allocation) {
  if (state_[allocation] != State::kUnborn) report(name(allocation) + " is allocated twice");
  state_[allocation] = State::kLive;
  const Allocation& b = program_.allocations[allocation];
  if (b.tier == Tier::kDevice) pool_tail_[allocation] = tail_[pool_of(allocation)];
  if (!b.storage.valid() || b.tier != graph_.storages[b.storage].home) return;
  if (graph_.storages[b.storage].initial && !home_[b.storage].valid()) {
    content_[allocation] = mix_content(0, b.storage.value);  // present before the first step
  }
  home_[b.storage] = allocation;
}

void Verifier::free(std::size_t i, AllocationId allocation) {
  if (state_[allocation] != State::kLive) {
    report(fmt::format("{}: {} is freed {}", place(i), name(allocation),
                       state_[allocation] == State::kFreed ? "twice" : "before it is allocated"));
    return;
  }
  state_[allocation] = State::kFreed;
  const bool on_device = program_.allocations[allocation].tier == Tier::kDevice;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const std::uint32_t last = last_use_[allocation][s];
    const bool awaited = ((static_cast<unsigned>(program_.stream[i]) >> s) & 1U) != 0;
    if (last == kNoInstruction || awaited) continue;
    // Device memory goes back to the pool of a stream, which must be behind the use.
    const std::size_t pool = pool_of(allocation);
    const std::uint32_t tail = tail_[pool];
    const bool ordered =
        on_device && (s == pool || (tail != kNoInstruction && happened_before(last, tail)));
    if (!ordered) {
      report(fmt::format("{}: {} is freed while stream {} may still use it", place(i),
                         name(allocation), name_of(static_cast<Stream>(s))));
    }
  }
}

void Verifier::work(std::size_t i) {
  const auto stream = static_cast<Stream>(program_.stream[i]);
  const auto s = static_cast<std::size_t>(stream);
  Clock clock{};
  if (tail_[s] != kNoInstruction) clock = clock_[tail_[s]];
  for (std::uint32_t edge : program_.edges_of(i)) {
    if (edge >= i) {
      report(fmt::format("{} waits for instruction {}, which comes later", place(i), edge));
      continue;
    }
    for (std::size_t t = 0; t < kStreams; ++t)
      clock[t] = std::max(clock[t], clock_[edge][t]);
  }
  clock_[i] = clock;
  for (AllocationUse use : program_.uses_of(i))
    check_use(i, stream, use);
  check_content(i);
  for (AllocationUse use : program_.uses_of(i)) {
    last_use_[use.allocation()][s] = static_cast<std::uint32_t>(i);
    if (use.access() != Access::kRead) writer_[use.allocation()] = static_cast<std::uint32_t>(i);
  }
  clock_[i][s] = static_cast<std::uint32_t>(i) + 1;
  tail_[s] = static_cast<std::uint32_t>(i);
}

void Verifier::check_use(std::size_t i, Stream stream, AllocationUse use) {
  const AllocationId allocation = use.allocation();
  if (state_[allocation] != State::kLive) {
    report(fmt::format("{} uses {}, which is {}", place(i), name(allocation),
                       state_[allocation] == State::kFreed ? "freed" : "not allocated"));
    return;
  }
  if (!happened_before(writer_[allocation], i)) {
    report(fmt::format("{} uses {} without waiting for its writer, {}", place(i), name(allocation),
                       place(writer_[allocation])));
  }
  if (static_cast<std::size_t>(stream) != pool_of(allocation) &&
      !happened_before(pool_tail_[allocation], i)) {
    report(fmt::format("{} uses {} while {} may still use the memory it was taken from", place(i),
                       name(allocation), name_of(program_.allocations[allocation].pool)));
  }
  if (use.access() == Access::kRead) return;
  for (std::uint32_t last : last_use_[allocation]) {
    if (!happened_before(last, i)) {
      report(fmt::format("{} writes {} while {} may still use it", place(i), name(allocation),
                         place(last)));
    }
  }
}

void Verifier::check_content(std::size_t i) {
  const std::span<const AllocationUse> uses = program_.uses_of(i);
  if (route_of(program_.opcode[i])) {
    check_copy(i);
    return;
  }
  if (program_.opcode[i] != Opcode::kLaunch && program_.opcode[i] != Opcode::kReceive) return;
  const Occurrence& occurrence = order_.at[program_.position[i]];
  const bool on_host = graph_.operators[occurrence.op].executor == Executor::kHost;
  const Tier tier = on_host ? Tier::kHost : Tier::kDevice;
  if (static_cast<Stream>(program_.stream[i]) != stream_of(graph_.operators[occurrence.op])) {
    report(fmt::format("{} runs on the {} stream, which is not its executor's", place(i),
                       name_of(static_cast<Stream>(program_.stream[i]))));
  }
  for (AllocationUse use : uses) {
    if (program_.allocations[use.allocation()].tier == tier) continue;
    report(fmt::format("{} needs {} on the {}, but uses an allocation on the {}", place(i),
                       name(use.allocation()), name_of(tier),
                       name_of(program_.allocations[use.allocation()].tier)));
  }
  Content hash = start_of(graph_, occurrence);
  for (AllocationUse use : uses)
    if (reads_content(use.access())) hash = mix_content(hash, content_[use.allocation()]);
  const Content* const expected = expected_.read.find(occurrence);
  if (expected == nullptr || *expected != hash) {
    report(fmt::format("{} reads other content than without policies", place(i)));
  }
  for (std::size_t u = 0; u < uses.size(); ++u) {
    if (uses[u].access() == Access::kRead) continue;
    const AllocationId allocation = uses[u].allocation();
    content_[allocation] =
        expected_.written(graph_, occurrence, program_.allocations[allocation].storage, u, hash);
  }
  if (!writes_persistent(graph_, occurrence.op)) return;
  if (std::uint8_t* const times = persistent_writes_.find(occurrence); times != nullptr)
    *times = *times == 0 ? 1 : 2;
}

// A copy goes between neighbouring tiers of one storage, on the stream of their link.
void Verifier::check_copy(std::size_t i) {
  const std::span<const AllocationUse> uses = program_.uses_of(i);
  if (uses.size() != 2) {
    report(place(i) + " is a copy without a source and a target");
    return;
  }
  const Route route = *route_of(program_.opcode[i]);
  const Allocation& from = program_.allocations[uses[0].allocation()];
  const Allocation& to = program_.allocations[uses[1].allocation()];
  if (from.tier != route.from || to.tier != route.to || from.storage != to.storage ||
      static_cast<Stream>(program_.stream[i]) != route.stream) {
    report(fmt::format("{} copies {} from {} to {} on the {} stream", place(i),
                       name(uses[0].allocation()), name_of(from.tier), name_of(to.tier),
                       name_of(static_cast<Stream>(program_.stream[i]))));
  }
  content_[uses[1].allocation()] = content_[uses[0].allocation()];
}

// Storages that stay after the last step are at home, with the content of the plain run.
void Verifier::check_homes() {
  IdVector<StorageId, AllocationId> live(graph_.storages.size());
  for (AllocationId allocation : ids_of(program_.allocations)) {
    const StorageId s = program_.allocations[allocation].storage;
    if (s.valid() && state_[allocation] == State::kLive) live[s] = allocation;
  }
  for (StorageId s : ids_of(graph_.storages)) {
    if (!live[s].valid()) continue;
    const AllocationId home = home_[s];
    const bool there = home.valid() && state_[home] == State::kLive;
    if (there && content_[home] == expected_.at_end[s]) continue;
    report(fmt::format("{} ends {} on its home tier, the {}", name(live[s]),
                       there ? "with other content than without policies" : "without an allocation",
                       name_of(graph_.storages[s].home)));
    if (problems_.size() >= kMaxProblems) return;
  }
}

void Verifier::check_end() {
  check_homes();
  for (AllocationId allocation : ids_of(program_.allocations)) {
    const Allocation& b = program_.allocations[allocation];
    const bool stays = allocation == program_.matmul_workspace ||
                       (b.storage.valid() && (graph_.storages[b.storage].persistent ||
                                              graph_.storages[b.storage].initial));
    if (state_[allocation] == State::kLive && !stays) report(name(allocation) + " is never freed");
  }
  for (const Occurrence& occurrence : plain_.at) {
    if (!writes_persistent(graph_, occurrence.op)) continue;
    const std::uint8_t times = *persistent_writes_.find(occurrence);
    if (times == 1) continue;
    report(fmt::format("{} changes persistent memory and {} in step {}",
                       graph_.describe(occurrence.op),
                       times == 0 ? "does not run" : "runs more than once", occurrence.step));
    if (problems_.size() >= kMaxProblems) return;
  }
}

}  // namespace
}  // namespace verify_detail

std::vector<std::string> verify(const TrainingGraph& graph, const ProgramOrder& plain,
                                const ProgramOrder& order, const StepProgram& program) {
  return verify_detail::Verifier(graph, plain, order, program).run();
}

}  // namespace tidemark
