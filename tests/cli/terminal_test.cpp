// What a person at a terminal sees, and a script does not.
#include <algorithm>
#include <chrono>
#include <string>

#include <doctest/doctest.h>
#include <pty.h>

#include "plots/report/html_report.hpp"
#include "tests/cli/command_runner.hpp"

using namespace tidemark::testing;

namespace {

struct Screen {
  std::string text;  // stdout and stderr of a terminal of 100 columns
  double seconds = 0;
  int code = -1;
};

// `arguments` as a shell reads them; `before` may set variables.
Screen on_terminal(const Workspace& work, const std::string& arguments,
                   const std::string& before = "") {
  winsize size{.ws_row = 40, .ws_col = 100};
  int terminal = -1;
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string command = "cd '" + work.folder().string() +
                                "' && unset NO_COLOR; TERM=xterm " + before + " '" +
                                TIDEMARK_BINARY + "' " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  Screen screen;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(terminal, buffer, sizeof buffer)) > 0;)
    screen.text.append(buffer, static_cast<std::size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  screen.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  screen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return screen;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

const std::string kScenario = R"(
model: {preset: gpt, layers: 4, width: 128, heads: 2, vocab: 1024, sequence: 128}
hardware: a100-sxm-80gb
training: {micro_batch: 2, sequence: 128}
)";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("colours are for terminals, unless NO_COLOR says otherwise") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    for (const std::string command :
         {"run s.yaml", "explain s.yaml", "diff s.yaml -b training.micro_batch=4"}) {
      CAPTURE(command);
      const Screen coloured = on_terminal(work, command);
      CHECK(coloured.code == 0);
      CHECK(contains(coloured.text, "\x1b["));
      const Screen plain = on_terminal(work, command, "NO_COLOR=1");
      CHECK(plain.code == 0);
      CHECK_FALSE(contains(plain.text, "\x1b["));
      CHECK_FALSE(contains(work.run(command).out, "\x1b["));
    }
  }

  TEST_CASE("a chart has the capacity where it is near, and fits the terminal") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    const Screen screen =
        on_terminal(work, "run s.yaml -s hardware='{gpu: a100-sxm-80gb, hbm: {capacity: 700MiB}}'",
                    "NO_COLOR=1");
    CHECK(contains(screen.text, "capacity 700 MiB"));
    CHECK(contains(screen.text, "╌╌╌╌"));
  }

  TEST_CASE("a long sweep says how far it is and how long it will take, ten times a second") {
    const Workspace work;
    std::string batches = "1";
    for (int i = 2; i <= 24; ++i)
      batches += ", " + std::to_string(i);
    work.write("s.yaml",
               "model: llama-2-7b\nhardware: h100-sxm-80gb\nsweep: "
               "{matrix: {training.micro_batch: [" +
                   batches + "]}}\n");
    const Screen screen = on_terminal(work, "sweep s.yaml -o out -j 1");
    CHECK(contains(screen.text, " of 24 points"));
    if (tidemark::has_html_report()) CHECK(contains(screen.text, " of 12 points written"));
    const std::size_t lines = count_of(screen.text, "\r\x1b[K");
    CHECK(static_cast<double>(lines) <= 10 * screen.seconds + 3);
    if (screen.seconds > 2) CHECK(contains(screen.text, "points, about "));
    // The line is gone before the table comes.
    CHECK(screen.text.rfind("\r\x1b[K") > screen.text.rfind(" of 24 points"));
    CHECK_FALSE(
        contains(work.run("sweep s.yaml -o out2 -j 2 -s sweep.matrix='{training.micro_batch: "
                          "[1, 2]}'")
                     .err,
                 "points"));
  }
}
