#include "scenarios/read/figure_unit.hpp"

#include <algorithm>

namespace tidemark {

FigureUnit unit_of(std::string_view figure) {
  if (figure.starts_with("ranks.")) {  // ranks.0.memory.peak_live is memory.peak_live of a stage
    figure.remove_prefix(std::min(figure.find('.', 6), figure.size() - 1) + 1);
  }
  const std::string_view last = figure.substr(figure.rfind('.') + 1);
  if (figure.starts_with("hardware."))
    return last == "capacity" || last == "memory" ? FigureUnit::kBytes : FigureUnit::kNone;
  if (figure == "memory.peak.time") return FigureUnit::kSeconds;
  const bool counts = figure.starts_with("memory.allocator.") || figure == "memory.peak.step";
  if (figure.starts_with("memory.")) return counts ? FigureUnit::kNone : FigureUnit::kBytes;
  const bool share = last == "hidden_transfer_share" || figure.starts_with("time.breakdown.");
  return figure.starts_with("time.") && !share ? FigureUnit::kSeconds : FigureUnit::kNone;
}

}  // namespace tidemark
