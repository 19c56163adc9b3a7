// The folders are a ladder: a file includes only its own folder and those before it. Read from the
// sources, so that it holds also for code that nobody calls.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/paths.hpp"

namespace tidemark::ladder_test {

namespace {

constexpr std::array<std::string_view, 7> kLadder = {"graph", "hwprofiles", "policies", "sim",
                                                     "plots", "scenarios",  "cli"};

// The place in kLadder of the folder that a path from the repository root begins with.
std::optional<std::size_t> rung_of(std::string_view path) {
  const auto* rung = std::find(kLadder.begin(), kLadder.end(), path.substr(0, path.find('/')));
  if (rung == kLadder.end() || path.find('/') == std::string_view::npos) return std::nullopt;
  return static_cast<std::size_t>(rung - kLadder.begin());
}

// The position just past the token that begins at `start`: a comment, a literal or one character.
std::size_t token_end(std::string_view text, std::size_t start) {
  const auto past = [&](std::string_view end, std::size_t from) {
    const std::size_t found = text.find(end, from);
    return found == std::string_view::npos ? text.size() : found + end.size();
  };
  const std::string_view rest = text.substr(start);
  if (rest.starts_with("//")) return std::min(text.find('\n', start), text.size());
  if (rest.starts_with("/*")) return past("*/", start + 2);
  if (rest.starts_with("R\"")) {  // R"name( ... )name"
    const std::size_t open = std::min(text.find('(', start), text.size());
    const std::string name(text.substr(start + 2, open - start - 2));
    return past(")" + name + "\"", open);
  }
  // 1'000'000 is a number, not a character literal.
  const bool grouped = start > 0 && std::isalnum(static_cast<unsigned char>(text[start - 1])) != 0;
  if (text[start] != '"' && (text[start] != '\'' || grouped)) return start + 1;
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == text[start] || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

// The text with comments and the inside of literals blanked; lines keep their places.
std::string code_only(std::string_view text) {
  std::string code(text);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = token_end(text, start);
    const bool literal = text[start] == '"' || text[start] == '\'' || text[start] == 'R';
    const std::size_t kept = literal ? 1 : 0;  // the quotes stay
    for (std::size_t i = start + kept; end > start + 1 && i < end - kept; ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    start = end;
  }
  return code;
}

// What is wrong with `included` in `file`, both from the repository root; empty when nothing is.
std::string include_fault(std::string_view file, std::string_view included, bool quoted) {
  if (included.starts_with("tidemark/")) return {};  // generated: version.hpp, paths.hpp
  const std::optional<std::size_t> target = rung_of(included);
  if (!target) return quoted ? "is not written from the repository root" : "";
  if (*target > rung_of(file)) return "goes up the ladder";
  if (file.starts_with("sim/engine/") && included.starts_with("policies/") &&
      !included.starts_with("policies/plan/")) {
    return "couples the engine to a policy; only policies/plan is shared";
  }
  return {};
}

// All faults of one source file as `path:line: text`.
std::vector<std::string> check_source(const std::string& path, const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  // Printing and ending the program. A member such as queue.exit() and snprintf are neither.
  static const std::regex kPrints(
      R"re(\bstd::(cout|cerr|clog)\b|(^|[^\w.>])(printf|puts|putchar)\s*\(|fmt::print\s*\(\s*")re");
  static const std::regex kExits(
      R"re(\bstd::(quick_|_)?(exit|abort|terminate)\b|(^|[^\w.>:])(_|quick_)?(exit|abort)\s*\()re");

  std::vector<std::string> faults;
  std::istringstream raw_lines(text);
  std::istringstream code_lines(code_only(text));
  std::string raw;
  std::string code;
  for (int line = 1; std::getline(raw_lines, raw) && std::getline(code_lines, code); ++line) {
    const auto report = [&](const std::string& problem) {
      faults.push_back(path + ":" + std::to_string(line) + ": " + problem);
    };
    const std::size_t first = code.find_first_not_of(' ');
    std::smatch match;
    // `raw` still has the name that code_only() blanked; `code` tells whether the line is code.
    if (first != std::string::npos && code[first] == '#' &&
        std::regex_search(raw, match, kInclude)) {
      const std::string included = match[2];
      const std::string fault = include_fault(path, included, match[1] == "\"");
      if (!fault.empty()) report(included + " " + fault);
    }
    if (path.starts_with("cli/")) continue;
    if (std::regex_search(code, kPrints)) report("only cli/ prints");
    if (std::regex_search(code, kExits)) report("only cli/ ends the program");
  }
  return faults;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

using Faults = std::vector<std::string>;

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("sources include only down the ladder and leave printing and exiting to cli") {
    const std::filesystem::path root(tidemark::test::source_path());
    int sources = 0;
    for (const std::string_view rung : kLadder) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(root / rung)) {
        const std::filesystem::path extension = entry.path().extension();
        if (extension != ".hpp" && extension != ".cpp") continue;
        ++sources;
        const std::string path = entry.path().lexically_relative(root).generic_string();
        for (const std::string& fault : check_source(path, read_text(entry.path()))) {
          FAIL_CHECK(fault);
        }
      }
    }
    CHECK(sources > 0);
  }

