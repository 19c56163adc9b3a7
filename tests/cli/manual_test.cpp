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
      workspace.write(shell, script.out);
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
  }
}

}  // namespace tidemark::testing::manual_test
