// The manual page and the completions know every command and option that the program has.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::manual_test {
namespace {

// Returns the commands that the help lists.
std::vector<std::string> commands(const std::string& help) {
  std::vector<std::string> names;
  const std::string title = "Subcommands:\n";
  std::size_t at = help.find(title);
  if (at == std::string::npos) return names;
  for (at += title.size(); help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1) {
    if (help[at + 2] != ' ') names.push_back(help.substr(at + 2, help.find(' ', at + 2) - at - 2));
  }
  return names;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the manual and the completions have all commands and options") {
    const Workspace workspace;
    const std::vector<std::string> names = commands(workspace.run("--help").out);
    REQUIRE(names.size() >= 18);
    const Outcome manual = workspace.run("manual");
    CHECK(manual.code == 0);
    CHECK(manual.out.starts_with(".TH TIDEMARK 1"));
    for (const std::string& name : names)
      CHECK(contains(manual.out, fmt::format(".SS tidemark {}\n", name)));
    CHECK(contains(manual.out, "\\-\\-smallest\\-capacity"));
    for (const std::string shell : {"bash", "zsh", "fish"}) {
      const Outcome script = workspace.run("completion " + shell);
      CHECK(script.code == 0);
      for (const std::string& name : names)
        CHECK(contains(script.out, name));
      CHECK(contains(script.out, "smallest-capacity"));
      // zsh looks for programs where its variable path says.
      CHECK_FALSE(contains(script.out, " path="));
    }
    CHECK(workspace.run("completion tcsh").code == 2);
  }

  TEST_CASE("bash completes commands, options, models and GPUs") {
    const Workspace workspace;
    workspace.write("completion", workspace.run("completion bash").out);
    const auto completed = [&](const std::string& words, int at) {
      workspace.write("ask", fmt::format("tidemark() {{ '{}' \"$@\"; }}\nsource ./completion\n"
                                         "COMP_WORDS=(tidemark {}) COMP_CWORD={}\n_tidemark\n"
                                         "echo \" ${{COMPREPLY[*]}} \" > answer\n",
                                         test::program_path(), words, at));
      const std::string command = fmt::format("cd '{}' && bash ask", workspace.folder().string());
      REQUIRE(std::system(command.c_str()) == 0);
      return workspace.read("answer");
    };
    CHECK(contains(completed("swe", 1), " sweep "));
    CHECK(contains(completed("run gpt2-", 2), " gpt2-xl "));
    CHECK(contains(completed("run gpt2 --gpu h1", 4), " h100-sxm-80gb "));
    CHECK(contains(completed("replay al", 2), " allocator "));
    CHECK(contains(completed("sweep merge --j", 3), " --json "));
    CHECK_FALSE(contains(completed("run gpt2 --gpu h1", 4), "gpt2"));
    CHECK(contains(completed("run ''", 2), " ask "));  // a file
    CHECK(contains(completed("plan --out ''", 3), " ask "));
    // Files and models are not offered where only the words of a set may stand.
    CHECK(completed("list m", 2) == " models \n");
    CHECK(completed("list --plugin", 2) == " --plugin \n");
    CHECK(completed("completion ''", 2).starts_with(" bash zsh fish --"));
    CHECK(completed("fit gpt2 --finder ''", 4) ==
          " lightning_power lightning_binsearch accelerate accelerate_halving \n");
    CHECK(completed("plan --class ''", 3) == " checkmate fixed unrestricted \n");
    CHECK(completed("replay allocator t.csv --allocator ''", 5) == " torch bfc ideal \n");
    CHECK(completed("replay eviction --mode b", 4) == " banish \n");
    CHECK(completed("recipe --method ''", 3) == " any full lora qlora \n");
    CHECK_FALSE(contains(completed("replay ''", 2), " ask "));
    CHECK_FALSE(contains(completed("''", 1), " ask "));
  }

  TEST_CASE("fish completes the words of a set, and each of them is one that the command takes") {
    const Workspace workspace;
    const std::string script = workspace.run("completion fish").out;
    const auto has = [&](const std::string& command, const std::string& rest) {
      const std::string line = "complete -c tidemark -n '__fish_seen_subcommand_from " + command;
      for (std::size_t at = 0; (at = script.find(line, at)) != std::string::npos; ++at) {
        if (script.substr(at, script.find('\n', at) - at).find(rest) != std::string::npos)
          return true;
      }
      return false;
    };
    CHECK(has("list'", " -f -a 'models gpus policies allocators optimizers'"));
    CHECK(has("completion'", " -f -a 'bash zsh fish'"));
    CHECK(has("replay'", " -f -a allocator "));
    CHECK(has("sweep'", "' -a merge "));  // or a scenario
    CHECK(has("plan'", " -l class -r -f -a 'checkmate fixed unrestricted'"));
    CHECK(has("replay; and __fish_seen_subcommand_from eviction'",
              " -l mode -r -f -a 'eager ignore banish'"));
    for (const char* kind : {"models", "gpus", "policies", "allocators", "optimizers"})
      CHECK(workspace.run(std::string("list ") + kind).code == 0);
    CHECK(contains(workspace.run("list nothing").err,
                   "choose from models, gpus, policies, allocators, optimizers"));
    CHECK(contains(workspace.run("manual").out, "\\-\\-class checkmate|fixed|unrestricted"));
    CHECK(contains(workspace.run("manual").out, "KIND: models|gpus|policies"));
  }
}

}  // namespace tidemark::testing::manual_test
