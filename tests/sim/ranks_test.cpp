// Several ranks under one clock, against an oracle that knows no events: each instruction's times
// follow from those of what it waits for, by recursion.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "sim/engine/engine.hpp"
#include "sim/engine/peers.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/result/deadlock.hpp"

namespace tidemark::ranks_test {
namespace {

constexpr std::uint16_t kQueue = static_cast<std::uint16_t>(Stream::kPipelineGroup);

// A program of one rank, instruction by instruction, and its costs.
struct Written {
  StepProgram program;
  CostTable costs;

  Written() {
    program.first_edge.push_back(0);
    program.first_use.push_back(0);
    program.slot.push_back({.phase = Phase::kForward, .last_step = true});
    costs.synchronize = Duration(7);
  }
  std::uint32_t add(Opcode opcode, std::uint16_t stream, std::uint32_t subject,
                    const std::vector<std::uint32_t>& edges = {}) {
    const auto id = static_cast<std::uint32_t>(program.size());
    program.opcode.push_back(opcode);
    program.stream.push_back(stream);
    program.subject.push_back(subject);
    program.position.push_back(Position(std::uint32_t{0}));
    program.edges.insert(program.edges.end(), edges.begin(), edges.end());
    program.first_edge.push_back(static_cast<std::uint32_t>(program.edges.size()));
    program.first_use.push_back(0);
    return id;
  }
  std::uint32_t priced(std::int64_t device, std::int64_t dispatch) {
    costs.device.push_back(Duration(device));
    costs.dispatch.push_back(Duration(dispatch));
    return static_cast<std::uint32_t>(costs.device.size() - 1);
  }
  std::uint32_t launch(std::int64_t device, const std::vector<std::uint32_t>& edges = {},
                       std::int64_t dispatch = 1, Stream stream = Stream::kCompute) {
    return add(Opcode::kLaunch, static_cast<std::uint16_t>(stream), priced(device, dispatch),
               edges);
  }
  std::uint32_t send(int peer, int tag, std::int64_t device,
                     const std::vector<std::uint32_t>& edges = {}, std::int64_t bytes = 8) {
    const std::uint32_t id = add(Opcode::kLaunch, kQueue, priced(device, 1), edges);
    program.messages.push_back({id, peer, tag, Bytes(bytes), true});
    return id;
  }
  std::uint32_t receive(int peer, int tag, const std::vector<std::uint32_t>& edges = {},
                        std::int64_t bytes = 8) {
    const std::uint32_t id = add(Opcode::kReceive, kQueue, priced(0, 1), edges);
    program.messages.push_back({id, peer, tag, Bytes(bytes), false});
    return id;
  }
  std::uint32_t host_wait(std::uint32_t edge) { return add(Opcode::kHostWait, 0, 0, {edge}); }
  AllocationId allocate(std::int64_t bytes) {
    const AllocationId block = program.allocations.push_back({.bytes = Bytes(bytes)});
    ++program.allocate_instructions;
    add(Opcode::kAllocate, 0, block.value);
    return block;
  }
  void free(AllocationId block, std::uint16_t mask) { add(Opcode::kFree, mask, block.value); }
};

struct Played {
  std::vector<RunResult> results;
  std::vector<Scratch> scratch;
};

Played play(const std::vector<Written>& ranks, std::int64_t capacity = 1 << 20) {
  Played played;
  played.scratch.resize(ranks.size());
  std::vector<std::unique_ptr<IdealAllocator>> allocators;
  std::vector<Rank<IdealAllocator>> all;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    allocators.push_back(std::make_unique<IdealAllocator>(Bytes(capacity)));
    allocators[r]->reserve(ranks[r].program.allocations.size());
    played.scratch[r].prepare(ranks[r].program, false);
    all.push_back({&ranks[r].program,
                   &ranks[r].costs,
                   allocators[r].get(),
                   &played.scratch[r],
                   {.host_capacity = kGiB}});
  }
  played.results = run(std::span<const Rank<IdealAllocator>>(all));
  return played;
}

// Computes when each instruction has been issued and has ended. No host queue fills in these
// programs.
class Oracle {
 public:
  explicit Oracle(const std::vector<Written>& ranks) : ranks_(ranks) {
    std::vector<const StepProgram*> programs;
    for (const Written& rank : ranks)
      programs.push_back(&rank.program);
    receipts_ = match_messages(programs);
    for (const Written& rank : ranks) {
      issued_.emplace_back(rank.program.size());
      ended_.emplace_back(rank.program.size());
    }
  }

