// A picture before it has a format: paths, circles and texts in the order in which they are drawn.
// Coordinates are pixels from the upper left corner, y downwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tidemark {

enum class Hatch : std::uint8_t { kNone, kRising, kFalling, kCross, kHorizontal, kVertical, kDots };
enum class Dash : std::uint8_t { kSolid, kLong, kShort, kDotted, kDashDot };

struct PathStep {
  enum class Kind : std::uint8_t { kMove, kLine, kClose };
  Kind kind = Kind::kMove;
  double x = 0;  // the end of the step; of no meaning for kClose
  double y = 0;
};

// The ink of a path or a circle. A fill is a colour, or the hatching of Drawing::hatchings.
struct DrawnInk {
  std::optional<std::uint32_t> fill;
  std::optional<std::size_t> hatching;  // index; instead of `fill`
  std::optional<std::uint32_t> stroke;
  double width = 1;  // width of the stroke in pixels
  Dash dash = Dash::kSolid;
  bool round_joins = false;
};

struct DrawnPath {
  std::vector<PathStep> steps;
  DrawnInk ink;
  bool clipped = false;  // whether Drawing::clip cuts it
};

struct DrawnCircle {
  double x = 0;
  double y = 0;
  double radius = 0;
  DrawnInk ink;
};

enum class TextAnchor : std::uint8_t { kStart, kMiddle, kEnd };
struct DrawnText {
  double x = 0;
  double y = 0;  // height of the baseline
  std::string words;
  double font = 12;  // size in pixels
  TextAnchor anchor = TextAnchor::kStart;
  bool bold = false;
  bool halo = false;  // a white edge, where something may lie behind it
  std::uint32_t rgb = 0;
};

// Hatching that fills areas: strokes on a colour.
struct Hatching {
  std::uint32_t rgb = 0;
  Hatch hatch = Hatch::kRising;
};

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

struct Drawing {
  double width = 0;
  double height = 0;
  std::string title;
  std::string description;  // how the picture was made
  Box clip;
  std::vector<Hatching> hatchings;
  std::vector<std::variant<DrawnPath, DrawnCircle, DrawnText>> items;  // the last one is on top
};

// Side of the square that a hatching repeats, in pixels.
inline constexpr double kHatchSide = 8;
// A stroke of a hatching within its square.
struct HatchStroke {
  double x0 = 0;
  double y0 = 0;
  double x1 = 0;
  double y1 = 0;
};
// Returns the strokes of one square; those at its corners belong to lines that go on in the next.
[[nodiscard]] std::vector<HatchStroke> strokes_of(Hatch hatch);
// Returns the colour of a hatching's strokes: dark on light inks and light on dark ones.
[[nodiscard]] std::uint32_t stroke_rgb(std::uint32_t rgb);
// Returns the lengths of strokes and gaps in turn, in pixels; none for a solid line.
[[nodiscard]] std::vector<double> dash_lengths(Dash dash);

}  // namespace tidemark
