#include "cli/text/figure_unit.hpp"

#include <string>
#include <vector>

namespace tidemark {

FigureUnit unit_of(std::string_view figure) {
  const std::string_view last = figure.substr(figure.rfind('.') + 1);
  if (figure.starts_with("hardware."))
    return last == "capacity" || last == "memory" ? FigureUnit::kBytes : FigureUnit::kNone;
  if (figure == "memory.peak.time") return FigureUnit::kSeconds;
  const bool counts = figure.starts_with("memory.allocator.") || figure == "memory.peak.step";
  if (figure.starts_with("memory.")) return counts ? FigureUnit::kNone : FigureUnit::kBytes;
  const bool share = last == "hidden_transfer_share" || figure.starts_with("time.breakdown.");
  return figure.starts_with("time.") && !share ? FigureUnit::kSeconds : FigureUnit::kNone;
}

FigureUnit unit_of(const Expression& expression) {
  const std::vector<std::string>& names = expression.names();
  const std::string& text = expression.text();
  const bool compares = text.find_first_of("<>") != std::string::npos;
  if (names.empty() || names.size() > (compares ? 2 : 1) || text.find('/') != std::string::npos)
    return FigureUnit::kNone;
  const FigureUnit unit = unit_of(std::string_view(names.front()));
  return unit_of(std::string_view(names.back())) == unit ? unit : FigureUnit::kNone;
}

}  // namespace tidemark
