#include "plots/drawing/pdf_file.hpp"

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "plots/drawing/helvetica.hpp"

namespace tidemark {
namespace pdf_file_detail {
namespace {

constexpr double kPoints = 0.75;  // points of a pixel: 1/72 inch over 1/96 inch

std::string colour(std::uint32_t rgb, std::string_view setter) {
  return fmt::format("{:.3f} {:.3f} {:.3f} {}\n", static_cast<double>(rgb >> 16U & 255U) / 255,
                     static_cast<double>(rgb >> 8U & 255U) / 255,
                     static_cast<double>(rgb & 255U) / 255, setter);
}

// Returns a string as PDF writes it.
std::string pdf_string(std::string_view win_ansi_text) {
  std::string text = "(";
  for (const char c : win_ansi_text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '(' || c == ')' || c == '\\') text += '\\';
    if (byte < 0x80) {
      text += c;
    } else {
      text += fmt::format("\\{:03o}", byte);
    }
  }
  return text + ')';
}

// The operators of a page's content, in pixels.
class Content {
 public:
  explicit Content(const Drawing& drawing) : drawing_(drawing) {}
  void draw(const DrawnPath& path);
  void draw(const DrawnCircle& circle);
  void draw(const DrawnText& text);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void set(const DrawnInk& ink);
  void paint(const DrawnInk& ink);

  const Drawing& drawing_;
  std::string text_;
};

void Content::set(const DrawnInk& ink) {
  if (ink.hatching) {
    put("/Pattern cs /H{} scn\n", *ink.hatching);
  } else if (ink.fill) {
    text_ += colour(*ink.fill, "rg");
  }
  if (!ink.stroke) return;
  text_ += colour(*ink.stroke, "RG");
  put("{:g} w {} j [{:g}] 0 d\n", ink.width, ink.round_joins ? 1 : 0,
      fmt::join(dash_lengths(ink.dash), " "));
}

void Content::paint(const DrawnInk& ink) {
  const bool fills = ink.fill || ink.hatching;
  text_ += fills && ink.stroke ? "B\n" : fills ? "f\n" : ink.stroke ? "S\n" : "n\n";
}

void Content::draw(const DrawnPath& path) {
  text_ += "q\n";
  if (path.clipped) {
    const Box& clip = drawing_.clip;
    put("{:.1f} {:.1f} {:.1f} {:.1f} re W n\n", clip.left, clip.top, clip.right - clip.left,
        clip.bottom - clip.top);
  }
  set(path.ink);
  for (const PathStep& step : path.steps) {
    if (step.kind == PathStep::Kind::kClose) {
      text_ += "h\n";
    } else {
      put("{:.1f} {:.1f} {}\n", step.x, step.y, step.kind == PathStep::Kind::kMove ? 'm' : 'l');
    }
  }
  paint(path.ink);
  text_ += "Q\n";
}

// Draws four Bezier curves, one for each quarter.
void Content::draw(const DrawnCircle& circle) {
  constexpr double kControl = 0.5523;  // distance of the control points over the radius
  const auto& [x, y, r, ink] = circle;
  const double c = r * kControl;
  text_ += "q\n";
  set(ink);
  put("{:.2f} {:.2f} m\n", x + r, y);
  const auto curve = [&](double x1, double y1, double x2, double y2, double x3, double y3) {
    put("{:.2f} {:.2f} {:.2f} {:.2f} {:.2f} {:.2f} c\n", x1, y1, x2, y2, x3, y3);
  };
  curve(x + r, y + c, x + c, y + r, x, y + r);
  curve(x - c, y + r, x - r, y + c, x - r, y);
  curve(x - r, y - c, x - c, y - r, x, y - r);
  curve(x + c, y - r, x + r, y - c, x + r, y);
  text_ += "h\n";
  paint(ink);
  text_ += "Q\n";
}

void Content::draw(const DrawnText& text) {
  const std::string words = win_ansi(text.words);
  const double length = helvetica_width(words) * text.font;
  const double left = text.anchor == TextAnchor::kStart    ? text.x
                      : text.anchor == TextAnchor::kMiddle ? text.x - length / 2
                                                           : text.x - length;
  const auto show = [&](int rendering) {
    // The page's y axis points down; letters do not.
    put("BT /{} {:g} Tf {} Tr 1 0 0 -1 {:.2f} {:.2f} Tm {} Tj ET\n", text.bold ? "FB" : "F",
        text.font, rendering, left, text.y, pdf_string(words));
  };
  text_ += "q\n";
  text_ += colour(text.rgb, "rg");
  if (text.halo) {
    text_ += "1 1 1 RG 3 w 1 j\n";
    show(1);  // strokes
  }
  show(0);  // fills
  text_ += "Q\n";
}

// Numbered objects one after the other, then the table of where each begins.
class File {
 public:
  explicit File(std::ostream& out) : out_(out) { write("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"); }

