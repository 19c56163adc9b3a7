#include <algorithm>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/read/environment.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/journal/journal_lines.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/cli/command_runner.hpp"

namespace tidemark::sweep_test {

using namespace tidemark::testing;

namespace {

// Ten points, of them two runs over the budget of a plan and two points that do not fit.
constexpr const char* kSweep = R"(version: 1
name: pieces
model: {preset: gpt2, layers: 3, vocab: 4096}
hardware: v100-sxm-16gb
training: {sequence: 256}
sweep:
  matrix:
    training.micro_batch: [4, 8]
    policies: [[], [checkpoint_every: {period: 1}], [optimal: {budget: 1GiB, iterations: 20}], [optimal: {budget: 700MiB, iterations: 20}]]
  include: [{training.micro_batch: 256, training.dropout: 0.10}, {training.micro_batch: 512}]
)";

// Points of every status, and texts that JSON has to escape.
constexpr const char* kMixed = R"(version: 1
name: mixed
published: ['Two "lines"', 'of \ é']
model: {preset: gpt2, layers: 2, vocab: 4096}
hardware: v100-sxm-16gb
training: {sequence: 256}
sweep:
  matrix:
    name: ["quotes \" and \\ and { [ ,\n    a line, a tab\t.", "é 漢字 🙂 </script>", '%s {} null']
    training.micro_batch: [4, 512, 0]
  include:
    - {name: stages, hardware: {gpu: h100-sxm-80gb, count: 2}, policies: [pipeline: {size: 2}, checkpoint_every], training.accumulate: 2}
    - {name: infeasible, policies: [optimal: {budget: 1MiB, iterations: 5}]}
    - {name: unknown, policies: ["no \" such \\ policy\n\x07"]}
)";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("shards merge to what one sweep writes, byte for byte") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const Outcome one = workspace.run("sweep s.yaml -o one --json -j 1");
    CAPTURE(one.err);
    REQUIRE(one.code == 0);
    CHECK(nlohmann::json::parse(one.out).at("points").size() == 10);
    std::size_t points = 0;
    for (int shard = 0; shard < 3; ++shard) {
      const Outcome part =
          workspace.run(fmt::format("sweep s.yaml -o parts --shard {}/3 --json", shard));
      REQUIRE(part.code == 0);
      points += nlohmann::json::parse(part.out).at("points").size();
      if (shard == 2) continue;
      const Outcome early = workspace.run("sweep merge parts");
      CHECK(early.code == 2);
      CHECK(contains(early.err, "points are missing"));
      CHECK(contains(early.err, "--shard 2/3"));
    }
    CHECK(points == 10);
    CHECK_FALSE(workspace.exists("parts/results.json"));
    const Outcome merged = workspace.run("sweep merge parts --json");
    CHECK(merged.code == 0);
    CHECK(merged.out == one.out);
    for (const char* file : {"/results.json", "/results.csv"})
      CHECK(workspace.read(std::string("parts") + file) ==
            workspace.read(std::string("one") + file));
    CHECK(workspace.run("sweep merge parts").out ==
          workspace.run("sweep s.yaml -o one --resume").out);
    // The journals say how a point of the merged page is run by itself.
    CHECK(contains(workspace.read("parts/points-0-of-3.jsonl"),
                   "\"command\":\"tidemark run s.yaml -s sweep=null\""));
  }

  TEST_CASE("results that are written entry by entry are those of the whole document") {
    const Workspace workspace;
    workspace.write("s.yaml", kMixed);
    const Outcome swept = workspace.run("sweep s.yaml -o out --json");
    CHECK(swept.code == 2);  // the points with errors
    const Value document = parse_document(kMixed, "s.yaml");
    const std::vector<PointResult> points = simulate_points(
        document, default_environment(), 1,
        {.smallest_capacity_of_fitting = false, .convergence_limit = kConvergenceLimit});
    for (const PointStatus status : {PointStatus::kFits, PointStatus::kOutOfMemory,
                                     PointStatus::kInfeasible, PointStatus::kError}) {
      CAPTURE(name_of(status));
      CHECK(std::any_of(points.begin(), points.end(),
                        [&](const PointResult& point) { return point.status == status; }));
    }
    CHECK(std::any_of(points.begin(), points.end(),
                      [](const PointResult& point) { return point.stages.size() == 2; }));
    nlohmann::ordered_json whole = result_document(points);
    CHECK(workspace.read("out/results.json") == whole.dump(2) + '\n');
    whole["published"] = {"Two \"lines\"", "of \\ é"};
    CHECK(swept.out == whole.dump(2) + '\n');
  }

  TEST_CASE("a sweep that was killed goes on where it was, and a changed one keeps what holds") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const std::string whole = workspace.run("sweep s.yaml -o whole --json").out;
    const std::string journal = workspace.read("whole/points.jsonl");
    const std::vector<std::string> lines = lines_of(journal);
    REQUIRE(lines.size() == 11);
    // The fifth point is cut off in the middle of its line; the fourth says what it would not.
    std::string left;
    for (int i = 0; i < 4; ++i)
      left += lines[static_cast<std::size_t>(i)] + '\n';
    const std::size_t comma = lines[4].find(',');
    REQUIRE(lines[4].starts_with("{\"checksum\":"));
    std::string marked = '{' + lines[4].substr(comma + 1);
    const std::string operators = "\"operators\":";
    marked.insert(marked.find(operators) + operators.size(), "1");
    marked = checked_line(marked);
    std::filesystem::create_directory(workspace.folder() / "killed");
    workspace.write("killed/points.jsonl", left + marked + lines[5].substr(0, 200));
    const Outcome resumed = workspace.run("sweep s.yaml -o killed --resume --json");
    CHECK(resumed.code == 0);
    const auto expected = nlohmann::json::parse(whole);
    const auto points = nlohmann::json::parse(resumed.out).at("points");
    std::size_t taken_over = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      if (points.at(i) == expected.at("points").at(i)) continue;
      ++taken_over;
      CHECK(points.at(i).at("model").at("operators") !=
            expected.at("points").at(i).at("model").at("operators"));
    }
    CHECK(taken_over == 1);  // the marked one: taken as it stands
    CHECK(lines_of(workspace.read("killed/points.jsonl")).size() == 11);

    // The same mark without its checksum is damage, and said.
    std::string damaged = journal;
    damaged.insert(damaged.find(operators, damaged.find(lines[4])) + operators.size(), "1");
    workspace.write("killed/points.jsonl", damaged);
    const Outcome refused = workspace.run("sweep merge killed");
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "line 5 of killed/points.jsonl is damaged"));
    CHECK(contains(refused.err, "1 of 10 points are missing"));
    const Outcome repaired = workspace.run("sweep s.yaml -o killed --resume --json");
    CHECK(repaired.out == whole);
    CHECK(contains(repaired.err, "line 5 of killed/points.jsonl is damaged"));
    CHECK(workspace.run("sweep merge killed --json").out == whole);

    // Without --resume all points are new, and the output says so.
    const Outcome anew = workspace.run("sweep s.yaml -o killed --json");
    CHECK(anew.out == whole);
    CHECK(contains(anew.err, "10 of these points"));

    // Another model file and another value: only results that follow from neither are taken over.
    workspace.write(
        "m.json",
        R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 99, "n_positions": 64})");
    const std::string text =
        "model: {hf: m.json}\nhardware: a100-sxm-40gb\nsweep: {matrix: "
        "{training.micro_batch: [1, 2]}}\n";
    workspace.write("t.yaml", text);
    const std::string before = workspace.run("sweep t.yaml -o t --json").out;
    workspace.write(
        "m.json",
        R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 64, "n_head": 2, "vocab_size": 99, "n_positions": 64})");
    const std::string after = workspace.run("sweep t.yaml -o t --resume --json").out;
    CHECK(after != before);
    CHECK(after == workspace.run("sweep t.yaml -o fresh --json").out);

    // Another profile below the one that the scenario names.
    const auto write_base = [&](int gib) {
      workspace.write(
          "base.yaml",
          fmt::format("extends: v100-sxm-16gb\nhbm: {{capacity: {{value: {}GiB, source: "
                      "a test}}}}\n",
                      gib));
    };
    write_base(12);
    workspace.write("card.yaml", "extends: base.yaml\n");
    const auto first_capacity = [&] {
      const Outcome outcome =
          workspace.run("sweep t.yaml -s hardware=./card.yaml -o card --resume --json");
      CAPTURE(outcome.err);
      return nlohmann::json::parse(outcome.out).at("points").at(0).at("memory").at("capacity");
    };
    CHECK(first_capacity() == 12LL << 30);
    write_base(13);
    CHECK(first_capacity() == 13LL << 30);
  }

  TEST_CASE("a sweep whose file grows beyond a limit leaves nothing half-written") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(workspace.run("sweep s.yaml -o whole").code == 0);
    const std::string results = workspace.read("whole/results.json");
    const std::size_t journal = workspace.read("whole/points.jsonl").size();
    REQUIRE(results.size() > journal + 4096);
    const std::string limit = fmt::format("ulimit -f {};", (journal + results.size()) / 2 / 512);
    const Outcome limited = workspace.run("sweep s.yaml -o out -j 1", limit);
    CHECK(limited.code == 2);
    CHECK(contains(limited.err, "out/results.json: cannot be written"));
    const auto hidden = [&] {
      std::vector<std::string> names = workspace.names("out");
      std::erase_if(names, [](const std::string& name) { return !name.starts_with(".tidemark-"); });
      return names;
    };
    CHECK(hidden().empty());
    CHECK_FALSE(workspace.exists("out/results.json"));
    // A file of a process that was killed: the shell's, which has ended.
    static_cast<void>(workspace.run(
        "--version", "sh -c 'echo half > out/.tidemark-$(uname -n)-$$-results.json';"));
    REQUIRE(hidden().size() == 1);
    CHECK(lines_of(workspace.read("out/points.jsonl")).size() == 11);
    CHECK(workspace.run("sweep s.yaml -o out --resume").code == 0);
    CHECK(hidden().empty());
    CHECK(workspace.read("out/results.json") == results);
  }

  TEST_CASE("Ctrl-C says how far a sweep has come, and --resume goes on") {
    const Workspace workspace;
    // Plans that take a while, so that the signal comes between two points.
    std::string text = kSweep;
    text.replace(text.find("iterations: 20"), 14, "iterations: 20000");
    workspace.write("s.yaml", text);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (chdir(workspace.folder().c_str()) != 0) _exit(99);
      const int out = open("err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, STDERR_FILENO);
      const std::string program = test::program_path();
      execl(program.c_str(), program.c_str(), "sweep", "s.yaml", "-o", "out", "-j", "1", nullptr);
      _exit(98);
    }
    const auto lines = [&] { return lines_of(workspace.read("out/points.jsonl")).size(); };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (lines() < 3 && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(child, SIGINT);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 128 + SIGINT);
    const std::string said = workspace.read("err.txt");
    CAPTURE(said);
    CHECK(said.find("of 10 points are done and in out") != std::string::npos);
    CHECK(said.find("--resume") != std::string::npos);
    const std::size_t done = lines();
    CHECK(done >= 3);
    CHECK(done < 11);
  }

  TEST_CASE("Ctrl-C while a sweep reads its scenario says that nothing was simulated") {
    const Workspace workspace;
    int scenario[2];
    REQUIRE(pipe2(scenario, O_CLOEXEC) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (chdir(workspace.folder().c_str()) != 0) _exit(99);
      const int err = open("err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(err, STDERR_FILENO);
      dup2(scenario[0], STDIN_FILENO);
      const std::string program = test::program_path();
      execl(program.c_str(), program.c_str(), "sweep", "/dev/stdin", "-o", "out", nullptr);
      _exit(98);
    }
    close(scenario[0]);
    // More than a pipe holds: once it is written, the scenario is being read.
    const std::string comment = "#" + std::string(std::size_t{1} << 20, ' ') + '\n';
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    std::size_t written = 0;
    while (written < comment.size()) {
      const ssize_t n = write(scenario[1], comment.data() + written, comment.size() - written);
      if (n <= 0) break;
      written += static_cast<std::size_t>(n);
    }
    std::signal(SIGPIPE, before);
    CHECK(written == comment.size());
    kill(child, SIGINT);
    int status = 0;
    waitpid(child, &status, 0);
    close(scenario[1]);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 128 + SIGINT);
    CHECK(contains(workspace.read("err.txt"), "interrupted; no point has been simulated yet"));
    CHECK_FALSE(workspace.exists("out"));
  }

  TEST_CASE("a mistake of the scenario that only its graph shows ends a sweep without a file") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "version: 1\nmodel: {preset: gpt2, layers: 2}\nhardware: a100-sxm-40gb\n"
                    "policies:\n  - lora: {rank: 4, targets: [nosuch]}\n"
                    "sweep: {matrix: {training.micro_batch: [1, 2, 3]}}\n");
    for (const std::string command : {"sweep s.yaml -o out", "sweep s.yaml -o out --shard 1/2",
                                      "run s.yaml -o out", "sweep s.yaml -o out --json"}) {
      CAPTURE(command);
      const Outcome outcome = workspace.run(command);
      CHECK(outcome.code == 2);
      CHECK(outcome.out.empty());
      const std::size_t at = outcome.err.find("s.yaml:5:");
      CHECK(at != std::string::npos);
      CHECK(outcome.err.find("s.yaml:5:", at + 1) == std::string::npos);
      CHECK_FALSE(workspace.exists("out"));
    }
  }

  TEST_CASE("mistakes with shards and folders say what to do") {
    const Workspace workspace;
    workspace.write("s.yaml", "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 64}\n");
    const auto fails = [&](const std::string& arguments, const std::string& part) {
      const Outcome outcome = workspace.run("sweep " + arguments);
      CAPTURE(outcome.err);
      CHECK(outcome.code == 2);
      CHECK(contains(outcome.err, part));
      CHECK(outcome.out.empty());
    };
    fails("s.yaml", "--output is required");
    fails("", "SCENARIO is required");
    fails("merge", "DIR is required");
    fails("merge nothing", "no points of a sweep");
    for (const char* shard : {"3/3", "1", "a/b", "1/0", "-1/3", "1/3x", "0/1000001"})
      fails(fmt::format("s.yaml -o out --shard={}", shard), "--shard: expected I/N");
    fails("s.yaml merge out", "merge takes DIR and nothing before it");
    CHECK_FALSE(workspace.exists("out"));
    // No sweep has written these headers.
    std::filesystem::create_directory(workspace.folder() / "damaged");
    const std::string header =
        R"({"tidemark":"0","sweep":"x","name":"","published":[],"points":1,"shard":0,"shards":1})";
    for (const auto& [right, wrong] : std::initializer_list<std::pair<const char*, const char*>>{
             {R"("points":1)", R"("points":99999999999999)"},
             {R"("shards":1)", R"("shards":99999999999999)"},
             {R"("shards":1)", R"("shards":0)"},
             {"[]", "[1]"}}) {
      std::string damaged = header;
      damaged.replace(damaged.find(right), std::string(right).size(), wrong);
      workspace.write("damaged/points.jsonl", checked_line(damaged));
      fails("merge damaged", "is no journal of a sweep");
    }
    workspace.write("damaged/points.jsonl", header + '\n');
    fails("merge damaged", "has no checksum");
    workspace.write("damaged/points.jsonl", checked_line(header));
    fails("merge damaged", "1 of 1 points are missing");
    CHECK(workspace.run("sweep s.yaml -o out --shard 0/1").code == 0);
    workspace.write("s.yaml", "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 65}\n");
    CHECK(workspace.run("sweep s.yaml -o out --shard 1/2").code == 0);
    fails("merge out", "is of another sweep than");
    workspace.write("out/points.jsonl", "{}\n");
    fails("merge out", "is no journal of a sweep");
  }
}

}  // namespace tidemark::sweep_test
