// Draws the frame around the plot of an SVG chart: titles, phases, axes, legend.
#include <algorithm>

#include <fmt/format.h>

#include "plots/svg_writer.hpp"
#include "plots/table.hpp"

namespace tidemark {

double SvgWriter::text_width(std::string_view text, double font) {
  return static_cast<double>(display_width(text)) * font * kAdvance;
}

// Returns a tick for each word of an axis of words.
AxisTicks SvgWriter::word_ticks(const std::vector<std::string>& words) {
  AxisTicks ticks;
  for (const std::string& word : words) {
    ticks.at.push_back(static_cast<double>(ticks.at.size()));
    ticks.labels.push_back(word);
  }
  return ticks;
}

// Breaks the labels of an axis of words into lines that fit between their neighbours.
void SvgWriter::break_x_labels() {
  const double slot =
      chart_.plot_width / static_cast<double>(std::max<std::size_t>(chart_.x.words.size(), 1));
  const auto characters = static_cast<std::size_t>((slot - kWordGap) / (kFont * kAdvance));
  std::size_t most = 1;
  for (const std::string& words : x_ticks_.labels) {
    x_labels_.push_back(chart_.x.words.empty() ? std::vector{words} : wrap(words, characters));
    most = std::max(most, x_labels_.back().size());
  }
  below_ = kBelow + static_cast<double>(most - 1) * kFont * kLine;
}

// Sets the margins from the texts and numbers in them.
void SvgWriter::measure() {
  const auto until = [](const SvgAxis& axis) { return axis.ticks_until.value_or(axis.end); };
  x_ticks_ = round_ticks(chart_.x.begin, until(chart_.x), chart_.x.unit,
                         static_cast<std::size_t>(std::max(2.0, chart_.plot_width / 70)));
  if (!chart_.x.words.empty()) x_ticks_ = word_ticks(chart_.x.words);
  break_x_labels();
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
  if (!chart_.reproduce.empty()) footer_lines_ = wrap(chart_.reproduce, characters(kFooterFont));
  top_ = kMargin + static_cast<double>(title_lines_.size()) * kTitleFont * kLine +
         static_cast<double>(subtitle_lines_.size()) * kSmallFont * kLine +
         (chart_.bands.empty() ? 0 : kSmallFont * kLine) + kFont * kLine + 10;
  height_ = top_ + std::max(chart_.plot_height + below_, legend_height_ + kMargin) +
            static_cast<double>(footer_lines_.size()) * kFooterFont * kLine;
}

std::vector<PathStep> SvgWriter::outline_of(double x, double y, double width, double height) {
  return {{PathStep::Kind::kMove, x, y},
          {PathStep::Kind::kLine, x + width, y},
          {PathStep::Kind::kLine, x + width, y + height},
          {PathStep::Kind::kLine, x, y + height},
          {PathStep::Kind::kClose}};
}

void SvgWriter::label(double x, double y, std::string_view words, const LabelStyle& style) {
  drawing_.items.emplace_back(DrawnText{.x = x,
                                        .y = y,
                                        .words = std::string(words),
                                        .font = style.font,
                                        .anchor = style.anchor,
                                        .bold = style.bold,
                                        .halo = style.halo,
                                        .rgb = style.rgb});
  const double length = text_width(words, style.font);
  const double begin = style.anchor == TextAnchor::kEnd      ? x - length
                       : style.anchor == TextAnchor::kMiddle ? x - length / 2
                                                             : x;
  labels_.take({begin, y - style.font * 0.85, begin + length, y + style.font * 0.3});
}

void SvgWriter::titles() {
  double y = kMargin;
  for (const std::string& line : title_lines_)
    label(kMargin, (y += kTitleFont * kLine) - 4, line, {.font = kTitleFont, .bold = true});
  for (const std::string& line : subtitle_lines_)
    label(kMargin, (y += kSmallFont * kLine) - 3, line, {.font = kSmallFont});
}

void SvgWriter::footer() {
  double y = height_ - static_cast<double>(footer_lines_.size()) * kFooterFont * kLine;
  for (const std::string& line : footer_lines_)
    label(kMargin, (y += kFooterFont * kLine) - 6, line, {.font = kFooterFont, .rgb = 0x666666});
}

// Names each band between its edges; where a name has no room there, the last band's stands at the
// end of the frame, over the band before it.
void SvgWriter::bands() {
  bool shaded = false;
  for (const SvgBand& band : chart_.bands) {
    const double begin = std::clamp(x_of(band.begin), left_, right());
    const double end = std::clamp(x_of(band.end), left_, right());
    if (shaded) {
      rectangle(begin, top_ - kSmallFont * kLine, end - begin,
                chart_.plot_height + kSmallFont * kLine, {.fill = 0xeeeeee});
    }
    shaded = !shaded;
  }
  for (const SvgBand& band : chart_.bands) {
    const double begin = std::clamp(x_of(band.begin), left_, right());
    const double end = std::clamp(x_of(band.end), left_, right());
    bool named = false;
    for (const std::string& words : {band.label, band.short_label}) {
      if (words.empty() || named || text_width(words, kSmallFont) + 6 > end - begin) continue;
      label((begin + end) / 2, top_ - 5, words,
            {.anchor = TextAnchor::kMiddle, .font = kSmallFont});
      named = true;
    }
    if (named || &band != &chart_.bands.back() || band.short_label.empty()) continue;
    const SvgBox box{right() - text_width(band.short_label, kSmallFont) - 6, top_ - 5 - kSmallFont,
                     right(), top_ - 3};
    if (box.left > left_ && !labels_.takes(box))
      label(right(), top_ - 5, band.short_label, {.anchor = TextAnchor::kEnd, .font = kSmallFont});
  }
}

void SvgWriter::axes() {
  const auto titled = [](const std::string& title, const std::string& unit) {
    return unit.empty() ? title : title.empty() ? unit : fmt::format("{} ({})", title, unit);
  };
  for (std::size_t i = 0; i < y_ticks_.at.size(); ++i) {
    const double y = y_of(y_ticks_.at[i]);
    stroke(left_, y, right(), y, {.stroke = 0xcccccc, .width = 0.6});
    label(left_ - 7, y + 4, y_ticks_.labels[i], {.anchor = TextAnchor::kEnd});
  }
  for (std::size_t i = 0; i < x_ticks_.at.size(); ++i) {
    const double x = x_of(x_ticks_.at[i]);
    stroke(x, bottom(), x, bottom() + 5, {.stroke = 0x000000});
    double y = bottom() + 18;
    for (const std::string& line : x_labels_[i]) {
      label(x, y, line, {.anchor = TextAnchor::kMiddle});
      y += kFont * kLine;
    }
  }
  label((left_ + right()) / 2, bottom() + below_ - 9, titled(chart_.x.title, x_ticks_.unit),
        {.anchor = TextAnchor::kMiddle});
  const double above = top_ - (chart_.bands.empty() ? 0 : kSmallFont * kLine);
  label(kMargin, above - 12, titled(chart_.y.title, y_ticks_.unit), {});
}

void SvgWriter::legend() {
  const double x = right() + kGap;
  double y = top_ + kFont * 0.5;
  const auto entry = [&](const std::string& words) {
    label(x + kSwatch + 6, y + kFont * 0.35, words, {});
    y += kFont * kLine;
  };
  for (std::size_t a = chart_.areas.size(); a-- > 0;) {  // in the order of the stack
    const SvgArea& area = chart_.areas[a];
    if (area.label.empty()) continue;
    DrawnInk ink = area_inks_[a];
    ink.stroke = 0x444444;
    ink.width = 0.5;
    rectangle(x, y - 5.5, kSwatch, 11, ink);
    entry(area.label);
  }
  for (const SvgLine& line : chart_.lines) {
    if (line.label.empty()) continue;
    stroke(x, y, x + kSwatch, y, {.stroke = line.rgb, .width = line.width, .dash = line.dash});
    mark(x + kSwatch / 2, y, line.mark, line.rgb, false);
    entry(line.label);
  }
  for (const SvgMark& point : chart_.marks) {
    if (point.legend.empty()) continue;
    mark(x + kSwatch / 2, y, point.shape, point.rgb, point.hollow);
    entry(point.legend);
  }
  const auto note = [&](std::string_view words) {
    label(x, y + kFont * 0.35, words, {.font = kSmallFont});
    y += kFont * kLine;
  };
  for (const std::string& words : chart_.notes)
    note(words);
  if (unnamed_) note(kUnnamed);
}

}  // namespace tidemark
