// The content of a chart for papers: stacked areas, lines, steps and labelled points over two axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plots/axis_scale.hpp"
#include "plots/drawing/drawing.hpp"

namespace tidemark {

enum class MarkShape : std::uint8_t {
  kNone,
  kCircle,
  kSquare,
  kTriangle,
  kDiamond,
  kDownTriangle,
  kPlus,
  kHexagon,
  kCross
};

struct SvgPoint {
  double x = 0;
  double y = 0;
};

struct SvgAxis {
  std::string title;  // title without the unit, which is added
  AxisUnit unit = AxisUnit::kNumber;
  double begin = 0;
  double end = 1;
  std::vector<std::string> words;     // labels at 0, 1, 2, ... in place of numbers; none: numbers
  std::optional<double> ticks_until;  // last value with ticks; none: the end of the axis
};

// A layer of the stack: its heights, one per column of SvgChart::column_edges. Without heights it
// is only the ink of rectangles.
struct SvgArea {
  std::string label;
  std::uint32_t rgb = 0;
  Hatch hatch = Hatch::kNone;
  std::vector<double> heights;
};

// A part of the plot in the ink of an area.
struct SvgRectangle {
  std::size_t area = 0;  // index in SvgChart::areas
  double begin = 0;      // range on the x axis
  double end = 0;
  double low = 0;  // range on the y axis
  double high = 0;
};

struct SvgLine {
  std::string label;             // shown in the legend; empty: not shown
  std::vector<SvgPoint> points;  // ascending in x
  bool steps = false;            // the value holds until the next point
  std::uint32_t rgb = 0;
  Dash dash = Dash::kSolid;
  MarkShape mark = MarkShape::kNone;  // mark at each point
  double width = 1.6;                 // pixels
};

struct SvgMark {
  SvgPoint at;
  std::string label;        // shown next to it; empty: none
  std::string short_label;  // shown where the label has no room
  std::string legend;       // shown in the legend; empty: not shown
  MarkShape shape = MarkShape::kCircle;
  bool hollow = false;
  std::uint32_t rgb = 0;
};

// A horizontal line across the whole plot.
struct SvgGuide {
  double y = 0;
  std::string label;
  std::uint32_t rgb = 0;
  Dash dash = Dash::kLong;
};

// An interval of x, named above the plot. Every other one is shaded.
struct SvgBand {
  double begin = 0;
  double end = 0;
  std::string label;
  // shown where the label has no room; where this has none either, nothing is shown
  std::string short_label;
};

struct SvgChart {
  std::string title;
  std::string subtitle;
  SvgAxis x;
  SvgAxis y;
  std::vector<SvgBand> bands;
  std::vector<double> column_edges;      // one more than columns, ascending
  std::vector<SvgArea> areas;            // bottom first
  std::vector<SvgRectangle> rectangles;  // those of later areas lie over those of earlier ones
  std::vector<SvgLine> lines;
  std::vector<SvgGuide> guides;
  std::vector<SvgMark> marks;
  std::vector<std::string> notes;  // shown under the legend
  std::string reproduce;           // shown below the plot: how to make the picture again
  double plot_width = 600;         // pixels of the plotting area
  double plot_height = 300;
};

// Leaves out points that a pixel cannot show: in each of `pixels` parts of [begin, end] the lowest
// and the highest point stay, in their order; on a line of steps only the highest, since a step is
// two points. The first and the last point stay.
[[nodiscard]] std::vector<SvgPoint> thin_line(const std::vector<SvgPoint>& points, bool steps,
                                              double begin, double end, std::size_t pixels);

// Inks for the lines of a comparison, one after the other: neighbours differ in lightness, dash and
// mark, and no two of the first kLineInks have both colour and mark in common.
inline constexpr std::size_t kLineInks = 56;
struct LineInk {
  std::uint32_t rgb = 0;
  Dash dash = Dash::kSolid;
  MarkShape mark = MarkShape::kNone;
};
[[nodiscard]] LineInk line_ink(std::size_t index);

}  // namespace tidemark
