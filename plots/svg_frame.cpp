// Draws the frame around the plot of an SVG chart: titles, phases, axes, legend.
#include <algorithm>

#include "plots/svg_writer.hpp"
#include "plots/table.hpp"

namespace tidemark {

double SvgWriter::text_width(std::string_view text, double font) {
  return static_cast<double>(display_width(text)) * font * kAdvance;
}

// Sets the margins from the texts and numbers in them.
void SvgWriter::measure() {
  const auto until = [](const SvgAxis& axis) {
    return axis.ticks_until > axis.begin ? axis.ticks_until : axis.end;
  };
  x_ticks_ = round_ticks(chart_.x.begin, until(chart_.x), chart_.x.unit,
                         static_cast<std::size_t>(std::max(2.0, chart_.plot_width / 70)));
  y_ticks_ = round_ticks(chart_.y.begin, until(chart_.y), chart_.y.unit,
                         static_cast<std::size_t>(std::max(2.0, chart_.plot_height / 36)));
  double legend = 0;
  std::size_t entries = 0;
  const auto entry = [&](const std::string& words) {
    if (words.empty()) return;
    legend = std::max(legend, kSwatch + 6 + text_width(words, kFont));
    ++entries;
  };
  for (const SvgArea& area : chart_.areas)
    entry(area.label);
  for (const SvgLine& line : chart_.lines)
    entry(line.label);
  for (const SvgMark& mark : chart_.marks)
    entry(mark.legend);
  const auto note = [&](std::string_view words) {
    legend = std::max(legend, text_width(words, kSmallFont));
    ++entries;
  };
  for (const std::string& words : chart_.notes)
    note(words);
  const auto labelled = std::count_if(chart_.marks.begin(), chart_.marks.end(),
                                      [](const SvgMark& mark) { return !mark.label.empty(); });
  if (labelled > 1) note(kUnnamed);
  legend_height_ = static_cast<double>(entries) * kFont * kLine;
  width_ = left_ + chart_.plot_width + (legend > 0 ? kGap + legend : 0) + kMargin;
  const auto characters = [&](double font) {
    return static_cast<std::size_t>((width_ - 2 * kMargin) / (font * kAdvance));
  };
  if (!chart_.title.empty()) title_lines_ = wrap(chart_.title, characters(kTitleFont));
  if (!chart_.subtitle.empty()) subtitle_lines_ = wrap(chart_.subtitle, characters(kSmallFont));
  top_ = kMargin + static_cast<double>(title_lines_.size()) * kTitleFont * kLine +
         static_cast<double>(subtitle_lines_.size()) * kSmallFont * kLine +
         (chart_.bands.empty() ? 0 : kSmallFont * kLine) + kFont * kLine + 10;
  height_ = top_ + std::max(chart_.plot_height, legend_height_) + kBelow;
}

void SvgWriter::label(double x, double y, std::string_view words, std::string_view anchor,
                      double font, bool halo, bool strong) {
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"", x, y, font);
  if (anchor != "start") put(" text-anchor=\"{}\"", anchor);
  if (strong) put(" font-weight=\"bold\"");
  if (halo)
    put(" stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"");
  put(">{}</text>\n", xml_text(words));
  const double length = text_width(words, font);
  const double begin = anchor == "end" ? x - length : anchor == "middle" ? x - length / 2 : x;
  labels_.take({begin, y - font * 0.85, begin + length, y + font * 0.3});
}

void SvgWriter::titles() {
  double y = kMargin;
  for (const std::string& line : title_lines_)
    label(kMargin, (y += kTitleFont * kLine) - 4, line, "start", kTitleFont, false, true);
  for (const std::string& line : subtitle_lines_)
    label(kMargin, (y += kSmallFont * kLine) - 3, line, "start", kSmallFont);
}

void SvgWriter::bands() {
  bool shaded = false;
  for (const SvgBand& band : chart_.bands) {
    const double begin = std::clamp(x_of(band.begin), left_, right());
    const double end = std::clamp(x_of(band.end), left_, right());
    if (shaded) {
      put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#eee\"/>\n",
          begin, top_ - kSmallFont * kLine, end - begin, chart_.plot_height + kSmallFont * kLine);
    }
    shaded = !shaded;
    bool named = false;
    for (const std::string& words : {band.label, band.short_label}) {
      if (words.empty() || text_width(words, kSmallFont) + 6 > end - begin) continue;
      label((begin + end) / 2, top_ - 5, words, "middle", kSmallFont);
      named = true;
      break;
    }
    // The last band may use the margin.
    if (!named && &band == &chart_.bands.back() &&
        begin + 3 + text_width(band.label, kSmallFont) < width_) {
      label(begin + 3, top_ - 5, band.label, "start", kSmallFont);
    }
  }
}

void SvgWriter::axes() {
  const auto titled = [](const std::string& title, const std::string& unit) {
    return unit.empty() ? title : title.empty() ? unit : fmt::format("{} ({})", title, unit);
  };
  for (std::size_t i = 0; i < y_ticks_.at.size(); ++i) {
    const double y = y_of(y_ticks_.at[i]);
    put("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ccc\" stroke-width=\"0.6\"/>\n", left_, y,
        right());
    label(left_ - 7, y + 4, y_ticks_.labels[i], "end", kFont);
  }
  for (std::size_t i = 0; i < x_ticks_.at.size(); ++i) {
    const double x = x_of(x_ticks_.at[i]);
    put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#000\"/>\n", x, bottom());
    label(x, bottom() + 18, x_ticks_.labels[i], "middle", kFont);
  }
  label((left_ + right()) / 2, bottom() + 37, titled(chart_.x.title, x_ticks_.unit), "middle",
        kFont);
  const double above = top_ - (chart_.bands.empty() ? 0 : kSmallFont * kLine);
  label(kMargin, above - 12, titled(chart_.y.title, y_ticks_.unit), "start", kFont);
}

void SvgWriter::legend() {
  const double x = right() + kGap;
  double y = top_ + kFont * 0.5;
  const auto entry = [&](const std::string& words) {
    label(x + kSwatch + 6, y + kFont * 0.35, words, "start", kFont);
    y += kFont * kLine;
  };
  for (std::size_t a = chart_.areas.size(); a-- > 0;) {  // in the order of the stack
    const SvgArea& area = chart_.areas[a];
    if (area.label.empty()) continue;
    put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"11\" stroke=\"#444\" "
        "stroke-width=\"0.5\" fill=\"{}\"/>\n",
        x, y - 5.5, kSwatch,
        area.hatch != Hatch::kNone ? fmt::format("url(#a{})", a)
                                   : fmt::format("#{:06x}", area.rgb));
    entry(area.label);
  }
  for (const SvgLine& line : chart_.lines) {
    if (line.label.empty()) continue;
    put("<path d=\"M{:.1f} {:.1f}h{:g}\"", x, y, kSwatch);
    stroke(line.rgb, 1.6, line.dash);
    put("/>\n");
    mark(x + kSwatch / 2, y, line.mark, line.rgb, false);
    entry(line.label);
  }
  for (const SvgMark& point : chart_.marks) {
    if (point.legend.empty()) continue;
    mark(x + kSwatch / 2, y, point.shape, point.rgb, point.hollow);
    entry(point.legend);
  }
  const auto note = [&](std::string_view words) {
    label(x, y + kFont * 0.35, words, "start", kSmallFont);
    y += kFont * kLine;
  };
  for (const std::string& words : chart_.notes)
    note(words);
  if (unnamed_) note(kUnnamed);
}

}  // namespace tidemark
