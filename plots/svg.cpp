#include "plots/svg.hpp"

#include <cmath>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "plots/svg_writer.hpp"

namespace tidemark {

SvgWriter::SvgWriter(const SvgChart& chart) : chart_(chart) {
  const auto is_range = [](const SvgAxis& axis) {
    return std::isfinite(axis.begin) && std::isfinite(axis.end) && axis.begin < axis.end;
  };
  if (!is_range(chart.x) || !is_range(chart.y)) throw InternalError("an axis of a chart is empty");
  for (const SvgArea& area : chart.areas) {
    if (area.heights.size() + 1 != chart.column_edges.size()) {
      throw InternalError(fmt::format("area '{}' of a chart has {} columns instead of {}",
                                      area.label, area.heights.size(),
                                      chart.column_edges.size() - 1));
    }
  }
  measure();
  labels_ = SvgLabels({left_, top_, right(), bottom()});
}

std::string SvgWriter::text() {
  titles();
  bands();
  axes();
  areas();
  put("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#000\"/>\n", left_, top_,
      bottom(), right());
  lines();
  marks();
  for (const SvgGuide& guide : chart_.guides)
    labels_.keep_off(left_, y_of(guide.y), right(), y_of(guide.y));
  mark_labels();
  guides();
  legend();
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"{2}\" role=\"img\">\n<title>{3}</title>\n"
      "<defs>\n<clipPath id=\"plot\"><rect x=\"{4:.1f}\" y=\"{5:.1f}\" width=\"{6:g}\" "
      "height=\"{7:g}\"/></clipPath>\n{8}</defs>\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n{9}</svg>\n",
      width_, height_, kFonts, xml_text(chart_.title), left_, top_ - 1, chart_.plot_width + 1,
      chart_.plot_height + 2, definitions_, body_);
}

void write_svg(std::ostream& out, const SvgChart& chart) {
  out << SvgWriter(chart).text();
}

}  // namespace tidemark
