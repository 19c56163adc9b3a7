#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/memory/packing/buffers_csv.hpp"
#include "sim/memory/packing/greedy.hpp"
#include "sim/memory/packing/pack.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/memory/packing/time_sections.hpp"
#include "sim/step/simulate.hpp"
#include "tests/support/instrumented.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::packing_test {

namespace {

using Rng = std::mt19937;

std::int64_t pick(Rng& rng, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
}

PackingProblem random_problem(Rng& rng, int buffers, std::int64_t times, std::int64_t largest) {
  PackingProblem problem;
  for (int i = 0; i < buffers; ++i) {
    const std::int64_t lower = pick(rng, 0, times - 1);
    problem.buffers.push_back({.lower = lower,
                               .upper = pick(rng, lower + 1, times),
                               .size = Bytes(pick(rng, 1, largest))});
  }
  return problem;
}

// A rectangle of times x height cut at random into live ranges without a hole: its best packing is
// known. Buffers are shuffled.
PackingProblem perfect_problem(Rng& rng, std::int64_t times, std::int64_t height, int cuts) {
  std::vector<Buffer> pieces{{.lower = 0, .upper = times, .size = Bytes(height)}};
  for (int i = 0; i < cuts; ++i) {
    const auto k =
        static_cast<std::size_t>(pick(rng, 0, static_cast<std::int64_t>(pieces.size()) - 1));
    Buffer& whole = pieces[k];
    Buffer part = whole;
    if (pick(rng, 0, 1) == 0 && whole.upper - whole.lower > 1) {
      whole.upper = pick(rng, whole.lower + 1, whole.upper - 1);
      part.lower = whole.upper;
    } else if (whole.size > Bytes(1)) {
      part.size = Bytes(pick(rng, 1, whole.size.count - 1));
      whole.size -= part.size;
    } else {
      continue;
    }
    pieces.push_back(part);
  }
  std::shuffle(pieces.begin(), pieces.end(), rng);
  return {.buffers = pieces};
}

bool overlap(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// Returns the least height of all packings: every order of the buffers, each dropped onto those
// before it. Some order gives the best packing, since every packing can be pushed down.
Bytes least_height(const PackingProblem& problem) {
  std::vector<std::size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  Bytes least = kUnlimited;
  do {
    std::vector<Bytes> end(order.size());
    Bytes height;
    for (std::size_t k = 0; k < order.size(); ++k) {
      Bytes under;
      for (std::size_t j = 0; j < k; ++j) {
        if (overlap(problem.buffers[order[j]], problem.buffers[order[k]])) {
          under = std::max(under, end[order[j]]);
        }
      }
      end[order[k]] = under + problem.buffers[order[k]].size;
      height = std::max(height, end[order[k]]);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

PackOptions by_nodes(std::int64_t nodes) {
  return {.time_limit = std::chrono::hours(1), .node_limit = nodes};
}

// The benchmark is third-party data and not part of the repository.
std::filesystem::path benchmark_folder() {
  return shared_path("cases/packing");
}

std::string error_of(std::string_view text) {
  try {
    static_cast<void>(parse_buffers(text, "b.csv"));
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("buffers that are never live together share addresses") {
    // The buffers are a: [0, 2) 4 bytes; b: [2, 4) 3 bytes, in a's place; c: [1, 3) 5 bytes, live
    // with both.
    const PackingProblem problem{.buffers = {{0, 2, Bytes(4)}, {2, 4, Bytes(3)}, {1, 3, Bytes(5)}}};
    const PackResult result = pack(problem);
    CHECK(most_live_bytes(problem) == Bytes(9));  // a + c
    CHECK(result.packing.height == Bytes(9));
    CHECK(result.optimal());
    CHECK(!packing_fault(problem, result.packing));
  }

  TEST_CASE("the bound of live bytes may be out of reach, and the search proves it") {
    // Six bytes are live at each instant. In height 6 the buffers of 4 bytes lie at an edge, since
    // those of 2 bytes lie next to them; so c and d share the two bytes of the other edge at 2, and
    // c and e those of an edge at 4. Both are the edge where c is, hence d and e share a byte at 3.
    const PackingProblem problem{.buffers = {{0, 3, Bytes(4)},
                                             {0, 2, Bytes(2)},
                                             {2, 5, Bytes(1)},  // c
                                             {2, 4, Bytes(1)},  // d
                                             {3, 5, Bytes(1)},  // e
                                             {3, 4, Bytes(3)},
                                             {4, 7, Bytes(4)},
                                             {5, 7, Bytes(2)}}};
    CHECK(most_live_bytes(problem) == Bytes(6));
    CHECK(least_height(problem) == Bytes(7));
    const PackResult result = pack(problem);
    CHECK(result.packing.height == Bytes(7));
    CHECK(result.lower_bound == Bytes(7));
    CHECK(result.optimal());
  }

  TEST_CASE("the validator finds every kind of fault") {
    const PackingProblem problem{.buffers = {{0, 2, Bytes(4)}, {1, 3, Bytes(4)}, {3, 5, Bytes(4)}}};
    CHECK(!packing_fault(problem, {.offsets = {Bytes(0), Bytes(4), Bytes(4)}, .height = Bytes(8)}));
    CHECK(*packing_fault(problem, {.offsets = {Bytes(0), Bytes(4)}, .height = Bytes(8)}) ==
          "2 offsets for 3 buffers");
    CHECK(*packing_fault(problem, {.offsets = {Bytes(0), Bytes(-4), Bytes(0)},
                                   .height = Bytes(4)}) == "buffer 1 has the offset -4");
    CHECK(*packing_fault(problem, {.offsets = {Bytes(0), Bytes(4), Bytes(4)},
                                   .height = Bytes(9)}) == "the height is 8, not 9");
    CHECK(*packing_fault(problem, {.offsets = {Bytes(0), Bytes(3), Bytes(0)},
                                   .height = Bytes(7)}) == "buffers 0 and 1 overlap");
    CHECK(*packing_fault(problem, {.offsets = {Bytes(3), Bytes(0), Bytes(0)},
                                   .height = Bytes(7)}) == "buffers 0 and 1 overlap");
  }

  TEST_CASE("only maximal sets of live buffers are sections") {
    //  a 0--3, b 2----6, c 5--8: {a, b} and {b, c}
    const TimeSections sections =
        time_sections({.buffers = {{0, 3, Bytes(1)}, {2, 6, Bytes(1)}, {5, 8, Bytes(1)}}});
    CHECK(sections.count == 2);
    CHECK(sections.spans[0] == SectionSpan{0, 1});
    CHECK(sections.spans[1] == SectionSpan{0, 2});
    CHECK(sections.spans[2] == SectionSpan{1, 2});
  }

  TEST_CASE("a buffer of no bytes and a problem without buffers are packed") {
    CHECK(pack({}).packing.height == Bytes(0));
    const PackResult result =
        pack({.buffers = {{0, 9, Bytes(0)}, {0, 9, Bytes(7)}, {3, 4, Bytes(0)}}});
    CHECK(result.packing.height == Bytes(7));
    CHECK(result.optimal());
  }

  TEST_CASE("a capacity below the live bytes is not reached, the packing is there all the same") {
    const PackingProblem problem{.buffers = {{0, 2, Bytes(4)}, {1, 3, Bytes(4)}}};
    const PackResult result = pack(problem, {.capacity = Bytes(7)});
    CHECK(result.packing.height == Bytes(8));
    CHECK(result.lower_bound == Bytes(8));
  }

  TEST_CASE("a solution lists the buffers as they came, with offsets") {
    const NamedProblem named =
        parse_buffers("size,name,id,upper,lower\r\n4,x,a,2,0\r\n\r\n 3 ,y, b b ,4,2\r\n", "b.csv");
    CHECK(solution_csv(named, {.offsets = {Bytes(0), Bytes(1)}, .height = Bytes(4)}) ==
          "id,lower,upper,size,offset\na,0,2,4,0\nb b,2,4,3,1\n");
  }

  TEST_CASE("bad buffers are errors with line and column") {
    CHECK(error_of("") == "b.csv: the file is empty; expected the columns id,lower,upper,size");
    CHECK(error_of("id,lower,upper,size\n") == "b.csv: the file lists no buffers");
    CHECK(error_of("id,lower,size\n") ==
          "b.csv:1:1: there is no column 'upper'; expected id,lower,upper,size");
    CHECK(error_of("id,lower,upper,size,id\n") == "b.csv:1:21: the column 'id' occurs twice");
    const std::string head = "id,lower,upper,size\n0,0,5,1\n";
    CHECK(error_of(head + "1,0,5\n") == "b.csv:3:5: the line has 3 fields, the first line 4");
    CHECK(error_of(head + "0,0,5,1\n") == "b.csv:3:1: id: '0' occurs in line 2 already");
    CHECK(error_of(head + "1,5,5,1\n") ==
          "b.csv:3:5: upper: 5 is not above lower, 5: the buffer is never live");
    CHECK(error_of(head + "1,0,5,-1\n") == "b.csv:3:7: size: -1 is negative");
    CHECK(error_of(head + "1,0,x,1\n") == "b.csv:3:5: upper: expected an integer, found 'x'");
    CHECK(error_of(head + "1,0,5,9223372036854775808\n") ==
          "b.csv:3:7: size: '9223372036854775808' does not fit into 63 bits");
    CHECK(error_of(head + "1,0,5,9223372036854775807\n") ==
          "b.csv:3:7: size: the sizes up to here sum to more than 63 bits hold");
    CHECK(error_of(head + ",0,5,1\n") == "b.csv:3:1: id: the id is empty");
  }

  TEST_CASE("a block whose bytes a stream still uses is not handed out") {
    PackedPlacement placement;
    placement.address.push_back(Bytes(0));
    placement.address.push_back(Bytes(512));
    placement.address.push_back(Bytes(0));  // in the place of the first
    placement.height = Bytes(1024);
    PackedAllocator allocator(placement, Bytes(1024));
    allocator.reserve(3);
    CHECK(allocator.allocate(AllocationId(0U), Bytes(100)).ok);
    CHECK(allocator.allocate(AllocationId(1U), Bytes(512)).ok);
    CHECK(allocator.allocated() == Bytes(1024));
    CHECK(allocator.reserved() == Bytes(1024));
    allocator.defer_free(AllocationId(0U));
    CHECK(allocator.allocated() == Bytes(512));
    CHECK(allocator.active() == Bytes(1024));
    CHECK(!allocator.allocate(AllocationId(2U), Bytes(512)).ok);
    allocator.free(AllocationId(0U));
    CHECK(allocator.active() == Bytes(512));
    CHECK(allocator.allocate(AllocationId(2U), Bytes(512)).ok);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("an allocator in the order of time takes the tightest range and joins what is freed") {
    // 10 and 4 and 6 are stacked; 10 is freed, then 4: 14 bytes are free below 6. The 3 of time 2
    // takes the 4 that was freed first, as the tightest.
    const PackingProblem problem{{{.lower = 0, .upper = 3, .size = Bytes(10)},
                                  {.lower = 0, .upper = 2, .size = Bytes(4)},
                                  {.lower = 0, .upper = 9, .size = Bytes(6)},
                                  {.lower = 2, .upper = 3, .size = Bytes(3)},
                                  {.lower = 3, .upper = 9, .size = Bytes(14)}}};
    const Packing packing = pack_by_time(problem);
    CHECK(packing.offsets ==
          std::vector<Bytes>{Bytes(0), Bytes(10), Bytes(14), Bytes(10), Bytes(0)});
    CHECK(packing.height == Bytes(20));
  }

  TEST_CASE("the time limit holds for the passes over very many buffers, too") {
    PackingProblem problem;
    for (std::int64_t i = 0; i < 120'000; ++i)
      problem.buffers.push_back(
          {.lower = i, .upper = i + 1000 + i % 977, .size = Bytes(1 + i * i % 4093)});
    // The time of the processor: another process may keep this one from noticing the time.
    const std::clock_t begin = std::clock();
    const PackResult result = pack(problem, {.time_limit = std::chrono::seconds(2)});
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    CHECK(!packing_fault(problem, result.packing));
    if (!test::kInstrumented) CHECK(took <= 2.2);
  }
}

TEST_SUITE("property") {
  TEST_CASE("the search finds the least height of every small problem and proves it") {
    Rng rng(1);
    for (int i = 0; i < 300; ++i) {
      const PackingProblem problem =
          random_problem(rng, static_cast<int>(pick(rng, 1, 7)), pick(rng, 2, 8), pick(rng, 1, 9));
      const PackResult result = pack(problem, by_nodes(1'000'000));
      CAPTURE(i);
      REQUIRE(!packing_fault(problem, result.packing));
      CHECK(result.packing.height == least_height(problem));
      CHECK(result.optimal());
    }
  }

  TEST_CASE("every heuristic's packing is valid and not below the bound") {
    Rng rng(2);
    for (int i = 0; i < 60; ++i) {
      const PackingProblem problem =
          random_problem(rng, static_cast<int>(pick(rng, 1, 120)), pick(rng, 2, 90), 1000);
      const Bytes bound = most_live_bytes(problem);
      std::vector<Packing> packings{pack_skyline(problem), best_greedy(problem, bound)};
      for (const GreedyOrder order : kGreedyOrders) {
        packings.push_back(pack_greedily(problem, order, FitRule::kFirst));
        packings.push_back(pack_greedily(problem, order, FitRule::kBest));
      }
      for (const Packing& packing : packings) {
        CHECK(!packing_fault(problem, packing));
        CHECK(packing.height >= bound);
        CHECK(packing.height >= packings[1].height);
      }
      const Packing by_time = pack_by_time(problem);
      CHECK(!packing_fault(problem, by_time));
      CHECK(by_time.height >= bound);
    }
  }

  TEST_CASE("rectangles cut without a hole are packed without a hole") {
    Rng rng(3);
    for (int i = 0; i < 20; ++i) {
      const PackingProblem problem =
          perfect_problem(rng, 40, 4096, static_cast<int>(pick(rng, 5, 60)));
      const PackResult result = pack(problem, by_nodes(2'000'000));
      CAPTURE(i);
      CHECK(!packing_fault(problem, result.packing));
      CHECK(result.packing.height == Bytes(4096));
      CHECK(result.optimal());
    }
  }

  TEST_CASE("parts of independent times are packed on their own") {
    Rng rng(4);
    PackingProblem problem;
    Bytes least;
    for (std::int64_t part = 0; part < 5; ++part) {
      const PackingProblem one = random_problem(rng, 6, 6, 9);
      least = std::max(least, least_height(one));
      for (Buffer b : one.buffers) {
        problem.buffers.push_back(
            {.lower = b.lower + 100 * part, .upper = b.upper + 100 * part, .size = b.size});
      }
    }
    const PackResult result = pack(problem, by_nodes(1'000'000));
    CHECK(result.packing.height == least);
    CHECK(result.optimal());
  }

  TEST_CASE("the same problem and node limit give the same packing") {
    Rng rng(6);
    const PackingProblem problem = random_problem(rng, 90, 60, 5000);
    const PackResult once = pack(problem, by_nodes(60'000));
    const PackResult again = pack(problem, by_nodes(60'000));
    CHECK(once.packing.offsets == again.packing.offsets);
    CHECK(once.nodes == again.nodes);
    CHECK(once.nodes <= 60'001);
    CHECK(!packing_fault(problem, once.packing));
  }
}

TEST_SUITE("golden") {
  TEST_CASE("training steps are packed within 1 % of their live bytes") {
    const Environment environment = default_environment({});
    for (const std::string model : {"gpt2", "llama-3.2-1b", "resnet50"}) {
      for (const std::string policies : {"[]", "[checkpoint_every: {period: 1}]"}) {
        const Value document = parse_document("version: 1\nmodel: " + model +
                                                  "\nhardware: h100-sxm-80gb\nallocator: packed\n"
                                                  "policies: " +
                                                  policies + "\n",
                                              "packed.yaml");
        const Scenario scenario = decode_scenario(document, environment);
        const TrainedModel trained = build_training(scenario);
        const Compiled compiled = compile(scenario, trained);
        std::vector<AllocationId> blocks;
        const PackingProblem problem = packing_problem(compiled.program, blocks);
        Packing packing{.height = compiled.placement.height};
        for (const AllocationId block : blocks) {
          packing.offsets.push_back(compiled.placement.address[block]);
        }
        CAPTURE(model);
        CAPTURE(policies);
        CHECK(!packing_fault(problem, packing));
        CHECK(compiled.placement.lower_bound == most_live_bytes(problem));
        CHECK(static_cast<double>(packing.height.count) <=
              1.01 * static_cast<double>(compiled.placement.lower_bound.count));
        const PointResult point = simulate(scenario, trained, {});
        CHECK(point.status == PointStatus::kFits);
        CHECK(point.run.most_reserved == packing.height);
        CHECK(point.smallest_capacity == packing.height + point.context);
      }
    }
  }
}

TEST_SUITE("slow") {
  TEST_CASE("the minimalloc benchmark is packed within its capacity") {
    const std::filesystem::path folder = benchmark_folder();
    if (!std::filesystem::exists(folder)) {
      MESSAGE("skipped: no " << folder.string() << " (set TIDEMARK_SHARED)");
      return;
    }
    for (const char name : std::string("ABCDEFGHIJK")) {
      const std::string path = (folder / (std::string(1, name) + ".1048576.csv")).string();
      const NamedProblem named = parse_buffers(read_text_file(path), path);
      const PackResult result =
          pack(named.problem, {.capacity = kMiB, .time_limit = std::chrono::seconds(60)});
      CAPTURE(path);
      CHECK(!packing_fault(named.problem, result.packing));
      CHECK(result.packing.height <= kMiB);
      if (name != 'D' && name != 'J') CHECK(result.optimal());
    }
  }
}

}  // namespace tidemark::packing_test
