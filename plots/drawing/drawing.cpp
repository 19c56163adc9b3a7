#include "plots/drawing/drawing.hpp"

namespace tidemark {

std::vector<HatchStroke> strokes_of(Hatch hatch) {
  switch (hatch) {
    case Hatch::kNone:
      return {};
    case Hatch::kRising:
      return {{-2, 2, 2, -2}, {0, 8, 8, 0}, {6, 10, 10, 6}};
    case Hatch::kFalling:
      return {{-2, 6, 2, 10}, {0, 0, 8, 8}, {6, -2, 10, 2}};
    case Hatch::kCross:
      return {{0, 8, 8, 0}, {0, 0, 8, 8}};
    case Hatch::kHorizontal:
      return {{0, 4, 8, 4}};
    case Hatch::kVertical:
      return {{4, 0, 4, 8}};
    case Hatch::kDots:
      return {{4, 3.9, 4, 4.1}};
  }
  return {};
}

std::uint32_t stroke_rgb(std::uint32_t rgb) {
  // ITU-R BT.601 luma.
  const double luma = 0.299 * static_cast<double>(rgb >> 16U & 255U) +
                      0.587 * static_cast<double>(rgb >> 8U & 255U) +
                      0.114 * static_cast<double>(rgb & 255U);
  return luma > 110 ? 0x333333 : 0xeeeeee;
}

std::vector<double> dash_lengths(Dash dash) {
  switch (dash) {
    case Dash::kSolid:
      return {};
    case Dash::kLong:
      return {8, 4};
    case Dash::kShort:
      return {4, 3};
    case Dash::kDotted:
      return {1.5, 3};
    case Dash::kDashDot:
      return {8, 3, 1.5, 3};
  }
  return {};
}

}  // namespace tidemark
