// A chart that is being written: the places of its parts, and the SVG text so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plots/axis_scale.hpp"
#include "plots/svg_chart.hpp"
#include "plots/svg_labels.hpp"
#include "plots/svg_marks.hpp"

namespace tidemark {

class SvgWriter {
 public:
  explicit SvgWriter(const SvgChart& chart);
  [[nodiscard]] std::string text();

 private:
  static constexpr double kFont = 12;  // pixels
  static constexpr double kSmallFont = 11;
  static constexpr double kTitleFont = 15;
  // Width of a character over the font's size, in the widest of the fonts below (DejaVu Sans).
  static constexpr double kAdvance = 0.62;
  static constexpr double kLine = 1.35;  // distance of lines over the font's size
  static constexpr double kLeft = 64;    // room left of the plot, for the axis' numbers
  static constexpr double kBelow = 46;
  static constexpr double kGap = 18;     // room between plot and legend
  static constexpr double kSwatch = 22;  // width of a sample of ink
  // Note that is shown where marks share a label or have none.
  static constexpr std::string_view kUnnamed = "all names: in the CSV of this chart";
  static constexpr double kMargin = 10;
  static constexpr std::string_view kFonts =
      "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

  // Returns the room that a text takes in the widest of the fonts named above.
  [[nodiscard]] static double text_width(std::string_view text, double font);

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
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

  void measure();
  void label(double x, double y, std::string_view words, std::string_view anchor, double font,
             bool halo = false, bool strong = false);
  void titles();
  void bands();
  void axes();
  void areas();
  void area_edge(const std::vector<double>& heights, bool forwards);
  void keep_labels_off_areas(const std::vector<double>& upper);
  void lines();
  void guides();
  void marks();
  void mark_labels();
  void legend();
  void polyline(const SvgLine& line);
  void stroke(std::uint32_t rgb, double width, Dash dash);
  void mark(double x, double y, MarkShape shape, std::uint32_t rgb, bool hollow) {
    body_ += mark_ink(x, y, shape, rgb, hollow);
  }
  void pattern(std::size_t index, const SvgArea& area);
  [[nodiscard]] bool place(double x, double y, std::string_view words, bool off_strokes);

  const SvgChart& chart_;
  std::string body_;
  std::string definitions_;
  SvgLabels labels_{SvgBox{}};
  std::vector<std::string> title_lines_, subtitle_lines_;
  AxisTicks x_ticks_, y_ticks_;
  double left_ = kLeft, top_ = 0, width_ = 0, height_ = 0;
  double legend_height_ = 0;
  bool unnamed_ = false;  // some mark has no label of its own
};

}  // namespace tidemark
