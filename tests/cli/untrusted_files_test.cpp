// Files of others and mistakes with files: nothing is lost, nothing is taken for what it is not.
#include <algorithm>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "tests/cli/command_runner.hpp"

namespace tidemark::untrusted_files_test {
namespace {

using testing::Outcome;
using testing::Workspace;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kMeasured = "op,shape,dtype,device,seconds\n";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a packing's names are no formulas, and what is no regular file stays what it is") {
    const Workspace workspace;
    workspace.write("b.csv", "id,lower,upper,size\n=1+1,0,3,1\n-1,0,3,2\n");
    CHECK(workspace.run("pack b.csv --out new/o.csv").code == 0);
    CHECK(contains(workspace.read("new/o.csv"), "\n'=1+1,0,3,1,"));
    CHECK(contains(workspace.read("new/o.csv"), "\n-1,0,3,2,"));
    const Outcome itself = workspace.run("pack b.csv --out b.csv");
    CHECK(itself.code == 2);
    CHECK(contains(itself.err, "is the table of buffers itself"));
    REQUIRE(mkfifo((workspace.folder() / "pipe").c_str(), 0600) == 0);
    CHECK(workspace.run("pack b.csv --out pipe", "(cat pipe > copy &);").code == 0);
    CHECK(std::filesystem::is_fifo(workspace.folder() / "pipe"));
  }

  TEST_CASE("tables of measurements are UTF-8, and no field is beyond their columns") {
    const Workspace workspace;
    const auto refusal = [&](const std::string& table, const std::string& command) {
      workspace.write("m.csv", table);
      const Outcome outcome = workspace.run(command);
      CHECK(outcome.code == 2);
      return outcome.err;
    };
    const std::string row = "matmul,4096x4096x1024,bf16,a100-sxm-80gb,1,000142\n";
    CHECK(contains(refusal(kMeasured + row, "validate m.csv"),
                   "m.csv:2: the line has 6 fields and the header 5"));
    CHECK(contains(refusal("op,shape,dtype,device,seconds,op\n" + row, "validate m.csv"),
                   "m.csv:1: the column 'op' occurs twice"));
    CHECK(contains(
        refusal(std::string(kMeasured) + "matmul,4x4x4,bf16,d\xE9v,1\n", "validate m.csv --json"),
        "m.csv:2:20: byte 0xe9 is not UTF-8"));
    // Empty fields at the end of a line are a habit of spreadsheets.
    workspace.write("m.csv",
                    std::string(kMeasured) + "matmul,4096x4096x1024,bf16,a100-sxm-80gb,0.0002,,\n");
    CHECK(workspace.run("validate m.csv --json").code == 0);
  }

