#include "policies/eviction/online/online_eviction.hpp"

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/core/sha1.hpp"
#include "policies/eviction/online/exact_ratio.hpp"
#include "policies/eviction/online/log_reader.hpp"
#include "tests/policies/eviction/naive_eviction.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::online_eviction_test {

using tidemark::test::naive_eviction;

namespace {

// Lines of a log, one call per instruction.
struct LogText {
  std::string text = "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n";

  static std::string quote(const std::string& name) { return '"' + name + '"'; }
  static std::string list(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names)
      all += (all.empty() ? "" : ",") + quote(name);
    return '[' + all + ']';
  }
  void memory(const std::string& name, std::int64_t bytes) {
    text += R"({"INSTRUCTION":"MEMORY","NAME":)" + quote(name) + R"(,"MEMORY":")" +
            std::to_string(bytes) + "\"}\n";
  }
  void constant(const std::string& name, std::int64_t bytes) {
    text += R"({"INSTRUCTION":"CONSTANT","NAME":)" + quote(name) + "}\n";
    memory(name, bytes);
  }
  struct Result {
    std::string name;
    std::int64_t bytes = 0;
    int alias = -1;
  };
  void call(std::int64_t time, const std::vector<std::string>& arguments,
            const std::vector<Result>& results) {
    std::vector<std::string> names;
    for (const Result& result : results)
      names.push_back(result.name);
    text += R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":)" + list(arguments) + R"(,"RESULT":)" +
            list(names) + R"(,"TIME":")" + std::to_string(time) + "\"}\n";
    for (const Result& result : results) {
      memory(result.name, result.bytes);
      text += R"({"INSTRUCTION":"ALIAS","NAME":)" + quote(result.name) + R"(,"ALIAS":")" +
              std::to_string(result.alias) + "\"}\n";
    }
  }
  void mutate(std::int64_t time, const std::vector<std::string>& arguments, int index) {
    text += R"({"INSTRUCTION":"MUTATE","NAME":"m","ARGS":)" + list(arguments) + R"(,"MUTATE":[)" +
            std::to_string(index) + R"(],"TIME":")" + std::to_string(time) + "\"}\n";
  }
  void pair(const char* kind, const std::string& to, const std::string& from) {
    text += std::string(R"({"INSTRUCTION":")") + kind + R"(","DST":)" + quote(to) + R"(,"SRC":)" +
            quote(from) + "}\n";
  }
  void release(const std::string& name) {
    text += R"({"INSTRUCTION":"RELEASE","NAME":)" + quote(name) + "}\n";
  }
  [[nodiscard]] EvictionLog log() const { return parse_eviction_log(text, "test.log"); }
};

// Theorem of DTR, section 3: N layers forward, N backward, all of one byte and one unit of time;
// the backward of a layer reads the input of the layer and the gradient.
EvictionLog uniform_chain(int layers) {
  LogText text;
  const auto name = [](const char* kind, int i) { return kind + std::to_string(i); };
  text.constant("x0", 0);
  for (int i = 1; i <= layers; ++i)
    text.call(1, {name("x", i - 1)}, {{name("x", i), 1}});
  text.call(1, {name("x", layers - 1)}, {{name("g", layers), 1}});
  text.release(name("x", layers));
  for (int i = layers - 1; i >= 1; --i) {
    text.call(1, {name("x", i - 1), name("g", i + 1)}, {{name("g", i), 1}});
    text.release(name("g", i + 1));
    text.release(name("x", i));
  }
  return text.log();
}

