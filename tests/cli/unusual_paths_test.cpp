// Names that the file system refuses: mistakes of the user (exit 2), named with the path, and of
// one point of a sweep only.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::unusual_paths_test {

using namespace tidemark::testing;

namespace {

// The outcome must be an error of the user that names what it is about.
void check_refused(const Outcome& outcome, const std::string& part) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, part));
  CHECK_FALSE(contains(outcome.err, "fault of Tidemark"));
  CHECK(outcome.out.empty());
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("names of 300 characters and links in a circle are mistakes of the user") {
    const Workspace workspace;
    std::filesystem::create_symlink("circle", workspace.folder() / "circle");
    std::filesystem::create_symlink("circle.yaml", workspace.folder() / "circle.yaml");
    std::filesystem::create_symlink("circle.json", workspace.folder() / "circle.json");
    std::filesystem::create_symlink("circle.onnx", workspace.folder() / "circle.onnx");
    workspace.write("s.yaml", "model: gpt2\nhardware: a100-sxm-40gb\ntraining: {sequence: 64}\n");
    workspace.write("base.yaml", "extends: circle.yaml\n");
    for (const std::string& name : {std::string(300, 'n'), std::string("circle")}) {
      CAPTURE(name);
      const std::string part = name.substr(0, 6);
      check_refused(workspace.run("run " + name), part);
      check_refused(workspace.run("run gpt2 --gpu " + name), part);
      check_refused(workspace.run("run gpt2 --gpu ./" + name), part);
      check_refused(workspace.run("run " + name + " --gpu a100-sxm-40gb"), part);
      check_refused(workspace.run("run s.yaml -o " + name), part);
      check_refused(workspace.run("run s.yaml --plugin " + name), part);
      check_refused(workspace.run("sweep s.yaml -o " + name), part);
      check_refused(workspace.run("sweep merge " + name), part);
      check_refused(workspace.run("pack " + name), part);
      check_refused(workspace.run("plan " + name + " --budget 1GiB"), part);
      check_refused(workspace.run("pack s.yaml --out " + name + "/x.csv"), "");
      check_refused(workspace.run("diff s.yaml " + name + ".pickle"), part);
      check_refused(workspace.run("replay allocator " + name + " --capacity 1GiB"), "");
      check_refused(
          workspace.run("replay eviction " + name + " --heuristic dtr --mode eager --budget 80"),
          part);
      for (const char* ending : {".yaml", ".json", ".onnx"}) {
        const std::string file = name + ending;
        CAPTURE(file);
        check_refused(workspace.run("run " + file), part);
        check_refused(workspace.run("run " + file + " --gpu a100-sxm-40gb"), part);
        check_refused(workspace.run("run s.yaml -s hardware=" + file), part);
        check_refused(workspace.run("run s.yaml -s 'model={hf: " + file + "}'"), part);
        check_refused(workspace.run("run s.yaml -s 'model={onnx: " + file + "}'"), part);
        check_refused(workspace.run("run s.yaml -s 'model={graph: " + file + "}'"), part);
        check_refused(workspace.run("run s.yaml -s 'training={sequence: 64}' -s extends=" + file),
                      "");
      }
    }
    check_refused(workspace.run("run base.yaml"), "circle.yaml");
  }

  TEST_CASE("a name that the file system refuses ends one point and not the sweep") {
    const Workspace workspace;
    std::filesystem::create_symlink("circle.yaml", workspace.folder() / "circle.yaml");
    workspace.write("s.yaml",
                    fmt::format("model: gpt2\nhardware: a100-sxm-40gb\ntraining: {{sequence: 64}}\n"
                                "sweep: {{matrix: {{hardware: [a100-sxm-40gb, {0}, ./{0}.yaml, "
                                "./circle.yaml, v100-sxm-16gb]}}}}\n",
                                std::string(300, 'n')));
    const Outcome outcome = workspace.run("sweep s.yaml -o out --json");
    CAPTURE(outcome.err);
    CHECK_FALSE(contains(outcome.err, "fault of Tidemark"));
    const auto points = nlohmann::json::parse(outcome.out).at("points");
    REQUIRE(points.size() == 5);
    CHECK(points.at(0).at("status") == "fits");
    for (const std::size_t i : {1U, 2U, 3U})
      CHECK(points.at(i).at("status") == "error");
    CHECK(points.at(4).at("status") == "fits");
  }

  TEST_CASE("in a working directory that has been deleted relative paths are mistakes") {
    const Workspace workspace;
    const std::string gone = "mkdir gone && cd gone && rmdir ../gone &&";
    check_refused(workspace.run("run gpt2 --gpu ./card.yaml", gone), "card.yaml");
    check_refused(workspace.run("run config.json --gpu a100-sxm-40gb", gone), "config.json");
    check_refused(workspace.run("run s.yaml", gone), "s.yaml");
    check_refused(workspace.run("run gpt2 --gpu a100-sxm-40gb -o out", gone), "out");
    check_refused(workspace.run("run gpt2 --gpu a100-sxm-40gb --plugin policy.so", gone),
                  "policy.so");
    CHECK(workspace.run("run gpt2 --gpu a100-sxm-40gb -s training.sequence=64", gone).code == 0);
  }

  TEST_CASE("a plugin that throws while it is loaded is named") {
    const Workspace workspace;
    const std::string plugin = (std::filesystem::path(test::example_plugin_path()).parent_path() /
                                "tidemark_throwing_policy.so")
                                   .string();
    const std::string command = fmt::format("list policies --plugin '{}'", plugin);
    const Outcome asked = workspace.run(command);
    check_refused(asked, "tidemark_throwing_policy.so");
    CHECK(contains(asked.err, "no policies today"));
    const Outcome loaded = workspace.run(command, "TIDEMARK_THROW_AT_LOAD=1");
    check_refused(loaded, "tidemark_throwing_policy.so");
    CHECK(contains(loaded.err, "while it is loaded"));
  }
}

}  // namespace tidemark::unusual_paths_test
