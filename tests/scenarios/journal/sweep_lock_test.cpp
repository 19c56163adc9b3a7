// Two sweeps in one folder at the same time.
#include "scenarios/studies/journal/sweep_lock.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "graph/core/temporary_files.hpp"
#include "tests/cli/command_runner.hpp"

namespace tidemark::sweep_lock_test {

TEST_SUITE("unit") {
  TEST_CASE("shards run beside each other; the same points or another sweep do not") {
    const testing::Workspace workspace;
    const std::string folder = (workspace.folder() / "out").string();
    const SweepIdentity sweep{
        .name = "s", .published = {}, .keys = {"a", "b"}, .of_shard = {}, .overrides = {}};
    const SweepIdentity other{
        .name = "s", .published = {}, .keys = {"a", "c"}, .of_shard = {}, .overrides = {}};
    const auto problem = [&](const SweepIdentity& of, const Shard& shard) -> std::string {
      try {
        const SweepLock lock(folder, of, shard);
        return {};
      } catch (const UserError& error) {
        return error.what();
      }
    };
    {
      const SweepLock held(folder, sweep, {.index = 0, .count = 2});
      CHECK(problem(sweep, {.index = 1, .count = 2}).empty());
      const std::string same = problem(sweep, {.index = 0, .count = 2});
      CHECK(testing::contains(same, this_process() + " runs the same points here"));
      CHECK(testing::contains(problem(other, {.index = 1, .count = 2}), "runs another sweep here"));
    }
    CHECK(problem(other, {.index = 1, .count = 2}).empty());
    CHECK_FALSE(workspace.exists("out"));
  }

  TEST_CASE("no other command writes into the folder of a running sweep") {
    const testing::Workspace workspace;
    const std::string folder = (workspace.folder() / "out").string();
    const std::vector<std::string> commands{
        "run mlp --gpu v100-sxm-16gb -o out", "run mlp gpt2 --gpu v100-sxm-16gb -o out",
        "compare mlp --gpu v100-sxm-16gb --budget 90% --policy chen_sqrt -o out"};
    {
      const SweepIdentity sweep{
          .name = "s", .published = {}, .keys = {"a"}, .of_shard = {}, .overrides = {}};
      const SweepLock held(folder, sweep, {.index = 0, .count = 1});
      const std::vector<std::string> before = workspace.names("out");
      for (const std::string& command : commands) {
        CAPTURE(command);
        const testing::Outcome refused = workspace.run(command);
        CHECK(refused.code == 2);
        CHECK(refused.out.empty());
        CHECK(testing::contains(refused.err,
                                "out: " + this_process() + " runs a sweep here; wait for it"));
        CHECK(workspace.names("out") == before);
      }
    }
    for (const std::string& command : commands) {
      CAPTURE(command);
      CHECK(workspace.run(command).code == 0);
      CHECK(workspace.exists("out/results.json"));
    }
  }
}

}  // namespace tidemark::sweep_lock_test