  std::int64_t ended(std::size_t r, std::uint32_t i) {
    std::optional<std::int64_t>& known = ended_[r][i];
    if (known) return *known;
    const StepProgram& p = ranks_[r].program;
    std::int64_t start = issued(r, i);
    for (std::uint32_t before = i; before-- > 0;) {
      const bool works =
          p.opcode[before] == Opcode::kLaunch || p.opcode[before] == Opcode::kReceive;
      if (!works || p.stream[before] != p.stream[i]) continue;
      start = std::max(start, ended(r, before));
      break;
    }
    for (const std::uint32_t edge : p.edges_of(i))
      start = std::max(start, ended(r, edge));
    if (p.opcode[i] == Opcode::kReceive) {
      for (const Receipt& receipt : receipts_[r]) {
        if (receipt.instruction != i) continue;
        const auto sender = static_cast<std::size_t>(receipt.source.rank);
        start = std::max(start, ended(sender, receipt.source.instruction));
      }
    }
    known = start + ranks_[r].costs.device[OperatorId(p.subject[i])].count();
    return *known;
  }

 private:
  std::int64_t issued(std::size_t r, std::uint32_t i) {
    std::optional<std::int64_t>& known = issued_[r][i];
    if (known) return *known;
    const Written& rank = ranks_[r];
    std::int64_t host = i == 0 ? 0 : issued(r, i - 1);
    if (rank.program.opcode[i] == Opcode::kHostWait) {
      for (const std::uint32_t edge : rank.program.edges_of(i))
        host = std::max(host, ended(r, edge));
      host += rank.costs.synchronize.count();
    } else {
      host += rank.costs.dispatch[OperatorId(rank.program.subject[i])].count();
    }
    known = host;
    return host;
  }

  const std::vector<Written>& ranks_;
  std::vector<std::vector<Receipt>> receipts_;
  std::vector<std::vector<std::optional<std::int64_t>>> issued_;
  std::vector<std::vector<std::optional<std::int64_t>>> ended_;
};

// Instructions are added in one order over all ranks, receives only of what has been sent: no
// deadlock is possible.
std::vector<Written> random_ranks(std::mt19937& rng) {
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const int ranks = 2 + below(3);
  std::vector<Written> written(static_cast<std::size_t>(ranks));
  struct OnTheWay {
    int from;
    int to;
    int tag;
  };
  std::vector<OnTheWay> on_the_way;
  for (int n = 0; n < 60 * ranks; ++n) {
    const int r = below(ranks);
    Written& rank = written[static_cast<std::size_t>(r)];
    std::vector<std::uint32_t> work;  // instructions that may be waited for
    for (std::uint32_t i = 0; i < rank.program.size(); ++i) {
      if (rank.program.opcode[i] != Opcode::kHostWait) work.push_back(i);
    }
    std::vector<std::uint32_t> edges;
    while (!work.empty() && below(2) == 0)
      edges.push_back(work[static_cast<std::size_t>(below(static_cast<int>(work.size())))]);
    const int kind = below(10);
    if (kind == 0 && !work.empty()) {
      rank.host_wait(work.back());
    } else if (kind < 4) {
      const int to = (r + 1 + below(ranks - 1)) % ranks;
      const int tag = below(2);
      rank.send(to, tag, below(40), edges);
      on_the_way.push_back({r, to, tag});
    } else if (kind < 7) {
      // The oldest message of a channel is the one that matches.
      const auto mine = std::find_if(on_the_way.begin(), on_the_way.end(),
                                     [&](const OnTheWay& m) { return m.to == r; });
      if (mine == on_the_way.end()) continue;
      rank.receive(mine->from, mine->tag, edges);
      on_the_way.erase(mine);
    } else {
      rank.launch(below(100), edges, below(30),
                  below(3) == 0 ? Stream::kTensorGroup : Stream::kCompute);
    }
  }
  return written;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a receive waits for the matching send and takes no time of its own") {
    std::vector<Written> ranks(2);
    const std::uint32_t kernel = ranks[0].launch(100);
    ranks[0].send(1, 0, 20, {kernel});
    const std::uint32_t arrived = ranks[1].receive(0, 0);
    const std::uint32_t user = ranks[1].launch(5, {arrived});
    const Played played = play(ranks);
    CHECK(played.scratch[1].finished[arrived] == 121);  // dispatch 1 + 100 + 20
    CHECK(played.scratch[1].started[user] == 121);
    CHECK(played.results[1].exposed_communication == Duration(121 - 2));  // issued at 2
    CHECK(played.results[0].exposed_communication == Duration(0));
  }

