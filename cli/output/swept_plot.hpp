// Pictures of a figure over a swept key, as --plot asks for them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/output/output_folder.hpp"
#include "scenarios/read/expression.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// x=training.sequence,y=memory.device_used,by=hardware
struct PlotRequest {
  std::string x;           // a swept key; values that are no numbers are drawn in their order
  std::string by;          // a swept key whose values have a line each; empty: all others together
  Expression y;            // an expression of figures of the result document
  bool is_fitted = false;  // y is the key that `fit` maximizes: its value in each point is drawn
};

// Reads --plot, and holds it against the documents whose points are drawn. Throws UserError: keys
// that no sweep changes, figures that there are not. `fitted` is the key that `fit` maximizes,
// which is drawn where the text has no y; empty: there is none.
[[nodiscard]] PlotRequest parse_plot(const std::string& text, std::span<const Value> documents,
                                     const std::string& fitted = {});

// Adds STEM.svg, STEM.pdf and STEM.svg.csv: of a line's points at one x the best. Adds nothing and
// returns false where no point has the figure. `reproduce` is the line below the picture.
[[nodiscard]] bool add_swept_plot(OutputFolder& output, const std::string& stem,
                                  const PlotRequest& request, std::span<const PointResult> points,
                                  const std::string& reproduce);

}  // namespace tidemark