// Any program of all instructions: few names, so that they are rebound; zero costs and sizes.
EvictionLog random_log(unsigned seed, int length) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
  const bool even = below(2) == 0;  // few distinct sizes and costs: many ties
  LogText text;
  std::vector<std::string> live;
  for (int i = 0; i < 2; ++i) {
    live.push_back("c" + std::to_string(i));
    text.constant(live.back(), below(20));
  }
  const auto any = [&] { return live[static_cast<std::size_t>(below(unsigned(live.size())))]; };
  for (int i = 0; i < length; ++i) {
    const int kind = below(20);
    const std::string fresh = "t" + std::to_string(i);
    std::vector<std::string> arguments{any()};
    while (below(2) == 0)
      arguments.push_back(any());
    const auto time = even ? below(3) : below(50);
    if (kind < 10) {
      std::vector<LogText::Result> results;
      do {
        const bool view = below(6) == 0;
        results.push_back({fresh + std::string(results.size(), 'b'), even ? 8 : below(40),
                           view ? below(unsigned(arguments.size())) : -1});
      } while (below(4) == 0);
      text.call(time, arguments, results);
      for (const auto& result : results)
        live.push_back(result.name);
    } else if (kind < 12) {
      text.mutate(time, arguments, below(unsigned(arguments.size())));
    } else if (kind == 12) {
      text.pair("COPY", fresh, any());
      live.push_back(fresh);
    } else if (kind == 13) {
      text.pair("COPY_FROM", any(), any());
    } else if (live.size() > 3) {
      const auto at = static_cast<std::size_t>(below(unsigned(live.size())));
      text.release(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return text.log();
}

Bytes unlimited_peak(const EvictionLog& log) {
  return replay_eviction(log, {.budget = Bytes(std::int64_t{1} << 60)}).peak;
}

void check_equal(const EvictionResult& a, const EvictionResult& b) {
  CHECK(a.status == b.status);
  CHECK(a.peak == b.peak);
  CHECK(a.model_compute == b.model_compute);
  CHECK(a.remat_compute == b.remat_compute);
  CHECK(a.policy_evictions == b.policy_evictions);
  CHECK(a.deallocations == b.deallocations);
  CHECK(a.remat_operators == b.remat_operators);
  CHECK(a.victims_sha1 == b.victims_sha1);
}

constexpr std::array<EvictionHeuristic, 7> kScored{
    EvictionHeuristic::kLru,    EvictionHeuristic::kSize, EvictionHeuristic::kDtrLocal,
    EvictionHeuristic::kMsps,   EvictionHeuristic::kDtr,  EvictionHeuristic::kDtrEq,
    EvictionHeuristic::kDtrFull};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("an evicted tensor is recomputed when it is read") {
    LogText text;
    text.constant("x", 10);
    text.call(5, {"x"}, {{"a", 30}});
    text.call(7, {"a"}, {{"b", 20}});
    text.call(2, {"b"}, {{"c", 30}});
    text.call(3, {"c", "a"}, {{"d", 10}});
    for (const char* name : {"a", "b", "c"})
      text.release(name);
    const auto replay = [&](Bytes budget) {
      return replay_eviction(text.log(), {.heuristic = EvictionHeuristic::kLru, .budget = budget});
    };
    // Budget 100: x 10, a 40, b 60, c 90, d 100: everything fits.
    check_equal(replay(Bytes(100)), {.peak = Bytes(100),
                                     .model_compute = 17,
                                     .deallocations = 3,
                                     .victims_sha1 = "da39a3ee5e6b4b0d"});
    // Budget 80: for c, a is evicted (60 - 30 + 30 = 60; b is locked). For d, a comes back: 60 + 30
    // > 80, so b is evicted (c is locked): 40 + 30 = 70, then d: 80. Victims "a,b"; b is released
    // when it is already evicted.
    Sha1 names;
    names.update("a,b");
    check_equal(replay(Bytes(80)), {.peak = Bytes(80),
                                    .model_compute = 17,
                                    .remat_compute = 5,
                                    .policy_evictions = 2,
                                    .deallocations = 2,
                                    .remat_operators = 1,
                                    .victims_sha1 = names.hex().substr(0, 16)});
    // Budget 79: x, a, c and d are 80 at least.
    CHECK(replay(Bytes(79)).status == EvictionStatus::kOutOfMemory);
  }

  TEST_CASE("of equal scores the last of the pool goes, but the first whose score is 0") {
    // 41 bytes are full with x, a, b, c and d; e needs one byte more.
    for (const int time : {4, 0}) {
      LogText text;
      text.constant("x", 1);
      for (const char* name : {"a", "b", "c", "d"})
        text.call(time, {"x"}, {{name, 10}});
      text.call(1, {"x"}, {{"e", 1}});
      for (const char* name : {"a", "b", "c", "d"})
        text.release(name);
      Sha1 victim;
      victim.update(time == 0 ? "a" : "d");
      const EvictionResult result =
          replay_eviction(text.log(), {.heuristic = EvictionHeuristic::kMsps,
                                       .mode = DeallocationMode::kIgnore,
                                       .budget = Bytes(41)});
      CHECK(result.status == EvictionStatus::kOk);
      CHECK(result.policy_evictions == 1);
      CHECK(result.victims_sha1 == victim.hex().substr(0, 16));
    }
  }

  TEST_CASE("SHA-1 of the standard's examples") {
    Sha1 hash;
    CHECK(hash.hex() == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    hash.update("abc");
    CHECK(hash.hex() == "a9993e364706816aba3e25717850c26c9cd0d89d");
    hash.update("dbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
    Sha1 whole;
    whole.update("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
    CHECK(whole.hex() == "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  }

  TEST_CASE("quotients of wide integers are rounded once") {
    CHECK(exact_ratio(1, 3) == 1.0 / 3.0);
    CHECK(std::isinf(exact_ratio(0, 0)));
    // 2^53 + 1 is between two doubles and rounds to the even one; 2^53 + 3 rounds up.
    constexpr std::int64_t kTwo53 = std::int64_t{1} << 53;
    CHECK(exact_ratio(kTwo53 + 1, 1) == 0x1p53);
    CHECK(exact_ratio(kTwo53 + 3, 1) == 0x1p53 + 4);
    CHECK(exact_ratio(3, static_cast<Wide>(1) << 100) == 3 * 0x1p-100);
    CHECK(exact_ratio((std::int64_t{1} << 60) + 1, (static_cast<Wide>(1) << 60) + 1) == 1);
    std::mt19937_64 random(5);
    for (int i = 0; i < 1000; ++i) {
      // Against long double where its 64 bits hold both operands and no double rounding is near.
      const auto a = static_cast<std::int64_t>(random() >> 2);
      const std::uint64_t b = random() >> 1 | 1;
      const double expected =
          static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
      CHECK(std::abs(exact_ratio(a, b) - expected) <= std::abs(expected) * 0x1p-52);
    }
  }

  TEST_CASE("a log that is wrong is refused with its line") {
    const auto refuse = [](const std::string& line, const std::string& message) {
      const std::string text = "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n" + line;
      CAPTURE(line);
      try {
        (void)parse_eviction_log(text, "my.log");
        FAIL("was accepted");
      } catch (const UserError& error) {
        const std::string what = error.what();
        CAPTURE(what);
        CHECK(what.rfind("my.log:2", 0) == 0);
        CHECK(what.find(message) != std::string::npos);
      }
    };
    refuse("{\"INSTRUCTION\":\"RELEASE\"", "expected '}'");
    refuse("{\"INSTRUCTION\":\"RELEASE\"}", "NAME is missing");
    refuse("{\"INSTRUCTION\":\"FORGET\",\"NAME\":\"x\"}", "there is no instruction 'FORGET'");
    refuse("{\"INSTRUCTION\":\"COPY\",\"DST\":\"a\",\"SRC\":\"b\"}", "'b' has not been defined");
    refuse("{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x\"}", "the log is cut off");
    refuse(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":[],"TIME":"-3"})",
           "TIME must be");
    refuse(R"({"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":[],"TIME":"1.5"})",
           "must be a whole number");
    CHECK_THROWS_WITH_AS((void)parse_eviction_log("", "my.log"),
                         doctest::Contains("nothing to replay"), UserError);
    CHECK_THROWS_AS((void)read_eviction_log(test::data_path()), UserError);
  }
}

TEST_SUITE("property") {
  TEST_CASE("fast and stated rules choose the same victims on random programs") {
    const unsigned seeds = test::runs_long_tests() ? 45 : 30;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      const EvictionLog log = random_log(seed, 20 + static_cast<int>(seed) * 2);
      const Bytes peak = unlimited_peak(log);
      for (const EvictionHeuristic heuristic : kScored) {
        for (const auto mode :
             {DeallocationMode::kEager, DeallocationMode::kIgnore, DeallocationMode::kBanish}) {
          for (const int percent : {95, 75, 55}) {
            const EvictionOptions options{.heuristic = heuristic,
                                          .mode = mode,
                                          .budget = std::max(Bytes(1), peak * percent / 100)};
            CAPTURE(seed);
            CAPTURE(static_cast<int>(heuristic));
            CAPTURE(static_cast<int>(mode));
            CAPTURE(percent);
            check_equal(replay_eviction(log, options), naive_eviction(log, options));
          }
        }
      }
    }
  }

  TEST_CASE("a budget is kept, the program is computed once, and nothing depends on chance") {
    for (unsigned seed = 100; seed < 130; ++seed) {
      const EvictionLog log = random_log(seed, 150);
      const Bytes peak = unlimited_peak(log);
      for (int h = 0; h < 8; ++h) {
        for (int m = 0; m < 3; ++m) {
          const EvictionOptions options{.heuristic = static_cast<EvictionHeuristic>(h),
                                        .mode = static_cast<DeallocationMode>(m),
                                        .budget = peak * 8 / 10 + Bytes(1)};
          const EvictionResult result = replay_eviction(log, options);
          CHECK(result.peak <= options.budget);
          check_equal(result, replay_eviction(log, options));
          std::int64_t compute = 0;
          for (const EvictionLog::Operator& op : log.operators)
            compute += op.outputs > 0 ? op.cost : 0;
          if (result.status == EvictionStatus::kOk) {
            CHECK(result.model_compute == compute);
            CHECK(result.remat_compute <= 9 * compute);
          }
        }
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("wide programs: with hundreds of candidates the victims are those of a full scan") {
    for (const unsigned seed : {1U, 2U, 3U}) {
      const EvictionLog log = random_log(1000 + seed, 220);
      const Bytes peak = unlimited_peak(log);
      for (const EvictionHeuristic heuristic : kScored) {
        for (const auto mode :
             {DeallocationMode::kEager, DeallocationMode::kIgnore, DeallocationMode::kBanish}) {
          const EvictionOptions options{
              .heuristic = heuristic, .mode = mode, .budget = peak * 8 / 10, .thrash_factor = 1.5};
          CAPTURE(seed);
          CAPTURE(static_cast<int>(heuristic));
          CAPTURE(static_cast<int>(mode));
          check_equal(replay_eviction(log, options), naive_eviction(log, options));
        }
      }
    }
  }
}

TEST_SUITE("paper") {
  // Kirisame et al. 2021, theorem 3.1: N layers, memory 2 * ceil(sqrt(N)), O(N) operators. The
  // theorem is about h_e*; the operators stay below 2N for the program and as many again.
  TEST_CASE("a chain of N layers needs O(N) operators within 2 sqrt(N) bytes") {
    for (const int layers : {64, 256, 1024, 4096, 16384}) {
      const EvictionLog log = uniform_chain(layers);
      const Bytes budget(2 * static_cast<std::int64_t>(std::ceil(std::sqrt(layers))));
      for (const auto heuristic : {EvictionHeuristic::kDtr, EvictionHeuristic::kDtrEq}) {
        const EvictionResult result =
            replay_eviction(log, {.heuristic = heuristic, .budget = budget});
        CAPTURE(layers);
        CAPTURE(static_cast<int>(heuristic));
        CAPTURE(result.remat_compute);
        CHECK(result.status == EvictionStatus::kOk);
        CHECK(result.peak <= budget);
        CHECK(result.model_compute + result.remat_compute <= 2 * (2 * layers));
      }
    }
  }
}

TEST_SUITE("golden") {
  TEST_CASE("recorded replays of simrd are reproduced, victim by victim") {
    const auto folder = shared_path("cases/eviction");
    std::ifstream in(folder / "expected.csv");
    if (!in) {
      MESSAGE("skipped: " << folder << " is not there");
      return;
    }
    std::map<std::string, EvictionLog> logs;
    const auto position = [](std::span<const std::string_view> names, const std::string& name) {
      return static_cast<std::uint8_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    int rows = 0;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      if (line.ends_with('\r')) line.pop_back();
      std::stringstream cells(line);
      std::vector<std::string> field;
      for (std::string cell; std::getline(cells, cell, ',');)
        field.push_back(cell);
      REQUIRE(field.size() == 18);
      if (field[16] != "True") continue;
      if (!logs.contains(field[0])) {
        logs[field[0]] = read_eviction_log((folder / (field[0] + ".log")).string());
      }
      const EvictionOptions options{
          .heuristic = EvictionHeuristic{position(eviction_heuristic_names(), field[2])},
          .mode = DeallocationMode{position(deallocation_mode_names(), field[1])},
          .budget = Bytes(std::stoll(field[4]))};
      CAPTURE(line);
      const std::vector<std::string> statuses{"ok", "OOM", "THRASH"};
      EvictionResult expected{.peak = Bytes(std::stoll(field[6])),
                              .model_compute = std::stoll(field[7]),
                              .remat_compute = std::stoll(field[8]),
                              .policy_evictions = std::stoll(field[10]),
                              .deallocations = std::stoll(field[11]),
                              .remat_operators = std::stoll(field[12]),
                              .victims_sha1 = field[17]};
      expected.status = static_cast<EvictionStatus>(
          std::find(statuses.begin(), statuses.end(), field[5]) - statuses.begin());
      check_equal(replay_eviction(logs.at(field[0]), options), expected);
      ++rows;
    }
    CHECK(rows > 0);
  }
}

}  // namespace tidemark::online_eviction_test
