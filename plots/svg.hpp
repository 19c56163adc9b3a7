// Charts for papers, as SVG or PDF.
//
//   title
//     GiB          | forward  | backward      | opt |          phases of bands
//    80 |- - - - - - - - - - - - - - capacity 80 GiB           [#] saved activations
//    40 |        /\ peak 62.1 GiB                              [/] gradients
//     0 |_______/__\___________________                        [ ] parameters
//          0     100    200 ms
//
// Legible without colour: areas differ in lightness and hatching, lines in dashes and marks. No
// text covers another: labels of points look for a free place around them.
#pragma once

#include <ostream>

#include "plots/svg_chart.hpp"

namespace tidemark {

// Places the parts of a chart. Throws InternalError when the columns of areas differ in number or
// an axis is empty.
[[nodiscard]] Drawing draw(const SvgChart& chart);
// Draws a chart and writes it as SVG.
void write_svg(std::ostream& out, const SvgChart& chart);

}  // namespace tidemark