  TEST_CASE("a calibration does not take the place of the profile that it extends") {
    const Workspace workspace;
    const std::string profile = "extends: a100-sxm-80gb\ndescription: mine\n";
    workspace.write("p.yaml", profile);
    workspace.write("m.csv",
                    std::string(kMeasured) + "matmul,4096x4096x1024,bf16,a100-sxm-80gb,0.0002\n");
    const Outcome outcome = workspace.run("calibrate ./p.yaml m.csv -o p.yaml");
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "is the profile that is calibrated"));
    CHECK(workspace.read("p.yaml") == profile);
  }

  TEST_CASE("an imported scenario finds its model, wherever it is written") {
    const Workspace workspace;
    std::filesystem::create_directories(workspace.folder() / "in");
    std::filesystem::create_directories(workspace.folder() / "out");
    workspace.write("in/ds.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}})");
    workspace.write(
        "in/m.json",
        R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64})");
    CHECK(workspace.run("import in/ds.json --model in/m.json -o in/../out/s.yaml").code == 0);
    CHECK(contains(workspace.read("out/s.yaml"), "../in/m.json"));
    CHECK(workspace.run("check out/s.yaml").code == 0);
  }

  TEST_CASE("a trace is told from one with other line ends and from a header alone") {
    const Workspace workspace;
    workspace.write("cr.csv", "op,id,bytes,stream\ralloc,1,512,0\r");
    const Outcome cr = workspace.run("replay allocator cr.csv --capacity 1GiB");
    CHECK(cr.code == 2);
    CHECK(contains(cr.err, "the lines end in CR alone"));
    workspace.write("header.csv", "op,id,bytes,stream\n");
    const Outcome header = workspace.run("replay allocator header.csv --capacity 1GiB");
    CHECK(header.code == 2);
    CHECK(contains(header.err, "has a header and no rows"));
  }

  TEST_CASE("streams that the caller has closed are no place for files") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
                    "h100-sxm-80gb, sweep: {matrix: {training.micro_batch: [1, 2, 3]}}}");
    const Outcome outcome = workspace.run("sweep s.yaml -o out -j 1 <&- >&-");
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "standard output"));
    const std::string journal = workspace.read("out/points.jsonl");
    CHECK(std::count(journal.begin(), journal.end(), '\n') == 4);
    CHECK(!contains(workspace.run("sweep s.yaml -o out --resume").err, "damaged"));
  }

  TEST_CASE("another sweep in a folder leaves the journal of the one before") {
    const Workspace workspace;
    const std::string base =
        "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
        "h100-sxm-80gb, sweep: {matrix: {training.micro_batch: ";
    workspace.write("a.yaml", base + "[1, 2, 3]}}}");
    workspace.write("b.yaml", base + "[3, 4]}}}");
    CHECK(workspace.run("sweep a.yaml -o out -j 1").code == 0);
    const std::string journal = workspace.read("out/points.jsonl");
    const Outcome other = workspace.run("sweep b.yaml -o out --resume");
    CHECK(other.code == 0);
    CHECK(contains(other.err, "out has 2 finished points that this sweep does not have"));
    CHECK((workspace.read("out/points.jsonl.earlier") == journal));
    // A third one leaves both.
    CHECK(workspace.run("sweep a.yaml -o out --resume").code == 0);
    CHECK((workspace.read("out/points.jsonl.earlier") == journal));
    CHECK(workspace.exists("out/points.jsonl.earlier-2"));
    // By it the first sweep goes on.
    std::filesystem::create_directories(workspace.folder() / "again");
    workspace.write("again/points.jsonl", journal);
    CHECK(workspace.run("sweep a.yaml -o again --resume -j 1").code == 0);
    CHECK((workspace.read("again/points.jsonl") == journal));
  }

  TEST_CASE("a sweep simulates again what an edited profile by a short name changes") {
    const Workspace workspace;
    workspace.write(
        "p.yaml",
        "like: h100-sxm-80gb\nname: mine\nhbm: {capacity: {value: 40GiB, source: test}}\n");
    workspace.write("q.yaml", "extends: ./p.yaml\n");
    workspace.write("s.yaml",
                    "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
                    "./q.yaml, sweep: {matrix: {training.micro_batch: [1, 2]}}}");
    CHECK(workspace.run("sweep s.yaml -o out").code == 0);
    const std::string before = workspace.read("out/results.csv");
    workspace.write(
        "p.yaml",
        "like: h100-sxm-80gb\nname: mine\nhbm: {capacity: {value: 50GiB, source: test}}\n");
    CHECK(workspace.run("sweep s.yaml -o out --resume").code == 0);
    CHECK(workspace.read("out/results.csv") != before);
  }

  TEST_CASE("a run under eviction that does not fit is reported like any other") {
    const Workspace workspace;
    const Outcome outcome = workspace.run(fmt::format(
        "run {} -s sweep=null -s 'policies=[eviction: {{heuristic: msps, mode: eager}}]' -s "
        "hardware.hbm.capacity=4GiB -o out",
        test::source_path("scenarios/basics/eviction.yaml")));
    CHECK(outcome.code == 1);
    CHECK(workspace.exists("out/report.html"));
  }

  TEST_CASE("what cannot be written is said, whatever keeps it from being written") {
    const Workspace workspace;
    const std::string model = "gpt2 --gpu h100-sxm-80gb --no-chart";
    const Outcome unnamed = workspace.run("run " + model + " -o ''");
    CHECK(unnamed.code == 2);
    CHECK(contains(unnamed.err, "--output: the name is empty"));
    const Outcome limited = workspace.run("run " + model + " -o out", "ulimit -f 8;");
    CHECK(limited.code == 2);
    CHECK(contains(limited.err, "cannot be written"));
    CHECK_FALSE(workspace.exists("out"));
  }

  TEST_CASE("a folder's list of its report removes nothing that the report did not write") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}, hardware: "
                    "h100-sxm-80gb}");
    CHECK(workspace.run("run s.yaml -o out -s 'report={formats: [json, csv, svg]}'").code == 0);
    workspace.write("out/thesis.csv", "mine");
    workspace.write("out/results.csv", "edited");
    workspace.write("out/.tidemark-files",
                    workspace.read("out/.tidemark-files") +
                        "thesis.csv\n4 0.000000000 thesis.csv\n4 thesis.csv\n 4\n");
    const Outcome again = workspace.run("run s.yaml -o out -s 'report={formats: [json]}'");
    CHECK(again.code == 0);
    CHECK(contains(again.err, "perhaps changed since: results.csv, thesis.csv\n"));
    CHECK(workspace.names("out") ==
          std::vector<std::string>{"results.csv", "results.json", "thesis.csv"});
    // A name that the list has in two ways is kept, and no list is read without end.
    workspace.write("out/.tidemark-files",
                    workspace.read("out/.tidemark-files") + "results.json\n.tidemark-files\n");
    const Outcome twice = workspace.run("run s.yaml -o out -s 'report={formats: [csv]}'");
    CHECK(contains(twice.err, "perhaps changed since: results.json\n"));
    CHECK(workspace.exists("out/results.json"));
  }

  TEST_CASE("a run warns of what a model's file says and nothing comes of") {
    const Workspace workspace;
    workspace.write(
        "m.json",
        R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "quantization_config": {"quant_method": "gptq"}})");
    const Outcome outcome = workspace.run("run m.json --gpu h100-sxm-80gb --no-chart");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "the quantization_config (gptq) of the model's file"));
  }

  TEST_CASE("a link that leads nowhere is not suggested in its own place") {
    const Workspace workspace;
    std::filesystem::create_symlink("gone.yaml", workspace.folder() / "s.yaml");
    const Outcome outcome = workspace.run("run s.yaml");
    CHECK(outcome.code == 2);
    CHECK(
        contains(outcome.err, "s.yaml: no such file: it is a link to a file that does not exist"));
  }
}

}  // namespace tidemark::untrusted_files_test
