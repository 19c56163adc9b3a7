#include "plots/pipeline_picture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "plots/axis_scale.hpp"
#include "plots/drawing/svg_file.hpp"

namespace tidemark {
namespace pipeline_picture_detail {
namespace {

constexpr double kRow = 26;  // pixels
constexpr double kBox = 20;
constexpr double kLeft = 64;
constexpr double kTop = 62;
constexpr double kWidth = 1000;
constexpr double kRight = 16;
constexpr double kBelow = 58;
constexpr double kDigit = 6.2;  // width of a digit of the boxes' numbers
constexpr std::string_view kFonts = "Helvetica, Arial, 'Liberation Sans', sans-serif";

struct PartStyle {
  std::string_view name;
  std::string_view fill;
  std::string_view second;  // of the chunks with odd numbers
  std::string_view ink;
};

// Lightness tells the kinds apart without colour.
const PartStyle& style_of(StageWork work) {
  static constexpr std::array<PartStyle, 3> kStyles{
      {{"forward", "#c9dff0", "#e3eef7", "#123"},
       {"backward", "#7fb3d8", "#a9cce6", "#012"},
       {"weight gradients", "#2a6ca8", "#4f8cc0", "#fff"}}};
  return kStyles[static_cast<std::size_t>(work)];
}

std::int64_t end_of(std::span<const StageResult> stages) {
  std::int64_t end = 1;
  for (const StageResult& stage : stages) {
    for (const StagePart& part : stage.parts)
      end = std::max(end, part.end.count());
  }
  return end;
}

void write_boxes(std::ostream& out, const StageResult& stage, double y, double scale) {
  for (const StagePart& part : stage.parts) {
    const PartStyle& style = style_of(part.work);
    const double x = kLeft + static_cast<double>(part.begin.count()) * scale;
    const double width =
        std::max(static_cast<double>((part.end - part.begin).count()) * scale, 0.3);
    out << fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:g}\" fill=\"{}\" "
        "stroke=\"#fff\" stroke-width=\"0.6\"/>\n",
        x, y, width, kBox, part.chunk % 2 == 0 ? style.fill : style.second);
    const std::string number = fmt::format("{}", part.micro_batch);
    if (static_cast<double>(number.size()) * kDigit + 2 > width) continue;
    out << fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" text-anchor=\"middle\" "
        "fill=\"{}\">{}</text>\n",
        x + width / 2, y + kBox / 2 + 3.5,
        part.chunk % 2 == 0 || part.work != StageWork::kWeightGradients ? style.ink : "#fff",
        number);
  }
}

void write_legend(std::ostream& out, std::span<const StageResult> stages, double y) {
  const auto is_done = [&](StageWork work) {
    return std::any_of(stages.begin(), stages.end(), [&](const StageResult& stage) {
      return std::any_of(stage.parts.begin(), stage.parts.end(),
                         [&](const StagePart& part) { return part.work == work; });
    });
  };
  double x = kLeft;
  for (const StageWork work : kStageWorks) {
    if (!is_done(work)) continue;
    const PartStyle& style = style_of(work);
    out << fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"12\" fill=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\">{}</text>\n",
        x, y - 10, style.fill, x + 21, y, style.name);
    x += 40 + static_cast<double>(style.name.size()) * 6.5;
  }
  out << fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\">blank: idle{}</text>\n", x,
                     y, stages.front().chunks.size() > 1 ? "; paler: chunks 1, 3, ..." : "");
}

}  // namespace
}  // namespace pipeline_picture_detail

void write_pipeline_picture(std::ostream& out, const std::string& title,
                            const std::string& subtitle, std::span<const StageResult> stages) {
  namespace detail = pipeline_picture_detail;
  const std::int64_t end = detail::end_of(stages);
  const double scale = detail::kWidth / static_cast<double>(end);
  const double rows = static_cast<double>(stages.size()) * detail::kRow;
  const double width = detail::kLeft + detail::kWidth + detail::kRight;
  const double height = detail::kTop + rows + detail::kBelow;
  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
      "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"{2}\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height, detail::kFonts);
  out << fmt::format("<text x=\"10\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>\n",
                     xml_text(title));
  out << fmt::format("<text x=\"10\" y=\"42\" font-size=\"11\">{}</text>\n", xml_text(subtitle));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double y = detail::kTop + static_cast<double>(s) * detail::kRow;
    out << fmt::format("<text x=\"{:g}\" y=\"{:.1f}\" text-anchor=\"end\">stage {}</text>\n",
                       detail::kLeft - 8, y + detail::kBox / 2 + 4, stages[s].stage);
    detail::write_boxes(out, stages[s], y, scale);
  }
  const AxisTicks ticks = round_ticks(0, static_cast<double>(end) * 1e-9, AxisUnit::kSeconds, 8);
  const double axis = detail::kTop + rows;
  out << fmt::format(
      "<line x1=\"{0:g}\" y1=\"{1:.1f}\" x2=\"{2:g}\" y2=\"{1:.1f}\" stroke=\"#888\"/>\n",
      detail::kLeft, axis, detail::kLeft + detail::kWidth);
  for (std::size_t i = 0; i < ticks.at.size(); ++i) {
    const double x = detail::kLeft + ticks.at[i] * 1e9 * scale;
    out << fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"#888\"/>\n<text x=\"{0:.1f}\" y=\"{3:.1f}\" font-size=\"11\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x, axis, axis + 4, axis + 17,
        i + 1 == ticks.at.size() ? ticks.labels[i] + ' ' + ticks.unit : ticks.labels[i]);
  }
  if (!stages.empty()) detail::write_legend(out, stages, axis + 40);
  out << "</svg>\n";
}

void write_pipeline_csv(std::ostream& out, std::span<const StageResult> stages) {
  out << "stage,part,micro_batch,chunk,begin,end\n";
  for (const StageResult& stage : stages) {
    for (const StagePart& part : stage.parts) {
      out << fmt::format("{},{},{},{},{:.9f},{:.9f}\n", stage.stage, letter_of(part.work),
                         part.micro_batch, part.chunk,
                         static_cast<double>(part.begin.count()) * 1e-9,
                         static_cast<double>(part.end.count()) * 1e-9);
    }
  }
}

}  // namespace tidemark
