// Finds places for the labels of points where nothing else is drawn.
#pragma once

#include <optional>
#include <vector>

namespace tidemark {

struct SvgBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  [[nodiscard]] bool meets(const SvgBox& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

class SvgLabels {
 public:
  struct Place {
    SvgBox box;
    int side = 0;  // side of the point: -1 left, 0 above or below, 1 right
    double away = 0;
  };

  explicit SvgLabels(const SvgBox& plot) : plot_(plot) {}
  void take(const SvgBox& box) { taken_.push_back(box); }
  // Adds a straight stroke: labels keep off it where there is another place.
  void keep_off(double x0, double y0, double x1, double y1);
  // Adds a filled box, which labels keep off in the same way.
  void keep_off(const SvgBox& box) { strokes_.push_back(box); }
  // Whether a text or a mark lies there.
  [[nodiscard]] bool takes(const SvgBox& box) const;
  [[nodiscard]] bool is_free(const SvgBox& box, bool off_strokes) const;
  // Whether a line meets a text or a mark, except the one at its beginning.
  [[nodiscard]] bool crosses(double x0, double y0, double x1, double y1) const;
  // Returns the nearest free place for a text of this size next to a point, at least `least` pixels
  // away. From kLeader on a line leads to it, which crosses no text and no mark.
  static constexpr double kLeader = 12;
  [[nodiscard]] std::optional<Place> find(double x, double y, double width, double height,
                                          double least, bool off_strokes) const;

 private:
  SvgBox plot_;
  std::vector<SvgBox> taken_;  // boxes of texts and marks
  std::vector<SvgBox> strokes_;
};

}  // namespace tidemark
