#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::testing::commands_test {
namespace {

TEST_SUITE("golden") {
  TEST_CASE("--version and --help answer on stdout and exit 0") {
    const Workspace w;
    const Outcome version = w.run("--version");
    CHECK(version.code == 0);
    CHECK(version.out == "tidemark 0.1.0\n");
    const Outcome help = w.run("--help");
    CHECK(help.code == 0);
    CHECK(contains(help.out, "Examples:"));
    CHECK(contains(w.run("run --help").out, "tidemark run"));
  }

  TEST_CASE("mistakes on the command line exit 2, name the option and suggest the nearest") {
    const Workspace w;
    const auto fails = [&](const std::string& arguments, const std::string& message) {
      INFO(arguments);
      const Outcome o = w.run(arguments);
      CHECK(o.code == 2);
      CHECK(o.out.empty());
      INFO(o.err);
      CHECK(contains(o.err, message));
    };
    fails("", "Usage: tidemark");
    fails("rnu", "unknown command 'rnu'; did you mean 'run'?");
    fails("run --jsno x.yaml", "unknown option '--jsno'; did you mean '--json'?");
    fails("run", "SCENARIO is required");
    fails("run x.yaml -j 0", "--threads");
    fails("run x.yaml -j many", "--threads");
    fails("run missing.yaml", "missing.yaml");
    fails("run gpt2", "add --gpu NAME");
    fails("run gtp2 --gpu a100-sxm-80gb", "did you mean 'gpt2'?");
    fails("run gpt2 --gpu a100-sxm-80bg", "a100-sxm-80gb");
    fails("run gpt2 --gpu a100-sxm-80gb -s training.micro_bacth=2", "did you mean 'micro_batch'?");
    fails("run gpt2 --gpu a100-sxm-80gb -s nonsense", "nonsense");
    fails("run gpt2 --gpu a100-sxm-80gb --plugin none.so", "none.so");
    fails("list modles", "did you mean 'models'?");
    fails("describe gpt2-lx", "did you mean 'gpt2-xl'?");
    fails("sweep x.yaml", "--output is required");
  }

  TEST_CASE("a scenario's mistake is reported with line and column, and nothing is written") {
    const Workspace w;
    w.write("s.yaml",
            "version: 1\nmodel: mlp\nhardware: v100-sxm-16gb\ntraining: {micro_bacth: 2}\n");
    for (const std::string command :
         {"run s.yaml -o out --json", "check s.yaml", "explain s.yaml"}) {
      INFO(command);
      const Outcome o = w.run(command);
      CHECK(o.code == 2);
      CHECK(o.out.empty());
      CHECK(contains(o.err, "s.yaml:4:12: training.micro_bacth"));
      CHECK(contains(o.err, "did you mean 'micro_batch'?"));
    }
    CHECK_FALSE(w.exists("out"));
  }

  TEST_CASE("a folder that cannot be written is an error before anything is simulated") {
    const Workspace w;
    w.write("s.yaml", "version: 1\nmodel: mlp\nhardware: v100-sxm-16gb\n");
    w.write("taken", "a file");
    const Outcome o = w.run("run s.yaml -o taken");
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(contains(o.err, "taken: is a file; -o takes a folder"));
    CHECK(w.run("run s.yaml -o /proc/none").code == 2);
    CHECK(w.read("taken") == "a file");
  }

  TEST_CASE("check reports every file and how many points it has") {
    const Workspace w;
    w.write("good.yaml",
            "version: 1\nmodel: mlp\nhardware: v100-sxm-16gb\n"
            "sweep: {matrix: {training.micro_batch: [1, 2, 4]}}\n");
    w.write("bad.yaml", "version: 1\nmodel: mpl\nhardware: v100-sxm-16gb\n");
    const Outcome o = w.run("check good.yaml bad.yaml");
    CHECK(o.code == 2);
    CHECK(o.out == "good.yaml: ok, 3 points\n");
    CHECK(contains(o.err, "bad.yaml:2:8"));
    CHECK(w.run("check good.yaml").code == 0);
  }

  TEST_CASE("init writes a scenario that checks, and never overwrites") {
    const Workspace w;
    CHECK(w.run("init").code == 0);
    CHECK(w.run("check scenario.yaml").code == 0);
    const std::string before = w.read("scenario.yaml");
    const Outcome again = w.run("init scenario.yaml");
    CHECK(again.code == 2);
    CHECK(contains(again.err, "exists already"));
    CHECK(w.read("scenario.yaml") == before);
    CHECK(w.run("init -").out == before);
  }

  TEST_CASE("init --device writes a profile that runs as it stands") {
    const Workspace w;
    const Outcome made = w.run("init --device 'My GPU 48 GB'");
    CHECK(made.code == 0);
    CHECK(made.out ==
          "wrote my-gpu-48-gb.yaml; next: tidemark run gpt2 --gpu ./my-gpu-48-gb.yaml\n");
    const std::string profile = w.read("my-gpu-48-gb.yaml");
    CHECK(contains(profile, "\nlike: a100-sxm-80gb\n"));
    CHECK(contains(profile, "\n  bandwidth: {value: 2039GB/s, source: \"assumed: fill in; as "));
    CHECK(contains(profile, "\n#   kernel: {value: 2.6us, source: \"te42kyfo/gpu-benches"));
    CHECK(w.run("run mlp --gpu ./my-gpu-48-gb.yaml --no-chart").code == 0);
    CHECK(w.run("init --device 'My GPU 48 GB'").code == 2);
    // One that is known starts from itself; an ambiguous one is refused with its candidates.
    CHECK(contains(w.run("init - --device h100").out, "\nextends: h100-sxm-80gb\n"));
    CHECK(contains(w.run("init - --device v100").err,
                   "several GPUs are called 'v100': v100-pcie-32gb, v100-sxm-16gb, v100-sxm-32gb"));
  }

  TEST_CASE("GPUs are listed in groups and described by the names that people use") {
    const Workspace w;
    const std::string list = w.run("list gpus").out;
    CHECK(list.find("data centre") < list.find("consumer and workstation"));
    CHECK(list.find("consumer and workstation") < list.find("rtx-4090-24gb"));
    CHECK(list.find("capacity and roofline only") < list.find("tpu-v4-32gb"));
    CHECK(contains(w.run("describe RTX4090").out, "NVIDIA GeForce RTX 4090 24 GB"));
    CHECK(contains(w.run("describe a100").err, "several GPUs are called 'a100': a100-pcie-40gb, "));
  }

  TEST_CASE("list names everything, and describe knows every name that list shows") {
    const Workspace w;
    for (const std::string kind : {"models", "gpus", "policies", "allocators", "optimizers"}) {
      const Outcome o = w.run("list " + kind);
      CHECK(o.code == 0);
      std::size_t entries = 0;
      for (std::size_t at = 0; at < o.out.size();) {
        const std::string line = o.out.substr(at, o.out.find('\n', at) - at);
        at += line.size() + 1;
        if (line.empty()) break;                // what follows explains
        if (!line.starts_with("  ")) continue;  // a group
        const std::string name = line.substr(2, line.find(' ', 2) - 2);
        INFO(name);
        const Outcome description = w.run("describe " + name);
        CHECK(description.code == 0);
        CHECK(contains(description.out, name));
        ++entries;
      }
      CHECK(entries >= 2);
    }
  }

  TEST_CASE("describe names the parameters that only some settings read") {
    const Workspace w;
    for (const auto& [policy, parameters] : std::map<std::string, std::vector<std::string>>{
             {"fsdp",
              {"units", "param_dtype", "reduce_dtype", "use_orig_params", "limit_all_gathers"}},
             {"lora", {"implementation", "block", "quantise_head", "outliers"}},
             {"freeze", {"layers"}},
             {"prune", {"layers"}},
             {"ema", {"dtype"}}}) {
      CAPTURE(policy);
      const Outcome described = w.run("describe " + policy);
      for (const std::string& parameter : parameters) {
        CAPTURE(parameter);
        CHECK(contains(described.out, "\n  " + parameter + "  "));
      }
    }
  }

  TEST_CASE("describe shows parameters with defaults, and figures with their sources") {
    const Workspace w;
    const Outcome policy = w.run("describe checkpoint_every");
    CHECK(contains(policy.out, "period"));
    CHECK(contains(policy.out, ">= 1"));
    CHECK(contains(policy.out, "Chen et al. 2016"));
    const Outcome elastic = w.run("describe memory_elastic");
    CHECK(elastic.code == 0);
    for (const char* words : {"global_batch", "lengths", "required", "capacity", "deepspeed",
                              "- memory_elastic: {global_batch: 48"})
      CHECK(contains(elastic.out, words));
    CHECK(contains(w.run("list policies").out, "memory_elastic"));
    const Outcome torch = w.run("describe torch");
    CHECK(contains(torch.out, R"("[256:1,512:2,>:4]" | {256MiB: 1, ">": 4})"));
    const Outcome gpu = w.run("describe a100-sxm-80gb");
    CHECK(contains(gpu.out, "hbm.bandwidth"));
    CHECK(contains(gpu.out, "NVIDIA A100 data sheet"));
  }

  TEST_CASE("a policy of one's own is compiled by the line in the README") {
    if (std::system("g++ --version > /dev/null 2>&1") != 0) {
      MESSAGE("skipped: needs g++");
      return;
    }
    std::ifstream page(tidemark::test::source_path("policies/README.md"));
    std::string line;
    while (std::getline(page, line) && !line.starts_with("g++ "))
      ;
    const auto replace = [&](const std::string& what, const std::string& by) {
      const std::size_t at = line.find(what);
      REQUIRE(at != std::string::npos);
      line.replace(at, what.size(), by);
    };
    const Workspace w;
    replace("PREFIX/include/tidemark", tidemark::test::source_path());
    replace("mine.cpp", tidemark::test::source_path("tests/plugin/keep_first_blocks.cpp"));
    REQUIRE(std::system(("cd " + w.folder().string() + " && " + line).c_str()) == 0);
    CHECK(contains(w.run("list policies --plugin ./libmine.so").out, "keep_first_blocks"));
  }

  TEST_CASE("graph prints a table, Graphviz or JSON") {
    const Workspace w;
    CHECK(contains(w.run("graph mlp").out, "backward"));
    CHECK(w.run("graph mlp --dot").out.starts_with("digraph"));
    const nlohmann::json graph = nlohmann::json::parse(w.run("graph mlp --json").out);
    CHECK(graph["operators"].size() > 0);
    CHECK(graph["storages"].size() > 0);
    CHECK(graph["parts"]["forward"].size() > 0);
    CHECK(w.run("graph mlp --dot --json").code == 2);
  }

  TEST_CASE("a full disk on stdout is an error, not silence") {
    const Workspace w;
    const Outcome o = w.run("list models > /dev/full");
    CHECK(o.code == 2);
    CHECK(contains(o.err, "standard output"));
  }
}

}  // namespace
}  // namespace tidemark::testing::commands_test
