#include "sim/program/verify.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

namespace tidemark {
namespace {

constexpr std::size_t kMaxProblems = 8;
constexpr std::uint32_t kNever = Id<void>::kNone;

using Content = std::uint64_t;
using Clock = std::array<std::uint32_t, kStreams>;  // instructions + 1 that have surely ended

Content mix(Content hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xBF58476D1CE4E5B9ULL;
  return hash ^ (hash >> 31U);
}

// Contents are named by what computed them: operator, step and micro-batch (random state and
// running statistics are versioned with these), and the contents that were read.
Content start_of(const Occurrence& occurrence) {
  return mix(mix(occurrence.op.value + 1, occurrence.step), occurrence.micro_batch);
}

std::uint64_t key_of(const Occurrence& occurrence) {
  return (static_cast<std::uint64_t>(occurrence.op.value) << 32U) |
         (static_cast<std::uint64_t>(occurrence.step) << 16U) | occurrence.micro_batch;
}

bool reads_content(Access access) {
  return access == Access::kRead || access == Access::kMutate;
}

// What each occurrence reads in the run without policies.
std::unordered_map<std::uint64_t, Content> expected_contents(const TrainingGraph& graph,
                                                             const ProgramOrder& plain) {
  IdVector<StorageId, Content> content(graph.storages.size());
  for (StorageId s : ids_of(graph.storages))
    content[s] = mix(0, s.value);
  std::unordered_map<std::uint64_t, Content> expected;
  expected.reserve(plain.at.size() * 2);
  for (const Occurrence& occurrence : plain.at) {
    Content hash = start_of(occurrence);
    const std::span<const Touch> touches = graph.touches_of(occurrence.op);
    for (const Touch& t : touches) {
      if (reads_content(t.access)) hash = mix(hash, content[t.storage]);
    }
    expected[key_of(occurrence)] = hash;
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i].access != Access::kRead) content[touches[i].storage] = mix(hash, i);
    }
  }
  return expected;
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
        state_(program.blocks.size(), State::kUnborn),
        content_(program.blocks.size(), 0),
        writer_(program.blocks.size(), kNever),
        pool_tail_(program.blocks.size(), kNever),
        last_use_(program.blocks.size()),
        clock_(program.size()) {
    for (auto& uses : last_use_)
      uses.fill(kNever);
    tail_.fill(kNever);
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
  void allocate(BlockId block);
  void free(std::size_t i, BlockId block);
  void work(std::size_t i);
  void check_use(std::size_t i, Stream stream, BlockUse use);
  void check_content(std::size_t i);
  void check_end();
  [[nodiscard]] bool happened_before(std::uint32_t earlier, std::size_t later) const;
  [[nodiscard]] std::string name(BlockId block) const;
  [[nodiscard]] std::string place(std::size_t i) const;
  void report(std::string problem) { problems_.push_back(std::move(problem)); }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const StepProgram& program_;
  std::unordered_map<std::uint64_t, Content> expected_;
  const ProgramOrder& plain_;
  IdVector<BlockId, State> state_;
  IdVector<BlockId, Content> content_;
  IdVector<BlockId, std::uint32_t> writer_;
  IdVector<BlockId, std::uint32_t> pool_tail_;
  IdVector<BlockId, Clock> last_use_;
  std::vector<Clock> clock_;  // per instruction: what has ended before it starts, itself included
  Clock tail_{};
  std::unordered_map<std::uint64_t, int> persistent_writes_;
  std::vector<std::string> problems_;
};

std::string Verifier::name(BlockId block) const {
  const Block& b = program_.blocks[block];
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
  if (earlier == kNever) return true;
  const auto stream = program_.stream[earlier];
  return clock_[later][stream] > earlier;
}

void Verifier::step(std::size_t i) {
  const BlockId block(program_.subject[i]);
  switch (program_.opcode[i]) {
    case Opcode::kAllocate:
      allocate(block);
      return;
    case Opcode::kFree:
      free(i, block);
      return;
    case Opcode::kSynchronize:
      return;  // orders nothing that is counted on
    case Opcode::kLaunch:
    case Opcode::kCopyOut:
    case Opcode::kCopyIn:
    case Opcode::kWait:
      work(i);
      return;
  }
}

void Verifier::allocate(BlockId block) {
  if (state_[block] != State::kUnborn) report(name(block) + " is allocated twice");
  state_[block] = State::kLive;
  const Block& b = program_.blocks[block];
  if (b.tier == Tier::kDevice) pool_tail_[block] = tail_[0];
  if (b.storage.valid() && graph_.storages[b.storage].initial && b.tier == Tier::kDevice &&
      tail_[0] == kNever) {
    content_[block] = mix(0, b.storage.value);  // present before the first step
  }
}

