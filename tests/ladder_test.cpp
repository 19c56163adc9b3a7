// The folders are a ladder: a file includes only its own folder and those before it. Read from the
// sources, so that it holds also for code that nobody calls.
#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/paths.hpp"
#include "tests/support/sources.hpp"

namespace tidemark::ladder_test {

namespace {

using test::kLadder;

// Returns the index in kLadder of the folder that a path from the repository root begins with.
std::optional<std::size_t> layer_of(std::string_view path) {
  const auto* layer = std::find(kLadder.begin(), kLadder.end(), path.substr(0, path.find('/')));
  if (layer == kLadder.end() || path.find('/') == std::string_view::npos) return std::nullopt;
  return static_cast<std::size_t>(layer - kLadder.begin());
}

// Returns the fault of `included` in `file`, both from the repository root; empty when there is
// none.
std::string include_fault(std::string_view file, std::string_view included, bool quoted) {
  if (included.starts_with("tidemark/")) return {};  // generated: version.hpp, paths.hpp
  const std::optional<std::size_t> target = layer_of(included);
  if (!target) return quoted ? "is not written from the repository root" : "";
  if (*target > layer_of(file)) return "goes up the ladder";
  if (file.starts_with("scenarios/") && included.starts_with("plots/")) {
    return "couples scenarios/ to plots/, which do not know each other";
  }
  if (file.starts_with("sim/engine/") && included.starts_with("policies/") &&
      !included.starts_with("policies/plan/")) {
    return "couples the engine to a policy; only policies/plan is shared";
  }
  return {};
}

bool names_any(const std::string& code, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return code.find(word) != std::string::npos; });
}

// Returns all faults of one source file as `path:line: text`.
std::vector<std::string> check_source(const std::string& path, const std::string& text) {
  // Finds printing and ending the program. A member such as queue.exit() and snprintf are neither.
  static const std::regex kPrints(
      R"re(\bstd::(cout|cerr|clog)\b|(^|[^\w.>])(printf|puts|putchar)\s*\(|fmt::print\s*\(\s*")re");
  static const std::regex kExits(
      R"re(\bstd::(quick_|_)?(exit|abort|terminate)\b|(^|[^\w.>:])(_|quick_)?(exit|abort)\s*\()re");

  // The expressions take their time: they look at lines with one of these words.
  static constexpr std::array<std::string_view, 9> kWords = {
      "cout", "cerr", "clog", "print", "puts", "putchar", "exit", "abort", "terminate"};

  std::vector<std::string> faults;
  const auto report = [&](int line, const std::string& problem) {
    faults.push_back(path + ":" + std::to_string(line) + ": " + problem);
  };
  for (const test::Include& include : test::includes_of(text)) {
    const std::string fault = include_fault(path, include.path, include.quoted);
    if (!fault.empty()) report(include.line, include.path + " " + fault);
  }
  if (path.starts_with("cli/")) return faults;
  std::istringstream code_lines(test::code_only(text));
  std::string code;
  for (int line = 1; std::getline(code_lines, code); ++line) {
    if (!names_any(code, kWords)) continue;
    if (std::regex_search(code, kPrints)) report(line, "only cli/ prints");
    if (std::regex_search(code, kExits)) report(line, "only cli/ ends the program");
  }
  return faults;
}

using Faults = std::vector<std::string>;

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("sources include only down the ladder and leave printing and exiting to cli") {
    const test::SourceTree tree = test::read_sources(test::source_path());
    CHECK_FALSE(tree.empty());
    for (const auto& [path, text] : tree) {
      for (const std::string& fault : check_source(path, text))
        FAIL_CHECK(fault);
    }
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

  TEST_CASE("the ladder check keeps plots and scenarios apart") {
    CHECK(check_source("scenarios/results/a.cpp", "#include \"plots/csv.hpp\"\n").size() == 1);
    CHECK(check_source("plots/a.cpp", "#include \"scenarios/simulate.hpp\"\n").size() == 1);
    CHECK(check_source("cli/output/a.cpp",
                       "#include \"plots/csv.hpp\"\n#include \"scenarios/simulate.hpp\"\n")
              .empty());
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
