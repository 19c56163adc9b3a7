// Files that a shell hands over through pipes: `tidemark run <(make_scenario)`, /dev/stdin.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/cli/command_runner.hpp"

#if TIDEMARK_READS_ONNX
#include "tests/support/onnx_writer.hpp"
#endif

namespace tidemark::pipes_test {
namespace {

using testing::contains;
using testing::Outcome;
using testing::Workspace;

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64})";
constexpr const char* kCostGraph = R"({"name": "two", "fixed_bytes": 1, "nodes": [
  {"id": 0, "name": "a", "kind": "forward", "cost": 1, "bytes": 5, "workspace": 0, "deps": []},
  {"id": 1, "name": "Ba", "kind": "backward", "cost": 1, "bytes": 3, "workspace": 0, "deps": [0]}]})";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("what a shell pipes in is read as a file, as often as a reader looks") {
    const Workspace workspace;
    workspace.write("t.csv", "op,id,bytes,stream\na,1,512,0\nf,1,512,0\n");
    workspace.write("s.yaml",
                    "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
                    "./p.yaml}");
    workspace.write("p.yaml", "extends: h100-sxm-80gb\n");
    const std::string replay = "replay allocator /dev/stdin --capacity 1GiB --json";
    const Outcome direct = workspace.run("replay allocator t.csv --capacity 1GiB --json");
    CHECK(direct.code == 0);
    CHECK(workspace.run(replay, "cat t.csv |").out == direct.out);
    CHECK(workspace.run(replay, "gzip < t.csv |").out == direct.out);
    // Paths in a scenario that is piped in start from the working directory.
    CHECK(workspace.run("run /dev/stdin", "cat s.yaml |").code == 0);
    // A sweep simulates its points again when other bytes come through the same path.
    workspace.write("sweep.yaml",
                    "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
                    "h100-sxm-80gb, sweep: {matrix: {training.micro_batch: [1, 2]}}}");
    const std::string sweep = "sweep sweep.yaml -o out --resume --set=hardware=/dev/stdin";
    CHECK(workspace.run(sweep, "echo 'extends: h100-sxm-80gb' |").code == 0);
    const std::string before = workspace.read("out/results.csv");
    CHECK(workspace.run(sweep, "echo 'extends: v100-sxm-32gb' |").code == 0);
    CHECK(workspace.read("out/results.csv") != before);
    // A mistake in the arguments is said before a pipe has ended.
    CHECK(workspace.run("check /dev/stdin --bogus < late", "mkfifo late; exec 4<>late; timeout 5")
              .code == 2);
    // A named pipe that is open for both is left to the writer.
    workspace.write("b.csv", "id,lower,upper,size\n1,0,3,1\n");
    CHECK(
        workspace.run("pack b.csv --out /dev/fd/3", "mkfifo both; exec 3<>both; timeout 5").code ==
        0);
    // A named pipe gives its bytes to the first reader alone.
    REQUIRE(mkfifo((workspace.folder() / "pipe").c_str(), 0600) == 0);
    const Outcome named = workspace.run("replay allocator pipe --capacity 1GiB");
    CHECK(named.code == 2);
    CHECK(contains(named.err, "pipe: this is a named pipe, which can be read only once"));
  }

  TEST_CASE("a model through a pipe gives what its file gives") {
    const Workspace workspace;
    workspace.write("hf.json", kConfig);
    workspace.write("graph.json", kCostGraph);
    workspace.write("layers.yaml", "inputs: {x: [8, 16]}\nlayers:\n- linear: 32\n");
    std::vector<std::string> files{"hf.json", "graph.json", "layers.yaml"};
#if TIDEMARK_READS_ONNX
    test::OnnxWriter onnx(14);
    onnx.output(onnx.node("MatMul", {onnx.input("x", {2, 8}), onnx.parameter("w", {8, 4})}));
    workspace.write("model.onnx", onnx.bytes());
    files.emplace_back("model.onnx");
#endif
    const auto memory_of = [&](const Outcome& outcome) {
      CAPTURE(outcome.err);
      REQUIRE(outcome.code == 0);
      return nlohmann::json::parse(outcome.out)["points"][0]["memory"].dump();
    };
    for (const std::string& file : files) {
      CAPTURE(file);
      const std::string by_name =
          memory_of(workspace.run(fmt::format("run {} --gpu h100-sxm-80gb --json", file)));
      const std::string cat = fmt::format("cat {} |", file);
      CHECK(memory_of(workspace.run("run /dev/stdin --gpu h100-sxm-80gb --json", cat)) == by_name);
      // The pipe may be named where no shell sees it.
      workspace.write("s.yaml", "{model: /dev/stdin, hardware: h100-sxm-80gb}");
      CHECK(memory_of(workspace.run("run s.yaml --json", cat)) == by_name);
      const Outcome bare = workspace.run("run /dev/stdin", cat);
      CHECK(bare.code == 2);
      CHECK(contains(bare.err, "/dev/stdin is no scenario; to run a model file, add --gpu NAME"));
    }
    const auto plan_of = [](const Outcome& outcome) {
      CAPTURE(outcome.err);
      REQUIRE(outcome.code == 0);
      auto document = nlohmann::json::parse(outcome.out);
      document.erase("solve_seconds");
      return document.dump();
    };
    CHECK(plan_of(workspace.run("plan /dev/stdin --budget 100% --json", "cat graph.json |")) ==
          plan_of(workspace.run("plan graph.json --budget 100% --json")));
    // Points of a sweep look at one pipe from several threads.
    workspace.write("sweep.yaml",
                    "{model: {hf: /dev/stdin}, hardware: h100-sxm-80gb, sweep: {matrix: "
                    "{training.micro_batch: [1, 2, 3, 4]}}}");
    const std::string sweep = "sweep sweep.yaml -j 4 -o out --resume";
    CHECK(workspace.run(sweep, "cat hf.json |").code == 0);
    const std::string before = workspace.read("out/results.csv");
    CHECK(workspace.run(sweep, "sed s/64/128/g hf.json |").code == 0);
    CHECK(workspace.read("out/results.csv") != before);
  }

  TEST_CASE("files that are written name no pipe, which is gone when they are read") {
    const Workspace workspace;
    workspace.write("ds.json",
                    R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1})");
    workspace.write("hf.json", kConfig);
    const Outcome imported =
        workspace.run("import ds.json --model /dev/stdin -o s.yaml", "cat hf.json |");
    CHECK(imported.code == 2);
    CHECK(contains(imported.err, "would name an open file of this process"));
    CHECK_FALSE(workspace.exists("s.yaml"));
    for (const char* named : {"--model gpt2 --gpu /dev/stdin", "--model ./../../../dev/stdin"}) {
      const Outcome other = workspace.run(fmt::format("import ds.json {} -o s.yaml", named),
                                          "cd /tmp; cat /dev/null |");
      CHECK(other.code == 2);
    }
    CHECK_FALSE(workspace.exists("s.yaml"));
    // The settings themselves may come through one.
    CHECK(workspace.run("import /dev/stdin --model hf.json -o s.yaml", "cat ds.json |").code == 0);
    workspace.write("ops.csv", "op,shape,dtype,device,seconds\nlinear,64x64x64,fp32,h100,1\n");
    const Outcome calibrated =
        workspace.run("calibrate /dev/stdin ops.csv -o p.yaml", "echo 'extends: h100-sxm-80gb' |");
    CHECK(calibrated.code == 2);
    CHECK(contains(calibrated.err, "would extend an open file of this process"));
    CHECK_FALSE(workspace.exists("p.yaml"));
  }

  TEST_CASE("a label is not read, and a report names the pipe that a run was given") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{name: /dev/stdin, model: gpt2, hardware: h100-sxm-80gb, sweep: {matrix: "
                    "{training.micro_batch: [1, 2]}}}");
    // A pipe that never ends, nor has anything to read.
    const std::string idle = "mkfifo idle && exec 0<>idle && timeout 20";
    CHECK(workspace.run("sweep s.yaml -o out", idle).code == 0);
    workspace.write("gpu.yaml", "extends: a100-sxm-80gb\n");
    const Outcome run = workspace.run(
        "run gpt2 --gpu h100-sxm-80gb -s hardware=/dev/stdin -s 'report={formats: [svg]}' -o made",
        "cat gpu.yaml |");
    CHECK(run.code == 0);
    CHECK(contains(workspace.read("made/timeline.svg"), "-s hardware=/dev/stdin"));
  }

  TEST_CASE("a table of operators and a profiler's trace are told apart in a pipe") {
    const Workspace workspace;
    const Outcome priced = workspace.run("price /dev/stdin --gpu h100-sxm-80gb --json",
                                         "printf 'operator\\nlinear 64x64x64 bf16\\n' |");
    CHECK(priced.code == 0);
    CHECK(contains(priced.out, "linear 64x64x64 bf16"));
    const Outcome trace = workspace.run("validate /dev/stdin", "printf ' \\n{}' |");
    CHECK(trace.code == 2);
    CHECK(contains(trace.err, "/dev/stdin: "));
    CHECK(contains(trace.err, "torch.profiler"));
  }
}

}  // namespace tidemark::pipes_test
