#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::replay_eviction_test {

using namespace tidemark::testing;

namespace {

const std::string kLog = tidemark::test::data_path("eviction/diamond.log");

Outcome replay(const std::string& arguments) {
  return Workspace().run("replay eviction " + kLog + ' ' + arguments);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("replay eviction prints one document") {
    // The tensors are x 10, a 30, b 20, c 30, d 10 with times 5, 7, 2, 3. In 80 bytes a is evicted
    // for c, recomputed for d, and then b is evicted; sha1("a,b") starts with the digits below.
    const Outcome outcome = replay("--heuristic lru --mode eager --budget 80 --json");
    REQUIRE(outcome.code == 0);
    CHECK(outcome.err.empty());
    const auto document = nlohmann::json::parse(outcome.out);
    CHECK(document["status"] == "ok");
    CHECK(document["peak"] == 80);
    CHECK(document["model_compute"] == 17);
    CHECK(document["remat_compute"] == 5);
    CHECK(document["total"] == 22);
    CHECK(document["n_policy_evict"] == 2);
    CHECK(document["n_dealloc_evict"] == 2);
    CHECK(document["n_remat_ops"] == 1);
    CHECK(document["evict_sha1"] == "5d8b1241b0484dd2");
  }

  TEST_CASE("a replay that does not fit is a result") {
    const Outcome outcome = replay("--heuristic dtr --mode eager --budget 79");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "out of memory"));
  }

  TEST_CASE("mistakes on the command line of replay eviction name the option") {
    const auto fails = [](const Outcome& outcome, const std::string& text) {
      CHECK(outcome.code == 2);
      CHECK(outcome.out.empty());
      CAPTURE(outcome.err);
      CHECK(contains(outcome.err, text));
    };
    fails(replay("--heuristic dtr_e --mode eager --budget 80"), "did you mean 'dtr_eq'?");
    fails(replay("--heuristic dtr --mode later --budget 80"), "--mode: there is no mode 'later'");
    fails(replay("--heuristic dtr --mode eager --budget 0"), "--budget: must be more than 0");
    fails(replay("--heuristic dtr --mode eager --budget 80 --thrash-factor nan"),
          "--thrash-factor: expected a number");
    fails(Workspace().run("replay eviction none.log --heuristic dtr --mode eager --budget 80"),
          "none.log: no such file");
  }
}

}  // namespace tidemark::replay_eviction_test
