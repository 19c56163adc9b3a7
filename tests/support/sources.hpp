// The sources of the repository as texts, and the code in them.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::test {

// The folders of the ladder, the lowest first.
inline constexpr std::array<std::string_view, 7> kLadder = {
    "graph", "hwprofiles", "policies", "sim", "plots", "scenarios", "cli"};

// Texts of files by their path from the repository's root.
using SourceTree = std::map<std::string, std::string>;

// Returns the text with comments and the inside of literals blanked; lines keep their places.
std::string code_only(std::string_view text);

struct Include {
  int line = 0;
  std::string path;  // as it is written
  bool quoted = false;
};

// Returns the includes of one text, except those in comments.
std::vector<Include> includes_of(const std::string& text);

// Reads every .hpp and .cpp of the ladder's folders under `root`.
SourceTree read_sources(const std::filesystem::path& root);

}  // namespace tidemark::test
