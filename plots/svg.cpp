#include "plots/svg.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "plots/drawing/svg_file.hpp"
#include "plots/svg_writer.hpp"

namespace tidemark {

SvgWriter::SvgWriter(const SvgChart& chart) : chart_(chart) {
  const auto is_range = [](const SvgAxis& axis) {
    return std::isfinite(axis.begin) && std::isfinite(axis.end) && axis.begin < axis.end;
  };
  if (!is_range(chart.x) || !is_range(chart.y)) throw InternalError("an axis of a chart is empty");
  for (const SvgArea& area : chart.areas) {
    if (!area.heights.empty() && area.heights.size() + 1 != chart.column_edges.size()) {
      throw InternalError(fmt::format("area '{}' of a chart has {} columns instead of {}",
                                      area.label, area.heights.size(),
                                      chart.column_edges.size() - 1));
    }
  }
  measure();
  labels_ = SvgLabels({left_, top_, right(), bottom()});
}

Drawing SvgWriter::drawing() {
  drawing_.width = width_;
  drawing_.height = height_;
  drawing_.title = chart_.title;
  drawing_.description = chart_.reproduce;
  drawing_.clip = {left_, top_ - 1, right() + 1, bottom() + 1};
  titles();
  bands();
  axes();
  areas();
  rectangles();
  path({{PathStep::Kind::kMove, left_, top_},
        {PathStep::Kind::kLine, left_, bottom()},
        {PathStep::Kind::kLine, right(), bottom()}},
       {.stroke = 0x000000});
  lines();
  marks();
  for (const SvgGuide& guide : chart_.guides)
    labels_.keep_off(left_, y_of(guide.y), right(), y_of(guide.y));
  mark_labels();
  guides();
  legend();
  footer();
  return std::move(drawing_);
}

Drawing draw(const SvgChart& chart) {
  return SvgWriter(chart).drawing();
}

void write_svg(std::ostream& out, const SvgChart& chart) {
  write_svg(out, draw(chart));
}

}  // namespace tidemark
