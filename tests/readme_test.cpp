// Checks the pages of the repository: links lead somewhere, and the commands in them are commands.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cli/command_runner.hpp"
#include "tests/support/instrumented.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::readme_test {

namespace {

namespace fs = std::filesystem;
using tidemark::testing::contains;

const fs::path kRoot(tidemark::test::source_path());

struct Page {
  fs::path path;
  std::string prose;                // without fenced blocks
  std::vector<std::string> blocks;  // lines of fenced blocks without a language: commands, output
};

Page split_page(const fs::path& path, std::istream& lines) {
  Page page{.path = path, .prose = {}, .blocks = {}};
  bool fenced = false;
  bool plain = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
      plain = line == "```";
    } else if (!fenced) {
      page.prose += line + '\n';
    } else if (plain) {
      page.blocks.push_back(line);
    }
  }
  return page;
}

std::vector<Page> pages() {
  std::vector<Page> found;
  for (auto entry = fs::recursive_directory_iterator(kRoot);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name.starts_with('.') || name == "build")) {
      entry.disable_recursion_pending();
    }
    if (!entry->is_regular_file() || entry->path().extension() != ".md") continue;
    std::ifstream file(entry->path());
    found.push_back(split_page(entry->path(), file));
  }
  return found;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m) {
    found.push_back((*m)[1]);
  }
  return found;
}

// Returns the anchors of the headings: lower case, spaces as hyphens, punctuation dropped.
std::vector<std::string> anchors(const Page& page) {
  std::vector<std::string> found;
  std::istringstream lines(page.prose);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) continue;
    std::string anchor;
    for (const char c : line.substr(std::min(line.find(' '), line.size() - 1) + 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0) anchor += static_cast<char>(std::tolower(byte));
      if (c == ' ' || c == '-') anchor += '-';
    }
    found.push_back(anchor);
  }
  return found;
}

// Returns the fault of a relative link of a page; empty when there is none.
std::string link_fault(const Page& page, const std::string& link) {
  if (contains(link, "://")) return {};
  const std::size_t hash = link.find('#');
  const std::string file = link.substr(0, hash);
  const fs::path target = file.empty() ? page.path : page.path.parent_path() / file;
  if (file.starts_with('/') || !fs::exists(target)) return "leads nowhere";
  if (hash == std::string::npos) return {};
  std::ifstream lines(target);
  const std::vector<std::string> known = anchors(split_page(target, lines));
  const bool found = std::find(known.begin(), known.end(), link.substr(hash + 1)) != known.end();
  return found ? "" : "names no heading";
}

// Returns the command at the beginning of a line: it ends at its explanation, at a pipe or at the
// next command.
std::string command_of(const std::string& line) {
  std::size_t end = line.size();
  for (const std::string_view mark : {"  ", " | ", " > ", " && ", " #"}) {
    end = std::min(end, line.find(mark));
  }
  return line.substr(0, end);
}

// Returns "tidemark ..." and "./bootstrap ..." in code spans, which may go over lines, and in
// blocks.
std::vector<std::string> commands(const Page& page) {
  static const std::regex kSpan("`([^`]+)`");
  std::vector<std::string> found;
  const auto add = [&](const std::string& text) {
    if (text.starts_with("tidemark ") || text.starts_with("./bootstrap ")) {
      found.push_back(command_of(text));
    }
  };
  std::string prose = page.prose;
  std::replace(prose.begin(), prose.end(), '\n', ' ');
  for (const std::string& span : matches(prose, kSpan)) {
    add(span);
  }
  for (const std::string& line : page.blocks) {
    add(line);
  }
  return found;
}

constexpr const char* kPatience = test::kInstrumented ? "timeout 3" : "timeout 0.1";

