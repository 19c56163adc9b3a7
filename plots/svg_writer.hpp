// A chart that is being drawn: the places of its parts, and what is drawn so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plots/axis_scale.hpp"
#include "plots/drawing/drawing.hpp"
#include "plots/svg_chart.hpp"
#include "plots/svg_labels.hpp"
#include "plots/svg_marks.hpp"

namespace tidemark {

class SvgWriter {
 public:
  explicit SvgWriter(const SvgChart& chart);
  [[nodiscard]] Drawing drawing();

 private:
  static constexpr double kFont = 12;  // pixels
  static constexpr double kSmallFont = 11;
  static constexpr double kTitleFont = 15;
  static constexpr double kFooterFont = 9;
  // Width of a character over the font's size, in the widest of the fonts of the SVG file (DejaVu
  // Sans).
  static constexpr double kAdvance = 0.62;
  static constexpr double kLine = 1.35;  // distance of lines over the font's size
  static constexpr double kLeft = 64;    // room left of the plot, for the axis' numbers
  static constexpr double kBelow = 46;
  static constexpr double kWordGap = 8;  // room between words on an axis
  static constexpr double kGap = 18;     // room between plot and legend
  static constexpr double kSwatch = 22;  // width of a sample of ink
  // Note that is shown where marks share a label or have none.
  static constexpr std::string_view kUnnamed = "all names: in the CSV of this chart";
  static constexpr double kMargin = 10;

  // Returns the room that a text takes in the widest of the fonts.
  [[nodiscard]] static double text_width(std::string_view text, double font);

  void path(std::vector<PathStep> steps, const DrawnInk& ink, bool clipped = false) {
    drawing_.items.emplace_back(DrawnPath{std::move(steps), ink, clipped});
  }
  void stroke(double x0, double y0, double x1, double y1, const DrawnInk& ink) {
    path({{PathStep::Kind::kMove, x0, y0}, {PathStep::Kind::kLine, x1, y1}}, ink);
  }
  // Returns the outline of a rectangle.
  [[nodiscard]] static std::vector<PathStep> outline_of(double x, double y, double width,
                                                        double height);
  void rectangle(double x, double y, double width, double height, const DrawnInk& ink) {
    path(outline_of(x, y, width, height), ink);
  }
  [[nodiscard]] double x_of(double value) const {
    return left_ + (value - chart_.x.begin) / (chart_.x.end - chart_.x.begin) * chart_.plot_width;
  }
  [[nodiscard]] double y_of(double value) const {
    return top_ +
           chart_.plot_height * (1 - (value - chart_.y.begin) / (chart_.y.end - chart_.y.begin));
  }
  [[nodiscard]] double right() const { return left_ + chart_.plot_width; }
  [[nodiscard]] double bottom() const { return top_ + chart_.plot_height; }

  [[nodiscard]] static AxisTicks word_ticks(const std::vector<std::string>& words);
  void break_x_labels();
  void measure();
  struct LabelStyle {
    TextAnchor anchor = TextAnchor::kStart;
    double font = kFont;
    bool halo = false;
    bool bold = false;
    std::uint32_t rgb = 0;
  };
  void label(double x, double y, std::string_view words, const LabelStyle& style);
  void titles();
  void bands();
  void axes();
  void areas();
  void rectangles();
  void area_edge(std::vector<PathStep>& steps, const std::vector<double>& heights, bool forwards);
  [[nodiscard]] DrawnInk area_ink(const SvgArea& area);
  void keep_labels_off_areas(const std::vector<double>& upper);
  void lines();
  void guides();
  void marks();
  void mark_labels();
  void legend();
  void footer();
  void polyline(const SvgLine& line);
  void mark(double x, double y, MarkShape shape, std::uint32_t rgb, bool hollow);
  [[nodiscard]] bool place(double x, double y, std::string_view words, bool off_strokes);

  const SvgChart& chart_;
  Drawing drawing_;
  std::vector<DrawnInk> area_inks_;
  SvgLabels labels_{SvgBox{}};
  std::vector<std::string> title_lines_, subtitle_lines_, footer_lines_;
  AxisTicks x_ticks_, y_ticks_;
  std::vector<std::vector<std::string>> x_labels_;  // lines of each tick's label
  double below_ = kBelow;                           // room below the plot
  double left_ = kLeft, top_ = 0, width_ = 0, height_ = 0;
  double legend_height_ = 0;
  bool unnamed_ = false;  // some mark has no label of its own
};

}  // namespace tidemark