  void add(std::string_view object) {
    begins_.push_back(written_);
    write(fmt::format("{} 0 obj\n{}\nendobj\n", begins_.size(), object));
  }
  void add_stream(const std::string& entries, const std::string& content) {
    add(fmt::format("<< {}/Length {} >>\nstream\n{}\nendstream", entries, content.size(), content));
  }
  // `catalog` and `facts` are the numbers of objects.
  void finish(int catalog, int facts) {
    const std::size_t table = written_;
    write(fmt::format("xref\n0 {}\n0000000000 65535 f \n", begins_.size() + 1));
    for (const std::size_t begin : begins_)
      write(fmt::format("{:010} 00000 n \n", begin));
    write(fmt::format("trailer\n<< /Size {} /Root {} 0 R /Info {} 0 R >>\nstartxref\n{}\n%%EOF\n",
                      begins_.size() + 1, catalog, facts, table));
  }

 private:
  void write(std::string_view text) {
    out_ << text;
    written_ += text.size();
  }

  std::ostream& out_;
  std::size_t written_ = 0;
  std::vector<std::size_t> begins_;
};

std::string hatching_content(const Hatching& hatching) {
  std::string text = colour(hatching.rgb, "rg") +
                     fmt::format("0 0 {0:g} {0:g} re f\n", kHatchSide) +
                     colour(stroke_rgb(hatching.rgb), "RG");
  const bool dots = hatching.hatch == Hatch::kDots;
  text += dots ? "2 w 1 J\n" : "1 w\n";
  for (const HatchStroke& s : strokes_of(hatching.hatch))
    text += fmt::format("{:g} {:g} m {:g} {:g} l S\n", s.x0, s.y0, s.x1, s.y1);
  return text;
}

}  // namespace
}  // namespace pdf_file_detail

void write_pdf(std::ostream& out, const Drawing& drawing) {
  using pdf_file_detail::kPoints;
  constexpr int kCatalog = 1;
  constexpr int kFacts = 7;
  constexpr int kFirstHatching = 8;
  const double height = drawing.height * kPoints;
  pdf_file_detail::Content content(drawing);
  for (const auto& item : drawing.items)
    std::visit([&](const auto& drawn) { content.draw(drawn); }, item);
  std::string patterns;
  for (std::size_t i = 0; i < drawing.hatchings.size(); ++i)
    patterns += fmt::format("/H{} {} 0 R ", i, kFirstHatching + static_cast<int>(i));

  pdf_file_detail::File file(out);
  file.add("<< /Type /Catalog /Pages 2 0 R >>");
  file.add("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
  file.add(
      fmt::format("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {:.2f} {:.2f}] /Contents 4 0 R "
                  "/Resources << /Font << /F 5 0 R /FB 6 0 R >> /Pattern << {}>> >> >>",
                  drawing.width * kPoints, height, patterns));
  file.add_stream(
      "", fmt::format("{0:g} 0 0 -{0:g} 0 {1:.2f} cm\n{2}", kPoints, height, content.text()));
  for (const std::string_view name : {"Helvetica", "Helvetica-Bold"}) {
    file.add(fmt::format(
        "<< /Type /Font /Subtype /Type1 /BaseFont /{} /Encoding /WinAnsiEncoding >>", name));
  }
  file.add(fmt::format("<< /Title {} /Subject {} /Producer (tidemark) >>",
                       pdf_file_detail::pdf_string(win_ansi(drawing.title)),
                       pdf_file_detail::pdf_string(win_ansi(drawing.description))));
  for (const Hatching& hatching : drawing.hatchings) {
    file.add_stream(
        fmt::format("/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 {0:g} "
                    "{0:g}] /XStep {0:g} /YStep {0:g} /Resources << >> /Matrix [{1:g} 0 0 -{1:g} "
                    "0 {2:.2f}] ",
                    kHatchSide, kPoints, height),
        pdf_file_detail::hatching_content(hatching));
  }
  file.finish(kCatalog, kFacts);
}

}  // namespace tidemark
