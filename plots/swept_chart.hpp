// A figure of many points over a key of their sweep.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "plots/svg_chart.hpp"

namespace tidemark {

struct SweptValue {
  std::string line;         // text that the points of a line have in common
  double x = 0;             // value of the key, or the place of its words in SweptAxes::x_words
  std::optional<double> y;  // none: the point has no such figure
  bool fits = true;
};

struct SweptAxes {
  std::string title;
  std::string x;  // names of key and figure
  std::string y;
  AxisUnit x_unit = AxisUnit::kNumber;
  AxisUnit y_unit = AxisUnit::kNumber;
  std::vector<std::string> x_words;  // values of a key that is no number; none: numbers
  std::string note;                  // shown below the legend; empty: none
  Bytes capacity;                    // device memory, drawn as a line across; 0: none
};

// Returns a line for each group of points, in the order of first appearance; points that do not fit
// are crosses, as they would be with enough memory.
[[nodiscard]] SvgChart swept_chart(const SweptAxes& axes, const std::vector<SweptValue>& values);
// Writes the columns line, x, y (empty where unknown) and fits; x and y are named by their axes.
void write_swept_csv(std::ostream& out, const SweptAxes& axes,
                     const std::vector<SweptValue>& values);

}  // namespace tidemark
