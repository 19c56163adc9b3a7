// Calls of std::filesystem throw its own errors unless they are given a std::error_code; these
// would end the program as a fault of Tidemark. Read from the sources.
#include <cctype>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/paths.hpp"
#include "tests/support/sources.hpp"

namespace tidemark::file_calls_test {

namespace {

// Returns the last argument of the call whose parenthesis opens at `open`.
std::string last_argument(const std::string& code, std::size_t open) {
  int depth = 0;
  std::string argument;
  for (std::size_t i = open; i < code.size(); ++i) {
    const char c = code[i];
    depth += c == '(' || c == '{' || c == '[' ? 1 : c == ')' || c == '}' || c == ']' ? -1 : 0;
    if (depth == 0) break;
    if (i == open || (c == ',' && depth == 1)) {
      argument.clear();
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      argument += c;
    }
  }
  return argument;
}

// Returns a line for each call that would throw.
std::vector<std::string> throwing_calls(const std::string& path, const std::string& text) {
  static const std::regex kCodes(R"(std::error_code\s*&?\s*(\w+))");
  static const std::regex kCalls(
      R"((?:\bfs|\bfilesystem)::((?:recursive_)?directory_iterator|absolute|canonical|)"
      R"(weakly_canonical|relative|proximate|copy\w*|create_\w+|current_path|equivalent|exists|)"
      R"(file_size|hard_link_count|is_\w+|last_write_time|permissions|read_symlink|remove\w*|)"
      R"(rename|resize_file|space|status|symlink_status|temp_directory_path)\b\s*\w*\s*\()");
  // A loop over a folder throws where it goes on.
  static const std::regex kLoops(
      R"(for \([^;(){}]*:\s*(?:std::)?(?:fs|filesystem)::(?:recursive_)?directory_iterator\()");
  // Every name of the file system is written with one of the two.
  if (text.find("fs::") == std::string::npos && text.find("filesystem::") == std::string::npos)
    return {};
  const std::string code = test::code_only(text);
  std::set<std::string> codes;
  for (std::sregex_iterator at(code.begin(), code.end(), kCodes), end; at != end; ++at)
    codes.insert((*at)[1]);
  std::vector<std::string> found;
  for (std::sregex_iterator at(code.begin(), code.end(), kCalls), end; at != end; ++at) {
    const auto place = static_cast<std::size_t>(at->position());
    const auto open = place + static_cast<std::size_t>(at->length()) - 1;
    if (!codes.contains(last_argument(code, open)))
      found.push_back(fmt::format("{}: {}", path, (*at)[1].str()));
  }
  for (std::sregex_iterator at(code.begin(), code.end(), kLoops), end; at != end; ++at)
    found.push_back(fmt::format("{}: a loop over a folder", path));
  return found;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the test of calls finds those that throw") {
    const auto count = [](const std::string& body) {
      return throwing_calls("a.cpp", "std::error_code error;\n" + body).size();
    };
    CHECK(count("if (std::filesystem::exists(path)) return;") == 1);
    CHECK(count("if (fs::exists(folder / (name + \"x\"))) return;") == 1);
    CHECK(count("if (std::filesystem::exists(path, error)) return;") == 0);
    CHECK(count("auto a = fs::absolute(folder / path.scalar).lexically_normal();") == 1);
    CHECK(count("auto a = fs::weakly_canonical(f(a, b),\n    error);") == 0);
    CHECK(count("for (fs::directory_iterator entry(folder, error), end; entry != end;)") == 0);
    CHECK(count("for (auto& e : std::filesystem::directory_iterator(folder, error)) {}") == 1);
    CHECK(count("// fs::exists(path)\nstd::filesystem::path(name).stem();") == 0);
  }

  TEST_CASE("no call of the file system throws its own errors") {
    for (const auto& [path, text] : test::read_sources(test::source_path())) {
      for (const std::string& call : throwing_calls(path, text))
        FAIL_CHECK(call);
    }
  }
}

}  // namespace tidemark::file_calls_test