  TEST_CASE("messages of one channel match in order, tags and queues apart") {
    std::vector<Written> ranks(2);
    ranks[0].send(1, 7, 10);
    ranks[0].send(1, 8, 10);
    ranks[0].send(1, 7, 10);
    const std::uint32_t first_of_8 = ranks[1].receive(0, 8);
    const std::uint32_t first_of_7 = ranks[1].receive(0, 7);
    const std::uint32_t second_of_7 = ranks[1].receive(0, 7);
    const std::vector<const StepProgram*> programs{&ranks[0].program, &ranks[1].program};
    const auto receipts = match_messages(programs);
    REQUIRE(receipts[1].size() == 3);
    CHECK(receipts[1][0].source.instruction == 1);
    CHECK(receipts[1][1].source.instruction == 0);
    CHECK(receipts[1][2].source.instruction == 2);
    const Played played = play(ranks);
    CHECK(played.scratch[1].finished[first_of_8] == 21);
    CHECK(played.scratch[1].finished[first_of_7] == 21);  // behind the other, in order
    CHECK(played.scratch[1].finished[second_of_7] == 31);
  }

  TEST_CASE("what is sent is received in the same size, and by a rank that runs") {
    std::vector<Written> ranks(2);
    ranks[0].send(1, 0, 10, {}, 8);
    ranks[1].receive(0, 0, {}, 9);
    CHECK_THROWS_WITH_AS(static_cast<void>(play(ranks)),
                         doctest::Contains("sends 8 bytes by instruction 0, rank 1 receives 9"),
                         InternalError);
    std::vector<Written> lost(2);
    lost[0].send(2, 0, 10);
    CHECK_THROWS_AS(static_cast<void>(play(lost)), InternalError);
  }