// Returns the error with which `tidemark` refuses a command that it cannot parse. A missing file of
// the page is an error of a later stage, and a command may be named without its required arguments.
std::string parse_fault(const tidemark::testing::Workspace& work, const std::string& arguments,
                        const std::string& patience) {
  // A command that still runs after a while has been parsed.
  const tidemark::testing::Outcome outcome = work.run(arguments, patience);
  constexpr int kTimedOut = 124;
  if (outcome.code == kTimedOut) return "";
  const bool refused = contains(outcome.err, "see: ") && !contains(outcome.err, "is required");
  const bool unknown =
      contains(outcome.err, "unknown command") || contains(outcome.err, "did you mean");
  return outcome.code >= 0 && outcome.code <= 2 && !refused && !unknown ? "" : outcome.err;
}

std::string command_fault(const tidemark::testing::Workspace& work, const std::string& command,
                          const std::string& patience = kPatience) {
  static const std::regex kScenario(R"(((?:scenarios|tests)/[\w./-]+))");
  for (const std::string& path : matches(command, kScenario)) {
    if (!fs::exists(kRoot / path)) return path + " is not there";
  }
  const std::string arguments = command.substr(command.find(' ') + 1);
  if (command.starts_with("tidemark ")) return parse_fault(work, arguments, patience);
  if (arguments.starts_with("run ")) return parse_fault(work, arguments, patience);
  std::ifstream script(kRoot / "bootstrap");
  const std::string text{std::istreambuf_iterator<char>(script), std::istreambuf_iterator<char>()};
  const std::string word = arguments.substr(0, arguments.find(' '));
  return contains(text, "\n  " + word + ")\n") ? "" : "./bootstrap has no command " + word;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every relative link of a page leads to a file, and to a heading where it names one") {
    static const std::regex kLink(R"(\]\(\s*([^)\s]+))");
    std::size_t links = 0;
    for (const Page& page : pages()) {
      for (const std::string& link : matches(page.prose, kLink)) {
        CAPTURE(page.path.lexically_relative(kRoot).string());
        CAPTURE(link);
        CHECK(link_fault(page, link) == "");
        ++links;
      }
    }
    CHECK(links > 20);
  }

  TEST_CASE("every command that a page names can be parsed") {
    const tidemark::testing::Workspace work;
    std::vector<std::string> seen;
    for (const Page& page : pages()) {
      for (const std::string& command : commands(page)) {
        if (std::find(seen.begin(), seen.end(), command) != seen.end()) continue;
        seen.push_back(command);
        CAPTURE(page.path.lexically_relative(kRoot).string());
        CAPTURE(command);
        CHECK(command_fault(work, command) == "");
      }
    }
    CHECK(seen.size() > 20);
  }

  TEST_CASE("the check of pages reports what is wrong with them") {
    const tidemark::testing::Workspace work;
    work.write("page.md", "# A *long* title, that's it\n");
    std::istringstream text(
        "# Other\n[a](page.md) [b](none.md) [c](page.md#a-long-title-thats-it)\n"
        "[d](page.md#b) [e](#other) `tidemark\nlist modles` `x`\n```\ntidemark rnu x  runs x\n```\n"
        "```yaml\ntidemark nothing\n```\n");
    work.write("other.md", text.str());
    const Page page = split_page(work.folder() / "other.md", text);
    CHECK(link_fault(page, "page.md") == "");
    CHECK(link_fault(page, "none.md") == "leads nowhere");
    CHECK(link_fault(page, "page.md#a-long-title-thats-it") == "");
    CHECK(link_fault(page, "page.md#b") == "names no heading");
    CHECK(link_fault(page, "#other") == "");
    CHECK(commands(page) == std::vector<std::string>{"tidemark list modles", "tidemark rnu x"});
    for (const std::string command :
         {"tidemark list modles", "tidemark rnu x", "tidemark run x.yaml --jsno",
          "tidemark run scenarios/none.yaml", "./bootstrap tset"}) {
      CAPTURE(command);
      CHECK(command_fault(work, command, "timeout 60") != "");  // it ends by itself
    }
    CHECK(command_fault(work, "tidemark run x.yaml --json") == "");
    CHECK(command_fault(work, "./bootstrap test -ts=unit") == "");
  }
}

}  // namespace tidemark::readme_test
