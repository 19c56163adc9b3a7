#include "tests/support/sources.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tidemark::test {

namespace {

// Returns the position just past the token that begins at `start`: a comment, a literal or one
// character.
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

}  // namespace

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

std::vector<Include> includes_of(const std::string& text) {
  std::vector<Include> includes;
  std::istringstream raw_lines(text);
  std::istringstream code_lines(code_only(text));
  std::string raw;
  std::string code;
  for (int line = 1; std::getline(raw_lines, raw) && std::getline(code_lines, code); ++line) {
    // `raw` still has the name that code_only() blanked; `code` tells whether the line is code.
    const std::size_t hash = code.find_first_not_of(' ');
    if (hash == std::string::npos || code[hash] != '#') continue;
    const std::size_t word = raw.find_first_not_of(' ', hash + 1);
    if (word == std::string::npos || raw.compare(word, 7, "include") != 0) continue;
    const std::size_t open = raw.find_first_of("\"<", word + 7);
    const std::size_t close = raw.find_first_of("\">", open + 1);
    if (open == std::string::npos || close == std::string::npos) continue;
    includes.push_back(
        {.line = line, .path = raw.substr(open + 1, close - open - 1), .quoted = raw[open] == '"'});
  }
  return includes;
}

SourceTree read_sources(const std::filesystem::path& root) {
  SourceTree tree;
  for (const std::string_view layer : kLadder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / layer)) {
      const std::filesystem::path extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      tree.emplace(entry.path().lexically_relative(root).generic_string(),
                   std::string(std::istreambuf_iterator<char>(file), {}));
    }
  }
  return tree;
}

}  // namespace tidemark::test
