#include "plots/pipeline_picture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "plots/axis_scale.hpp"
#include "plots/drawing/svg_file.hpp"

namespace tidemark {
namespace pipeline_picture_detail {
namespace {

constexpr double kGap = 6;  // pixels between two rows
constexpr double kBox = 20;
constexpr double kLane = 5;
constexpr double kLeast = 0.3;  // width of the narrowest box
constexpr double kLeft = 64;
constexpr double kTop = 62;
constexpr double kWidth = 1000;
constexpr double kRight = 16;
constexpr double kBelow = 76;
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
    for (const CommunicationStretch& used : stage.communication)
      end = std::max(end, used.end.count());
  }
  return end;
}

// The groups that a stage communicates in, each with a lane.
std::vector<MeshDimension> lanes_of(std::span<const StageResult> stages) {
  std::vector<MeshDimension> lanes;
  for (std::size_t d = 0; d < kMeshDimensions; ++d) {
    const auto group = static_cast<MeshDimension>(d);
    const bool used = std::any_of(stages.begin(), stages.end(), [&](const StageResult& stage) {
      return std::any_of(stage.communication.begin(), stage.communication.end(),
                         [&](const CommunicationStretch& c) { return c.group == group; });
    });
    if (used) lanes.push_back(group);
  }
  return lanes;
}

std::string_view fill_of(MeshDimension group) {
  static constexpr std::array<std::string_view, kMeshDimensions> kFills{
      "#c0562a", "#d98f1f", "#7a7a7a", "#8a5fa8", "#b8962a", "#3f8f5f", "#e09a6a"};
  return kFills[static_cast<std::size_t>(group)];
}

// Stretches that are closer together than the narrowest box is wide become one box.
void write_lane(std::ostream& out, const StageResult& stage, MeshDimension group, double y,
                double scale) {
  double left = 0;
  double right = -1;  // of the box that is not written yet; before `left`: there is none
  const auto write = [&] {
    if (right < left) return;
    out << fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:g}\" fill=\"{}\"/>\n",
        kLeft + left, y, std::max(right - left, kLeast), kLane - 1, fill_of(group));
  };
  for (const CommunicationStretch& used : stage.communication) {
    if (used.group != group || used.end.count() <= 0) continue;
    const double begin = std::max(static_cast<double>(used.begin.count()) * scale, 0.0);
    const double end = static_cast<double>(used.end.count()) * scale;
    if (right < left || begin - right > kLeast) {
      write();
      left = begin;
      right = end;
    } else {
      right = std::max(right, end);
    }
  }
  write();
}

void write_boxes(std::ostream& out, const StageResult& stage, double y, double scale) {
  for (const StagePart& part : stage.parts) {
    const PartStyle& style = style_of(part.work);
    const double x = kLeft + static_cast<double>(part.begin.count()) * scale;
    const double width =
        std::max(static_cast<double>((part.end - part.begin).count()) * scale, kLeast);
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

void write_legend_of_lanes(std::ostream& out, const std::vector<MeshDimension>& lanes, double y) {
  double x = kLeft;
  for (const MeshDimension group : lanes) {
    const std::string text = fmt::format("communication: {}", name_of(group));
    out << fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"{:g}\" fill=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\">{}</text>\n",
        x, y - 6, kLane - 1, fill_of(group), x + 21, y, text);
    x += 40 + static_cast<double>(text.size()) * 6.5;
  }
}

}  // namespace
}  // namespace pipeline_picture_detail

void write_pipeline_picture(std::ostream& out, const std::string& title,
                            const std::string& subtitle, std::span<const StageResult> stages) {
  namespace detail = pipeline_picture_detail;
  const std::int64_t end = detail::end_of(stages);
  const double scale = detail::kWidth / static_cast<double>(end);
  const std::vector<MeshDimension> lanes = detail::lanes_of(stages);
  const double row =
      detail::kBox + static_cast<double>(lanes.size()) * detail::kLane + detail::kGap;
  const double rows = static_cast<double>(stages.size()) * row;
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
    const double y = detail::kTop + static_cast<double>(s) * row;
    out << fmt::format("<text x=\"{:g}\" y=\"{:.1f}\" text-anchor=\"end\">stage {}</text>\n",
                       detail::kLeft - 8, y + detail::kBox / 2 + 4, stages[s].stage);
    detail::write_boxes(out, stages[s], y, scale);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const double below = y + detail::kBox + 1 + static_cast<double>(lane) * detail::kLane;
      detail::write_lane(out, stages[s], lanes[lane], below, scale);
    }
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
  detail::write_legend_of_lanes(out, lanes, axis + 58);
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
