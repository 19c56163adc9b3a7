// Output that a person at a terminal sees, and a script does not.
#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "plots/report/html_report.hpp"
#include "plots/table.hpp"
#include "tests/cli/command_runner.hpp"

namespace tidemark::terminal_test {

using namespace tidemark::testing;

namespace {

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

// Whether an escape selects how text is shown: it ends in m. The line of progress is erased by one
// that ends in K.
bool has_colour(const std::string& text) {
  for (std::size_t at = text.find("\x1b["); at != std::string::npos;
       at = text.find("\x1b[", at + 1)) {
    const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
    if (end != std::string::npos && text[end] == 'm') return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("colours are for terminals, unless NO_COLOR says otherwise") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    for (const std::string command :
         {"run s.yaml", "explain s.yaml", "diff s.yaml -b training.micro_batch=4"}) {
      CAPTURE(command);
      const Screen coloured = work.run_on_terminal(command);
      CHECK(coloured.code == 0);
      CHECK(has_colour(coloured.text));
      const Screen plain = work.run_on_terminal(command, "NO_COLOR=1");
      CHECK(plain.code == 0);
      CHECK_FALSE(has_colour(plain.text));
      CHECK_FALSE(contains(work.run(command).out, "\x1b["));
    }
  }

  TEST_CASE("a chart has the capacity where it is near, and fits the terminal") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    const Screen screen = work.run_on_terminal(
        "run s.yaml -s hardware='{gpu: a100-sxm-80gb, hbm: {capacity: 700MiB}}'", "NO_COLOR=1");
    CHECK(contains(screen.text, "capacity 700 MiB"));
    CHECK(contains(screen.text, "╌╌╌╌"));
  }

  TEST_CASE("every line keeps to the width of the terminal") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    for (const unsigned short columns : std::initializer_list<unsigned short>{80, 100, 140, 200}) {
      CAPTURE(columns);
      for (const std::string command :
           {"run s.yaml", "explain s.yaml", "diff s.yaml -b training.micro_batch=4"}) {
        CAPTURE(command);
        const Screen screen = work.run_on_terminal(command, "NO_COLOR=1", columns);
        CHECK(screen.code == 0);
        std::istringstream lines(screen.text);
        std::size_t checked = 0;
        for (std::string line; std::getline(lines, line);) {
          if (line.ends_with('\r')) line.pop_back();
          // The text behind the last wipe is what stays on the line after progress.
          constexpr std::string_view kWipe = "\r\x1b[K";
          const std::size_t wiped = line.rfind(kWipe);
          if (wiped != std::string::npos) line.erase(0, wiped + kWipe.size());
          INFO(line);
          ++checked;
          CHECK(tidemark::display_width(line) <= columns);
        }
        CHECK(checked > 30);
      }
    }
  }

  TEST_CASE("a plan that takes its time says for how long at most, and the line goes") {
    const Workspace work;
    work.write("graph.json", work.run("graph gpt2 --gpu a100-sxm-40gb --cost-graph").out);
    const std::string command = "plan graph.json --policy optimal --budget 2.4GiB";
    const Screen screen = work.run_on_terminal(command + " --time-limit 2s");
    CHECK(screen.code == 0);
    CHECK(contains(screen.text, "solving: 1 s of at most 2 s"));
    CHECK(screen.text.rfind("solving: ") < screen.text.rfind("\r\x1b[K"));
    CHECK(screen.text.rfind("\r\x1b[K") < screen.text.find("  status"));
    CHECK(work.run(command + " --time-limit 1s").err.empty());
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
    const Screen screen = work.run_on_terminal("sweep s.yaml -o out -j 1");
    CHECK(contains(screen.text, " of 24 points"));
    const std::size_t lines = count_of(screen.text, "\r\x1b[K");
    CHECK(static_cast<double>(lines) <= 10 * screen.seconds + 3);
    if (screen.seconds > 2) CHECK(contains(screen.text, "points, about "));
    // The line is wiped before the table comes.
    CHECK(screen.text.rfind("\r\x1b[K") > screen.text.rfind(" of 24 points"));
    CHECK_FALSE(
        contains(work.run("sweep s.yaml -o out2 -j 2 -s sweep.matrix='{training.micro_batch: "
                          "[1, 2]}'")
                     .err,
                 "points"));
  }
}

}  // namespace tidemark::terminal_test
