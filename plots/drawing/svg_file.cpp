#include "plots/drawing/svg_file.hpp"

#include <iterator>

#include <fmt/format.h>

namespace tidemark {
namespace svg_file_detail {
namespace {

constexpr std::string_view kFonts =
    "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

std::string colour(std::uint32_t rgb) {
  return fmt::format("#{:06x}", rgb);
}

// The text of the file's body while it grows.
class Body {
 public:
  void draw(const DrawnPath& path);
  void draw(const DrawnCircle& circle);
  void draw(const DrawnText& text);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void ink(const DrawnInk& ink);

  std::string text_;
};

void Body::ink(const DrawnInk& ink) {
  if (ink.hatching) {
    put(" fill=\"url(#a{})\"", *ink.hatching);
  } else {
    put(" fill=\"{}\"", ink.fill ? colour(*ink.fill) : "none");
  }
  if (!ink.stroke) return;
  put(" stroke=\"{}\" stroke-width=\"{:g}\"", colour(*ink.stroke), ink.width);
  if (ink.dash != Dash::kSolid)
    put(" stroke-dasharray=\"{:g}\"", fmt::join(dash_lengths(ink.dash), " "));
  if (ink.round_joins) put(" stroke-linejoin=\"round\"");
}

// Steps along an axis take one number, and steps that are too short to be seen none.
void Body::draw(const DrawnPath& path) {
  put("<path{} d=\"", path.clipped ? " clip-path=\"url(#plot)\"" : "");
  std::string x;  // where the last step has ended, as it is written
  std::string y;
  for (const PathStep& step : path.steps) {
    if (step.kind == PathStep::Kind::kClose) {
      text_ += 'Z';
      continue;
    }
    std::string to_x = fmt::format("{:.1f}", step.x);
    std::string to_y = fmt::format("{:.1f}", step.y);
    if (step.kind == PathStep::Kind::kMove) {
      put("M{} {}", to_x, to_y);
    } else if (to_x != x && to_y != y) {
      put("L{} {}", to_x, to_y);
    } else if (to_x != x) {
      put("H{}", to_x);
    } else if (to_y != y) {
      put("V{}", to_y);
    }
    x = std::move(to_x);
    y = std::move(to_y);
  }
  text_ += '"';
  ink(path.ink);
  text_ += "/>\n";
}

void Body::draw(const DrawnCircle& circle) {
  put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"", circle.x, circle.y, circle.radius);
  ink(circle.ink);
  text_ += "/>\n";
}

void Body::draw(const DrawnText& text) {
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"", text.x, text.y, text.font);
  if (text.anchor == TextAnchor::kMiddle) put(" text-anchor=\"middle\"");
  if (text.anchor == TextAnchor::kEnd) put(" text-anchor=\"end\"");
  if (text.bold) put(" font-weight=\"bold\"");
  if (text.rgb != 0) put(" fill=\"{}\"", colour(text.rgb));
  if (text.halo)
    put(" stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"");
  put(">{}</text>\n", xml_text(text.words));
}

std::string definitions(const Drawing& drawing) {
  const Box& clip = drawing.clip;
  std::string text = fmt::format(
      "<clipPath id=\"plot\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" "
      "height=\"{:g}\"/></clipPath>\n",
      clip.left, clip.top, clip.right - clip.left, clip.bottom - clip.top);
  for (std::size_t i = 0; i < drawing.hatchings.size(); ++i) {
    const Hatching& hatching = drawing.hatchings[i];
    std::string strokes;
    for (const HatchStroke& s : strokes_of(hatching.hatch))
      strokes += fmt::format("M{:g} {:g}L{:g} {:g}", s.x0, s.y0, s.x1, s.y1);
    const bool dots = hatching.hatch == Hatch::kDots;
    text += fmt::format(
        "<pattern id=\"a{0}\" width=\"{1:g}\" height=\"{1:g}\" patternUnits=\"userSpaceOnUse\">"
        "<rect width=\"{1:g}\" height=\"{1:g}\" fill=\"{2}\"/><path d=\"{3}\" stroke=\"{4}\" "
        "stroke-width=\"{5}\"{6}/></pattern>\n",
        i, kHatchSide, colour(hatching.rgb), strokes, colour(stroke_rgb(hatching.rgb)),
        dots ? "2" : "1", dots ? " stroke-linecap=\"round\"" : "");
  }
  return text;
}

}  // namespace
}  // namespace svg_file_detail

void write_svg(std::ostream& out, const Drawing& drawing) {
  svg_file_detail::Body body;
  for (const auto& item : drawing.items)
    std::visit([&](const auto& drawn) { body.draw(drawn); }, item);
  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"{2}\" role=\"img\">\n<title>{3}</title>\n{4}"
      "<defs>\n{5}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{6}</svg>\n",
      drawing.width, drawing.height, svg_file_detail::kFonts, xml_text(drawing.title),
      drawing.description.empty() ? ""
                                  : fmt::format("<desc>{}</desc>\n", xml_text(drawing.description)),
      svg_file_detail::definitions(drawing), body.text());
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\n':
      case '\t':
        result += ' ';
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return result;
}

}  // namespace tidemark
