// Control characters in names: a terminal would obey them.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::control_characters_test {

using namespace tidemark::testing;

namespace {

// Clears the screen, sets the title, moves the cursor up; a control character of two bytes, and one
// that turns the order of letters.
constexpr const char* kHostile =
    "a\\e[2Jb\\e]0;owned\\ac\\rd\\ne\\bf\\e[1Ag\\x7fh\\u009b31mi\\u202ej\\u2066k";

// Whether a text has no control characters but the line ends of Tidemark's own lines.
bool is_clean(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) return false;
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool turns =
        text.compare(i, 3, "\xE2\x80\xAE") == 0 || text.compare(i, 3, "\xE2\x81\xA6") == 0;
    if (c1 || turns) return false;
  }
  return true;
}

// Whether a text has no control characters but those of Tidemark's lines on a terminal: line ends
// are CR LF, words have colours, and progress clears its line.
bool is_clean_on_terminal(std::string text) {
  for (std::size_t at = 0; (at = text.find("\r\x1b[K", at)) != std::string::npos;)
    text.erase(at, 4);
  for (std::size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos;)
    text.erase(at, 1);
  for (std::size_t at = 0; (at = text.find("\x1b[", at)) != std::string::npos;) {
    const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
    if (end == std::string::npos || text[end] != 'm') return false;
    text.erase(at, end + 1 - at);
  }
  return is_clean(text);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("control characters in names are escaped on their way out") {
    const Workspace workspace;
    const std::string name = std::string("\"") + kHostile + "\"";
    workspace.write(
        "s.yaml", "version: 1\nname: " + name + "\npublished: [" + name +
                      "]\nmodel: {preset: gpt2, layers: 2, vocab: 1024}\nhardware: a100-sxm-40gb\n"
                      "training: {sequence: 64}\n");
    workspace.write(
        "costs.json",
        R"({"name": "g\u001b[2J\n", "fixed_bytes": 0, "nodes": [{"id": 0, "name": "n\u001b[2J\r\n", )"
        R"("kind": "forward", "cost": 1, "bytes": 1024, "workspace": 0, "deps": []}, {"id": 1, )"
        R"("name": "y\u009b1m", "kind": "backward", "cost": 2, "bytes": 2048, "workspace": 0, )"
        R"("deps": [0]}]})");
    workspace.write("layers.yaml", "inputs: {" + name +
                                       ": [batch, 3, 32, 32]}\nlayers:\n- conv2d: {channels: 8, "
                                       "kernel: 3}\n- flatten\n- linear: 10\n");
    for (const std::string& arguments : std::vector<std::string>{
             "run s.yaml", "explain s.yaml", "graph s.yaml", "check s.yaml", "fit s.yaml",
             "sweep s.yaml -o out", "sweep merge out", "compare s.yaml", "diff s.yaml s.yaml",
             "run costs.json --gpu a100-sxm-40gb", "explain costs.json --gpu a100-sxm-40gb",
             "graph costs.json --gpu a100-sxm-40gb", "plan costs.json --budget 3KiB",
             "run layers.yaml --gpu a100-sxm-40gb", "explain layers.yaml --gpu a100-sxm-40gb",
             "graph layers.yaml --gpu a100-sxm-40gb",
             "run \"$(printf 'no\\033[2Jsuch\\007.yaml')\"",
             "run gpt2 --gpu \"$(printf 'h\\033[2J100')\"",
             "run s.yaml -s \"$(printf 'training.\\033[2J=1')\""}) {
      CAPTURE(arguments);
      const Outcome outcome = workspace.run(arguments);
      CAPTURE(outcome.out);
      CAPTURE(outcome.err);
      CHECK(outcome.code != 3);
      CHECK(is_clean(outcome.out));
      CHECK(is_clean(outcome.err));
      CHECK_FALSE(contains(outcome.out, "\ne\\u0008f"));  // a name stays on its line
      const Screen screen = workspace.run_on_terminal(arguments);
      CAPTURE(screen.text);
      CHECK(is_clean_on_terminal(screen.text));
    }
    // Nothing is lost: JSON means the same, and a person sees what the name has.
    const Outcome run = workspace.run("run s.yaml");
    CHECK(contains(run.out, "a\\u001b[2Jb\\u001b]0;owned\\u0007c\\u000dd\\u000ae\\u0008f"));
    const Outcome json = workspace.run("run s.yaml --json");
    CHECK(nlohmann::json::parse(json.out).at("points").at(0).at("name") ==
          "a\x1b[2Jb\x1b]0;owned\ac\rd\ne\bf\x1b[1Ag\x7fh\xc2\x9b"
          "31mi\xe2\x80\xaej\xe2\x81\xa6k");
  }
}

}  // namespace tidemark::control_characters_test