  TEST_CASE("the ladder check reports an include that goes up") {
    CHECK(check_source("graph/ir/a.cpp", "#include <vector>\n#include \"sim/engine/run.hpp\"\n") ==
          Faults{"graph/ir/a.cpp:2: sim/engine/run.hpp goes up the ladder"});
    CHECK(check_source("policies/residency/b.cpp", "#  include <sim/memory/torch.hpp>") ==
          Faults{"policies/residency/b.cpp:1: sim/memory/torch.hpp goes up the ladder"});
    CHECK(check_source("sim/a.hpp", "#include \"policies/plan/plan.hpp\"\n").empty());
    CHECK(check_source("sim/a.hpp", "// #include \"cli/main.hpp\"\n").empty());
    CHECK(check_source("sim/a.hpp", "/*\n#include \"cli/main.hpp\"\n*/\n").empty());
    CHECK(check_source("sim/a.hpp", "#include \"tidemark/version.hpp\"\n").empty());
    CHECK(check_source("sim/memory/a.hpp", "#include \"pool.hpp\"\n") ==
          Faults{"sim/memory/a.hpp:1: pool.hpp is not written from the repository root"});
  }

  TEST_CASE("the ladder check lets the engine know the plan and no policy") {
    CHECK(check_source("sim/engine/run.cpp", "#include \"policies/plan/eviction.hpp\"\n").empty());
    CHECK(check_source("sim/engine/run.cpp", "#include \"policies/eviction/dtr.hpp\"\n").size() ==
          1);
    CHECK(check_source("sim/engine/run.cpp", "#include \"policies/registry.hpp\"\n").size() == 1);
    CHECK(check_source("sim/program/lower.cpp", "#include \"policies/registry.hpp\"\n").empty());
  }

  TEST_CASE("the ladder check reports printing and exiting outside of cli") {
    CHECK(check_source("graph/a.cpp", "void f() { std::cout << 1; }\n") ==
          Faults{"graph/a.cpp:1: only cli/ prints"});
    CHECK(check_source("sim/a.cpp", "  std::printf(\"%d\", 1);\n").size() == 1);
    CHECK(check_source("sim/a.cpp", "  fmt::print(\"{}\", 1);\n").size() == 1);
    CHECK(check_source("sim/a.cpp", "  exit(1);\n") ==
          Faults{"sim/a.cpp:1: only cli/ ends the program"});
    CHECK(check_source("sim/a.cpp", "  std::exit(1);\n").size() == 1);
    CHECK(check_source("cli/main.cpp", "  std::cout << 1; std::exit(1);\n").empty());
  }

  TEST_CASE("the ladder check is not misled by comments, literals and longer names") {
    CHECK(check_source("graph/a.cpp", "// std::cout is for cli\n").empty());
    CHECK(check_source("graph/a.cpp", "auto s = \"a \\\" exit(1)\";\n").empty());
    CHECK(check_source("plots/a.cpp", "auto s = R\"html(\n\" exit(1)\n)html\";\n").empty());
    CHECK(
        check_source("graph/a.cpp", "std::snprintf(b, 9, f); queue.exit(); on_exit();\n").empty());
    // The apostrophes group digits; what follows them is code.
    CHECK(check_source("graph/a.cpp", "int n = 1'000; exit(n); n = 2'000;\n").size() == 1);
    CHECK(check_source("graph/a.cpp", "char c = '\"'; exit(1); c = '\"';\n").size() == 1);
  }
}

}  // namespace tidemark::ladder_test
