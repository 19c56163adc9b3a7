// Sweeps in the tasks of a Slurm array.
#include <cstdlib>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::slurm_test {
namespace {

constexpr const char* kSweep =
    "version: 1\nname: array\nmodel: {preset: gpt2, layers: 1}\nhardware: a100-sxm-40gb\n"
    "sweep: {matrix: {training.micro_batch: [1, 2, 3, 4], training.sequence: [16, 32, 48, 64]}}\n";

bool has_slurm() {
  return std::system(
             "test -x /usr/sbin/slurmctld && test -x /usr/sbin/slurmd && "
             "command -v sbatch >/dev/null 2>&1 && test -x /usr/sbin/munged") == 0;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a task of a Slurm array takes its shard, and says so") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(workspace.run("sweep s.yaml -o whole --json").code == 0);
    for (const int task : {1, 3, 5}) {
      const Outcome part = workspace.run(
          "sweep s.yaml -o parts --json",
          fmt::format("SLURM_ARRAY_TASK_ID={} SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 "
                      "SLURM_ARRAY_TASK_STEP=2",
                      task));
      CHECK(part.code == 0);
      CHECK(contains(part.err, fmt::format("shard {}/3, as the Slurm array has it", task / 2)));
    }
    REQUIRE(workspace.run("sweep merge parts").code == 0);
    CHECK(workspace.read("parts/results.json") == workspace.read("whole/results.json"));
    CHECK(workspace.read("parts/results.csv") == workspace.read("whole/results.csv"));
    const std::string task = "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=3";
    const Outcome all = workspace.run("sweep s.yaml -o all --shard 0/1 --json", task);
    CHECK(all.code == 0);
    CHECK(all.out == workspace.read("whole/results.json"));
    CHECK(workspace.run("sweep s.yaml -o out", "SLURM_ARRAY_TASK_COUNT=x SLURM_ARRAY_TASK_ID=0")
              .code == 2);
  }

  TEST_CASE("a list of ids is an array, too, and one that is not evenly spaced says what to do") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const auto task = [&](int id, const std::string& others) {
      return workspace.run(
          "sweep s.yaml -o parts --json",
          fmt::format("SLURM_ARRAY_TASK_ID={} SLURM_ARRAY_TASK_STEP=1 {}", id, others));
    };
    // sbatch --array=1,4,7
    const std::string even =
        "SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7";
    for (const int id : {1, 4, 7}) {
      const Outcome part = task(id, even);
      CHECK(part.code == 0);
      CHECK(contains(part.err, fmt::format("shard {}/3, as the Slurm array has it", id / 3)));
    }
    CHECK(workspace.run("sweep merge parts").code == 0);
    // sbatch --array=1,2,7 and 1,2,4: the id, or the whole array, is off any even spacing.
    for (const auto& [id, last] : {std::pair(2, 7), std::pair(4, 4), std::pair(9, 7)}) {
      const Outcome off = task(id, fmt::format("SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 "
                                               "SLURM_ARRAY_TASK_MAX={}",
                                               last));
      CHECK(off.code == 2);
      CHECK(contains(
          off.err, fmt::format("SLURM_ARRAY_TASK_ID is {}, one of 3 ids from 1 to {}", id, last)));
      CHECK(contains(off.err, "sbatch --array=0-2, or give each task its shard: --shard I/3"));
    }
    // An array of one task has all points.
    const Outcome one =
        task(5, "SLURM_ARRAY_TASK_COUNT=1 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_MAX=5 ");
    CHECK(contains(one.err, "shard 0/1, as the Slurm array has it"));
  }

  TEST_CASE("an array of eight tasks on a private Slurm gives what one sweep does") {
    if (geteuid() != 0 || !has_slurm()) {
      MESSAGE("skipped: needs root and Slurm (slurmctld, slurmd, slurm-client, munge)");
      return;
    }
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(workspace.run("sweep s.yaml -o whole").code == 0);
    const std::string command =
        fmt::format("cd '{}' && '{}' '{}' '{}' s.yaml parts >&2", workspace.folder().string(),
                    test::source_path("tests/cli/slurm_array.sh"), test::program_path(),
                    test::source_path("scenarios/slurm/sweep.sbatch"));
    REQUIRE(std::system(command.c_str()) == 0);
    REQUIRE(workspace.run("sweep merge parts").code == 0);
    CHECK(workspace.read("parts/results.json") == workspace.read("whole/results.json"));
    CHECK(workspace.read("parts/results.csv") == workspace.read("whole/results.csv"));
  }
}

}  // namespace tidemark::testing::slurm_test
