// Inputs without an end, and inputs that are too deep: errors, not exhausted memory or stacks.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "tests/cli/command_runner.hpp"
#include "tests/support/instrumented.hpp"

namespace tidemark::input_limits_test {

using namespace tidemark::testing;

namespace {

// Memory that a command may take, in KiB. Less than twice the largest file is enough. A sanitizer's
// shadow takes terabytes of addresses, which are not limited then.
constexpr const char* kLittleMemory = test::kInstrumented ? "" : "ulimit -v 1500000;";
constexpr const char* kLeastMemory = test::kInstrumented ? "" : "ulimit -v 600000;";

void check_refused(const Outcome& outcome, const std::string& part) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, part));
  CHECK(outcome.out.empty());
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a sweep without memory for its threads ends with a reason, and nothing is lost") {
    if (test::kInstrumented) return;  // a sanitizer's shadow takes terabytes of addresses
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: gpt2, hardware: h100-sxm-80gb, sweep: {matrix: {training.micro_batch: "
                    "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], training.sequence: [64, 128, 256, 512, 768, "
                    "1024]}}}");
    for (int kib = 120000; kib <= 150000; kib += 15000) {
      CAPTURE(kib);
      std::filesystem::remove_all(workspace.folder() / "out");
      const Outcome sweep =
          workspace.run("sweep s.yaml -o out -j 8", fmt::format("ulimit -v {};", kib).c_str());
      CAPTURE(sweep.err);
      // 3 says that memory is too little; a signal is 128 and more.
      CHECK((sweep.code == 0 || sweep.code == 3));
      if (sweep.code == 3) CHECK(contains(sweep.err, "too little memory"));
    }
    CHECK(workspace.run("sweep s.yaml -o out --resume -j 3").code == 0);
    CHECK(workspace.run("sweep s.yaml -o undisturbed -j 3").code == 0);
    CHECK(workspace.read("out/results.csv") == workspace.read("undisturbed/results.csv"));
  }

  TEST_CASE("files without an end are refused once they are too large") {
    const Workspace workspace;
    const std::string eviction = " --heuristic dtr --mode eager --budget 80";
    workspace.write("s.yaml", "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 64}\n");
    // A device is no text from its first byte on; what `yes` writes is.
    const std::string no_text = "/dev/zero:1:1: a NUL byte";
    check_refused(workspace.run("replay eviction /dev/zero" + eviction, kLittleMemory), no_text);
    check_refused(workspace.run("run /dev/zero --gpu a100-sxm-40gb", kLittleMemory), no_text);
    check_refused(workspace.run("run s.yaml -s hardware=/dev/zero", kLittleMemory), no_text);
    check_refused(workspace.run("pack /dev/zero", kLittleMemory), no_text);
    check_refused(workspace.run("pack /dev/stdin", std::string(kLittleMemory) + "yes 'a: 1' |"),
                  "/dev/stdin: larger than 256 MiB");
    // The next reader does not take the rest of such a pipe for the file.
    workspace.write("piped.yaml",
                    "{model: gpt2, hardware: /dev/stdin, sweep: {matrix: {training.micro_batch: "
                    "[1, 2, 3]}}}");
    check_refused(workspace.run("run piped.yaml",
                                "(yes '# filler of many bytes' | head -c 270000000; echo 'extends: "
                                "v100-sxm-16gb') |"),
                  "larger than 256 MiB");
    check_refused(workspace.run("replay allocator /dev/zero --capacity 1GiB", kLittleMemory),
                  "/dev/zero");
    std::filesystem::create_directory(workspace.folder() / "out");
    std::filesystem::create_symlink("/dev/zero", workspace.folder() / "out/points.jsonl");
    check_refused(workspace.run("sweep merge out", kLittleMemory), "out/points.jsonl");
    check_refused(workspace.run("sweep s.yaml -o out --resume", kLittleMemory), "out/points.jsonl");
    // Nobody writes into this pipe.
    std::filesystem::remove(workspace.folder() / "out/points.jsonl");
    REQUIRE(mkfifo((workspace.folder() / "out/points.jsonl").c_str(), 0600) == 0);
    check_refused(workspace.run("sweep merge out"), "out/points.jsonl: is no file");
    check_refused(workspace.run("sweep s.yaml -o out"), "out/points.jsonl: is no file");
  }

  TEST_CASE("what does not begin as a snapshot is read no further") {
    const Workspace workspace;
    workspace.write("s.yaml", "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 64}\n");
    std::filesystem::create_symlink("/dev/zero", workspace.folder() / "zero.pickle");
    // 60 GB on paper, and none on the disk.
    workspace.write("sparse.pickle", "no pickle");
    std::filesystem::resize_file(workspace.folder() / "sparse.pickle", std::uintmax_t{60} << 30);
    for (const char* name : {"zero.pickle", "sparse.pickle"}) {
      const auto begin = std::chrono::steady_clock::now();
      check_refused(workspace.run(fmt::format("diff s.yaml {}", name), kLeastMemory), name);
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    }
  }

  TEST_CASE("long goals and long chains of profiles are errors") {
    const Workspace workspace;
    std::string sum = "time.step";
    for (int i = 0; i < 200'000; ++i)
      sum += "+1";
    const std::string scenario =
        "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 64}\n"
        "sweep: {matrix: {training.micro_batch: [1, 2]}}\ngoal: {minimize: \"";
    workspace.write("goal.yaml", scenario + sum + "\"}\n");
    const Outcome goal = workspace.run("search goal.yaml");
    check_refused(goal, "more than 4096 terms");
    CHECK(goal.err.size() < 1000);

    constexpr int kProfiles = 15'000;
    for (int i = 0; i < kProfiles; ++i)
      workspace.write(fmt::format("p{}.yaml", i), fmt::format("extends: p{}.yaml\n", i + 1));
    workspace.write(fmt::format("p{}.yaml", kProfiles), "extends: a100-sxm-40gb\n");
    check_refused(workspace.run("run gpt2 --gpu ./p0.yaml"), "profiles extend one another");
    workspace.write("s.yaml", "model: gpt2\nhardware: ./p0.yaml\n");
    check_refused(workspace.run("sweep s.yaml -o out"), "profiles extend one another");
    // A chain as long as is allowed still means what it says.
    CHECK(workspace
              .run(fmt::format("run gpt2 --gpu ./p{}.yaml -s training.sequence=64", kProfiles - 20))
              .code == 0);
  }

  TEST_CASE("where no thread can be started, one does all the work") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: mlp, widths: [8, 8]}\nhardware: a100-sxm-40gb\n"
                    "sweep: {matrix: {training.micro_batch: [1, 2, 3, 4, 5, 6, 7, 8]}}\n");
    // Each thread's stack would take more than the process may have.
    const std::string no_threads = "ulimit -s 4000000 && ulimit -v 3000000 &&";
    if (test::kInstrumented ||
        std::system(("(" + no_threads + " true) 2>/dev/null").c_str()) != 0) {
      MESSAGE("skipped: the limits of stacks and memory cannot be set here");
      return;
    }
    const Outcome alone = workspace.run("sweep s.yaml -o alone -j 1 --json");
    const Outcome refused = workspace.run("sweep s.yaml -o refused -j 4 --json", no_threads);
    CAPTURE(refused.err);
    CHECK(refused.code == 0);
    CHECK(refused.out == alone.out);
  }
}

}  // namespace tidemark::input_limits_test