void Verifier::free(std::size_t i, BlockId block) {
  if (state_[block] != State::kLive) {
    report(fmt::format("{}: {} is freed {}", place(i), name(block),
                       state_[block] == State::kFreed ? "twice" : "before it is allocated"));
    return;
  }
  state_[block] = State::kFreed;
  const bool on_device = program_.blocks[block].tier == Tier::kDevice;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const std::uint32_t last = last_use_[block][s];
    const bool awaited = ((program_.stream[i] >> s) & 1U) != 0;
    if (last == kNever || awaited) continue;
    // Device memory goes back to the compute stream's pool: compute must be behind the use.
    const bool ordered =
        on_device && (s == 0 || (tail_[0] != kNever && happened_before(last, tail_[0])));
    if (!ordered) {
      report(fmt::format("{}: {} is freed while stream {} may still use it", place(i), name(block),
                         name_of(static_cast<Stream>(s))));
    }
  }
}

void Verifier::work(std::size_t i) {
  const auto stream = static_cast<Stream>(program_.stream[i]);
  const auto s = static_cast<std::size_t>(stream);
  Clock clock{};
  if (tail_[s] != kNever) clock = clock_[tail_[s]];
  for (std::uint32_t edge : program_.edges_of(i)) {
    if (edge >= i) {
      report(fmt::format("{} waits for instruction {}, which comes later", place(i), edge));
      continue;
    }
    for (std::size_t t = 0; t < kStreams; ++t)
      clock[t] = std::max(clock[t], clock_[edge][t]);
  }
  clock_[i] = clock;
  for (BlockUse use : program_.uses_of(i))
    check_use(i, stream, use);
  check_content(i);
  for (BlockUse use : program_.uses_of(i)) {
    last_use_[use.block()][s] = static_cast<std::uint32_t>(i);
    if (use.access() != Access::kRead) writer_[use.block()] = static_cast<std::uint32_t>(i);
  }
  clock_[i][s] = static_cast<std::uint32_t>(i) + 1;
  tail_[s] = static_cast<std::uint32_t>(i);
}

void Verifier::check_use(std::size_t i, Stream stream, BlockUse use) {
  const BlockId block = use.block();
  if (state_[block] != State::kLive) {
    report(fmt::format("{} uses {}, which is {}", place(i), name(block),
                       state_[block] == State::kFreed ? "freed" : "not allocated"));
    return;
  }
  if (!happened_before(writer_[block], i)) {
    report(fmt::format("{} uses {} without waiting for its writer, {}", place(i), name(block),
                       place(writer_[block])));
  }
  if (stream != Stream::kCompute && !happened_before(pool_tail_[block], i)) {
    report(fmt::format("{} uses {} while compute may still use the memory it was taken from",
                       place(i), name(block)));
  }
  if (use.access() == Access::kRead) return;
  for (std::uint32_t last : last_use_[block]) {
    if (!happened_before(last, i)) {
      report(fmt::format("{} writes {} while {} may still use it", place(i), name(block),
                         place(last)));
    }
  }
}

void Verifier::check_content(std::size_t i) {
  const std::span<const BlockUse> uses = program_.uses_of(i);
  if (program_.opcode[i] == Opcode::kCopyOut || program_.opcode[i] == Opcode::kCopyIn) {
    if (uses.size() != 2) {
      report(place(i) + " is a copy without a source and a target");
      return;
    }
    content_[uses[1].block()] = content_[uses[0].block()];
    return;
  }
  if (program_.opcode[i] != Opcode::kLaunch) return;
  const Occurrence& occurrence = order_.at[program_.position[i]];
  Content hash = start_of(occurrence);
  for (BlockUse use : uses) {
    if (reads_content(use.access())) hash = mix(hash, content_[use.block()]);
  }
  const auto expected = expected_.find(key_of(occurrence));
  if (expected == expected_.end() || expected->second != hash) {
    report(fmt::format("{} reads other content than without policies", place(i)));
  }
  for (std::size_t u = 0; u < uses.size(); ++u) {
    if (uses[u].access() != Access::kRead) content_[uses[u].block()] = mix(hash, u);
  }
  if (writes_persistent(graph_, occurrence.op)) ++persistent_writes_[key_of(occurrence)];
}

void Verifier::check_end() {
  for (BlockId block : ids_of(program_.blocks)) {
    const Block& b = program_.blocks[block];
    const bool stays = block == program_.matmul_workspace ||
                       (b.storage.valid() && (graph_.storages[b.storage].persistent ||
                                              graph_.storages[b.storage].initial));
    if (state_[block] == State::kLive && !stays) report(name(block) + " is never freed");
  }
  for (const Occurrence& occurrence : plain_.at) {
    if (!writes_persistent(graph_, occurrence.op)) continue;
    const auto found = persistent_writes_.find(key_of(occurrence));
    const int times = found == persistent_writes_.end() ? 0 : found->second;
    if (times == 1) continue;
    report(fmt::format("{} changes persistent memory and runs {} times in step {}",
                       graph_.describe(occurrence.op), times, occurrence.step));
    if (problems_.size() >= kMaxProblems) return;
  }
}

}  // namespace

std::vector<std::string> verify(const TrainingGraph& graph, const ProgramOrder& plain,
                                const ProgramOrder& order, const StepProgram& program) {
  return Verifier(graph, plain, order, program).run();
}

}  // namespace tidemark
