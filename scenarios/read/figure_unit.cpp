#include "scenarios/read/figure_unit.hpp"

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

}  // namespace tidemark
