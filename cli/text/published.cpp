#include "cli/text/published.hpp"

#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "scenarios/read/published.hpp"

namespace tidemark {

std::vector<std::string> published_of(std::span<const Value> documents) {
  std::vector<std::string> lines;
  for (const Value& document : documents) {
    for (std::string& line : published_lines(document))
      lines.push_back(std::move(line));
  }
  return lines;
}

std::string published_text(const std::vector<std::string>& lines, bool colour) {
  if (lines.empty()) return {};
  std::string text = '\n' + bold("published", colour) + '\n';
  for (const std::string& line : lines)
    text += "  " + printable(line) + '\n';
  return text;
}

}  // namespace tidemark