  TEST_CASE("ranks that wait for each other are named, with what they wait in") {
    std::vector<Written> ranks(3);
    TrainingGraph graph;
    for (const char* name : {"receive_activation", "send"}) {
      Operator op;
      op.name = name;
      graph.operators.push_back(std::move(op));
    }
    ProgramOrder order;
    order.at.push_back({.op = OperatorId(std::uint32_t{0})});
    for (std::size_t r : {std::size_t{0}, std::size_t{1}}) {
      const int other = 1 - static_cast<int>(r);
      const std::uint32_t arrived = ranks[r].receive(other, 0);
      ranks[r].send(other, 0, 10, {arrived});
    }
    ranks[2].receive(0, 0);
    const Played played = play(ranks);
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK(played.results[r].status == RunStatus::kDeadlock);
      CHECK(played.results[r].failed_instruction == 0);
    }
    CHECK(played.results[0].awaited_rank == 1);
    CHECK(played.results[1].awaited_rank == 0);
    CHECK(played.results[2].awaited_rank == 0);
    std::vector<RankProgram> programs;
    for (const Written& rank : ranks)
      programs.push_back({&graph, &order, &rank.program});
    CHECK(describe_deadlock(programs, played.results) ==
          "rank 0 waits in step 0 in 'receive_activation' for rank 1; rank 1 waits in step 0 in "
          "'receive_activation' for rank 0; rank 2 waits in step 0 in 'receive_activation' for "
          "rank 0");
  }

  TEST_CASE("a rank that waits for one that ran out of memory is no deadlock") {
    std::vector<Written> ranks(2);
    ranks[0].allocate(1 << 21);
    ranks[0].send(1, 0, 10);
    ranks[1].receive(0, 0);
    const Played played = play(ranks);
    CHECK(played.results[0].status == RunStatus::kOutOfMemory);
    CHECK(played.results[1].status == RunStatus::kPeerFailed);
    CHECK(played.results[1].awaited_rank == 0);
  }

  TEST_CASE("a host that waits for memory lets other ranks go on") {
    // Rank 1 has room for one block. It is freed when the receive has ended, which rank 0 keeps
    // waiting for 1,000 ns; rank 0 in turn needs an answer that rank 1 sends before.
    std::vector<Written> ranks(2);
    const std::uint32_t answer = ranks[0].receive(1, 0);
    const std::uint32_t kernel = ranks[0].launch(1000, {answer});
    ranks[0].send(1, 0, 20, {kernel});
    const AllocationId block = ranks[1].allocate(100);
    ranks[1].send(0, 0, 30);
    ranks[1].receive(0, 0);
    ranks[1].free(block, 1U << kQueue);
    ranks[1].allocate(100);
    const std::uint32_t user = ranks[1].launch(5);
    const Played played = play(ranks, 100);
    CHECK(played.results[1].status == RunStatus::kCompleted);
    CHECK(played.results[1].retries == 1);
    // The answer ends at 31, the kernel at 1031, its message at 1051; then the host synchronises
    // (7 ns) and dispatches.
    CHECK(played.scratch[1].started[user] == 1051 + 7 + 1);
  }

  TEST_CASE("one rank alone runs as it does among others that send it nothing") {
    std::mt19937 rng(5);
    for (int n = 0; n < 20; ++n) {
      Written rank;
      for (int i = 0; i < 50; ++i)
        rank.launch(static_cast<int>(rng() % 50), {}, static_cast<int>(rng() % 40));
      const Played two = play({rank, Written()});
      Scratch scratch;
      scratch.prepare(rank.program, false);
      IdealAllocator allocator{kGiB};
      const RunResult alone =
          run(rank.program, rank.costs, allocator, scratch, {.host_capacity = kGiB});
      CHECK(alone.total == two.results[0].total);
      CHECK(alone.host_bound == two.results[0].host_bound);
      CHECK(scratch.finished == two.scratch[0].finished);
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("random programs on 2 to 4 ranks end when the oracle says") {
    std::mt19937 rng(1);
    int received = 0;
    for (int n = 0; n < 200; ++n) {
      const std::vector<Written> ranks = random_ranks(rng);
      const Played played = play(ranks);
      Oracle oracle(ranks);
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        REQUIRE(played.results[r].status == RunStatus::kCompleted);
        for (std::uint32_t i = 0; i < ranks[r].program.size(); ++i) {
          if (ranks[r].program.opcode[i] == Opcode::kHostWait) continue;
          received += ranks[r].program.opcode[i] == Opcode::kReceive ? 1 : 0;
          REQUIRE(played.scratch[r].finished[i] == oracle.ended(r, i));
        }
      }
    }
    CHECK(received > 2000);
  }
}

}  // namespace tidemark::ranks_test
