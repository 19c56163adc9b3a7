// results.sqlite, opened by the sqlite3 shell as a user would.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::sqlite_test {
namespace {

// Returns what the shell prints, columns separated by |.
std::string answer(const Workspace& workspace, const std::string& file, const std::string& sql) {
  const std::string command =
      fmt::format("sqlite3 '{}/{}' \"{}\"", workspace.folder().string(), file, sql);
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, n);
  return pclose(pipe) == 0 ? text : "failed: " + text;
}

bool can_open(const Workspace& workspace) {
  const bool shell = std::system("command -v sqlite3 >/dev/null 2>&1") == 0;
  if (shell && workspace.exists("out/results.sqlite")) return true;
  MESSAGE("skipped: needs sqlite3, and a build with libsqlite3-dev");
  return false;
}

constexpr const char* kSweep =
    "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, training: {sequence: 256}, "
    "sweep: {matrix: {training.micro_batch: [1, 2, 4, 512, 0], policies: [[], [checkpoint_every: "
    "{period: 1}]]}}}";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a database answers the questions that its views are named after") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(workspace.run("sweep s.yaml -o out --smallest-capacity").code == 2);  // 0 is no batch
    if (!can_open(workspace)) return;
    const auto ask = [&](const std::string& sql) {
      return answer(workspace, "out/results.sqlite", sql);
    };
    const auto points = nlohmann::json::parse(workspace.read("out/results.json")).at("points");
    REQUIRE(points.size() == 10);
    CHECK(ask("PRAGMA integrity_check") == "ok\n");
    CHECK(ask("SELECT count(*), sum(status = 'fits') FROM points") == "10|6\n");
    CHECK(ask("SELECT key, typeof(value), value FROM overrides WHERE point = 8") ==
          "policies|text|[{\"checkpoint_every\": {\"period\": 1}}]\n"
          "training.micro_batch|integer|512\n");
    // Every figure is the document's.
    for (std::size_t i = 0; i < 6; ++i) {
      const auto& memory = points[i].at("memory");
      CHECK(ask(fmt::format("SELECT device_used, peak_live FROM points WHERE point = {}", i + 1)) ==
            fmt::format("{}|{}\n", memory.at("device_used").get<std::int64_t>(),
                        memory.at("peak_live").get<std::int64_t>()));
      CHECK(ask(fmt::format("SELECT sum(bytes), abs(sum(share) - 1) < 1e-9 FROM at_the_peak WHERE "
                            "point = {}",
                            i + 1)) ==
            fmt::format("{}|1\n", memory.at("peak_live").get<std::int64_t>()));
      const auto& layers = memory.at("peak").at("largest_layers");
      REQUIRE(!layers.empty());
      CHECK(ask(fmt::format("SELECT bytes FROM layers_at_the_peak WHERE point = {} LIMIT 1",
                            i + 1)) ==
            fmt::format("{}\n", layers[0].at("bytes").get<std::int64_t>()));
    }
    CHECK(ask("SELECT \\\"training.micro_batch\\\" FROM fastest LIMIT 1") == "4\n");
    CHECK(ask("SELECT \\\"training.micro_batch\\\" FROM smallest LIMIT 1") == "1\n");
    // The front has both ends, and nothing that another beats in both.
    CHECK(ask("SELECT min(f.point = s.point) FROM (SELECT point FROM fastest LIMIT 1) f, (SELECT "
              "point FROM front LIMIT 1) s") == "1\n");
    CHECK(ask("SELECT count(*) FROM front f JOIN points p ON p.status = 'fits' AND "
              "p.samples_per_second >= f.samples_per_second AND p.device_used < f.device_used") ==
          "0\n");
    CHECK(ask("SELECT count(*) FROM points p WHERE status = 'fits' AND point NOT IN (SELECT point "
              "FROM front) AND NOT EXISTS (SELECT 1 FROM points q WHERE q.status = 'fits' AND "
              "q.samples_per_second >= p.samples_per_second AND q.device_used <= p.device_used AND "
              "q.point <> p.point)") == "0\n");
    CHECK(ask("SELECT count(*) FROM pragma_table_info('settings') WHERE name LIKE '%:1'") == "0\n");
    CHECK(ask("SELECT count(*), sum(missing > 0), sum(reason <> '') FROM does_not_fit") ==
          "4|2|4\n");
  }

  TEST_CASE("what is not known is null, and a quoted number is a text") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt2, layers: 2}, hardware: {gpu: v100-sxm-16gb, host: "
                    "{memory: 1MiB}}, training: {sequence: 64}, policies: [offload_optimizer], "
                    "sweep: {matrix: {name: ['1e3', b], training.micro_batch: [1]}}}");
    static_cast<void>(workspace.run("sweep s.yaml -o out"));
    if (!can_open(workspace)) return;
    const auto ask = [&](const std::string& sql) {
      return answer(workspace, "out/results.sqlite", sql);
    };
    CHECK(ask("SELECT count(*), count(missing) FROM does_not_fit") == "2|0\n");
    CHECK(ask("SELECT value, typeof(value) FROM overrides WHERE point = 1 AND key = 'name'") ==
          "1e3|text\n");
    CHECK(ask("SELECT name FROM settings") == "1e3\nb\n");
  }

  TEST_CASE("shards put together give the database of the whole sweep") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(workspace.run("sweep s.yaml -o out").code == 2);
    for (const char* shard : {"0/2", "1/2"})
      CHECK(workspace.run(fmt::format("sweep s.yaml -o parts --shard {}", shard)).code != 3);
    REQUIRE(workspace.run("sweep merge parts").code == 2);
    if (!can_open(workspace)) return;
    CHECK(workspace.read("parts/results.sqlite") == workspace.read("out/results.sqlite"));
    CHECK(workspace.read("out/results.sqlite").size() > 1000);
  }

  TEST_CASE("a run writes a database where its report lists one, and names are data") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{name: \"Robert'); DROP TABLE points;--\", model: {preset: gpt2, layers: 1}, "
                    "hardware: v100-sxm-16gb, training: {sequence: 64}, report: {formats: "
                    "[sqlite]}}");
    const Outcome outcome = workspace.run("run s.yaml -o out --no-chart");
    if (outcome.code == 2) {
      CHECK(outcome.err.find("libsqlite3-dev") != std::string::npos);
      return;
    }
    CHECK(workspace.names("out") == std::vector<std::string>{"results.sqlite"});
    if (!can_open(workspace)) return;
    CHECK(answer(workspace, "out/results.sqlite", "SELECT name FROM settings") ==
          "Robert'); DROP TABLE points;--\n");
  }
}

}  // namespace tidemark::testing::sqlite_test
