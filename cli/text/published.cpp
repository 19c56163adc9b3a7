#include "cli/text/published.hpp"

#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"

namespace tidemark {

std::vector<std::string> published_of(std::span<const Value> documents) {
  std::vector<std::string> lines;
  for (const Value& document : documents) {
    const Value* published = document.find("published");
    if (published == nullptr) continue;
    for (const Value& line : published->items)
      lines.push_back(line.scalar);
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
