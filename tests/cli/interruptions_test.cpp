// Power cuts and full disks during a sweep: nothing that was done is lost, and nothing that is
// there is false.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::interruptions_test {

using namespace tidemark::testing;

namespace {

// A dozen points, with every file that a sweep writes.
constexpr const char* kSweep = R"(version: 1
name: interrupted
model: {preset: gpt2, layers: 2, vocab: 512}
hardware: v100-sxm-16gb
training: {sequence: 64}
sweep:
  matrix:
    training.micro_batch: [1, 2, 4]
    policies: [[], [checkpoint_every: {period: 1}], [offload_activations], [chen_sqrt]]
report: {formats: [json, csv, sqlite, html]}
)";

// Files whose content is the same in every run; a database and a page say the same in other bytes.
constexpr std::array<const char*, 2> kCompared{"results.json", "results.csv"};
constexpr std::array<const char*, 4> kResults{"results.json", "results.csv", "results.sqlite",
                                              "report.html"};

// The files of the results are whole or absent, and no other file is taken for one.
void check_results(const Workspace& workspace, const std::string& folder) {
  for (const char* file : kCompared) {
    CAPTURE(file);
    const std::string name = folder + '/' + file;
    if (workspace.exists(name))
      CHECK(workspace.read(name) == workspace.read(std::string("whole/") + file));
  }
}

// Runs the sweep in `folder` and ends it with SIGKILL after `delay`.
void run_killed(const Workspace& workspace, const std::string& folder,
                std::chrono::microseconds delay) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (chdir(workspace.folder().c_str()) != 0) _exit(99);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    const std::string program = test::program_path();
    execl(program.c_str(), program.c_str(), "sweep", "s.yaml", "-o", folder.c_str(), "-j", "2",
          "--resume", nullptr);
    _exit(98);
  }
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a sweep killed at random instants and resumed says what an undisturbed one does") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const auto begin = std::chrono::steady_clock::now();
    const std::string whole = workspace.run("sweep s.yaml -o whole -j 2 --json").out;
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - begin;
    REQUIRE(nlohmann::json::parse(whole).at("points").size() == 12);
    const std::vector<std::string> names = workspace.names("whole");
    std::mt19937_64 random(6);
    const int instants = test::runs_long_tests() ? 100 : 12;
    for (int i = 0; i < instants; ++i) {
      CAPTURE(i);
      const std::string folder = fmt::format("killed-{}", i);
      // Now and then a resumed sweep is killed, too.
      for (int times = 0; times <= i % 3; ++times) {
        const double part = std::uniform_real_distribution<double>(0, 1.1)(random);
        run_killed(workspace, folder,
                   std::chrono::microseconds(static_cast<std::int64_t>(part * wall.count())));
        check_results(workspace, folder);
      }
      const Outcome resumed = workspace.run("sweep s.yaml -o " + folder + " -j 2 --resume --json");
      CHECK(resumed.code == 0);
      CHECK(resumed.out == whole);
      CHECK(workspace.names(folder) == names);  // nothing of the killed ones is left
      check_results(workspace, folder);
    }
  }

  TEST_CASE("a sweep on a full disk says so, and goes on when there is room") {
    if (geteuid() != 0 || std::system("unshare -m true 2>/dev/null") != 0) {
      MESSAGE("skipped: needs root, to mount small file systems");
      return;
    }
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const std::string whole = workspace.run("sweep s.yaml -o whole -j 2 --json").out;
    std::uintmax_t bytes = 0;
    for (const std::string& name : workspace.names("whole"))
      bytes +=
          (std::filesystem::file_size(workspace.folder() / "whole" / name) + 4095) / 4096 * 4096;
    std::filesystem::create_directory(workspace.folder() / "disk");
    const unsigned sizes = test::runs_long_tests() ? 40 : 8;
    for (unsigned i = 0; i < sizes; ++i) {
      // From one page to a little less than what the sweep writes.
      const std::uintmax_t size = 4096 + i * (bytes - 8192) / sizes;
      CAPTURE(size);
      workspace.write(
          "full.sh",
          fmt::format(
              "mount -t tmpfs -o size={} none disk || exit 90\n"
              "'{}' sweep s.yaml -o disk/out -j 2 --json >out 2>err; code=$?\n"
              "for f in {}; do if [ -e disk/out/$f ]; then cp disk/out/$f left-$f; fi; done\n"
              "mount -o remount,size=64m disk || exit 91\n"
              "'{}' sweep s.yaml -o disk/out -j 2 --resume --json >resumed 2>>err || exit 92\n"
              "ls disk/out >names; exit $code\n",
              size, test::program_path(), fmt::join(kResults, " "), test::program_path()));
      for (const char* file : kResults)
        std::filesystem::remove(workspace.folder() / (std::string("left-") + file));
      const int status = std::system(
          fmt::format("cd '{}' && unshare -m sh full.sh", workspace.folder().string()).c_str());
      const std::string said = workspace.read("err");
      CAPTURE(said);
      CHECK(WEXITSTATUS(status) == 2);
      CHECK(contains(said, "is the disk full?"));
      CHECK(!contains(said, "internal error"));
      for (const char* file : kCompared) {
        const std::string left = std::string("left-") + file;
        if (workspace.exists(left))
          CHECK(workspace.read(left) == workspace.read(std::string("whole/") + file));
      }
      CHECK(workspace.read("resumed") == whole);
      std::string names;
      for (const std::string& name : workspace.names("whole"))
        names += name + '\n';
      CHECK(workspace.read("names") == names);
    }
  }
}

}  // namespace tidemark::interruptions_test
