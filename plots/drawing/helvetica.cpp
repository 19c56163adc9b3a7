#include "plots/drawing/helvetica.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace tidemark {
namespace helvetica_detail {
namespace {

constexpr unsigned kFirst = 0x20;  // ' '
// Widths of the characters from ' ' to '~', in thousandths of the font's size.
constexpr std::array<int, 95> kWidths{
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
constexpr int kOther = 556;

// Code points beyond Latin-1 that the encoding has.
struct Coded {
  std::uint32_t point = 0;
  unsigned char code = 0;
};
constexpr std::array<Coded, 10> kCoded{{{0x20ac, 0x80},
                                        {0x2026, 0x85},
                                        {0x2018, 0x91},
                                        {0x2019, 0x92},
                                        {0x201c, 0x93},
                                        {0x201d, 0x94},
                                        {0x2022, 0x95},
                                        {0x2013, 0x96},
                                        {0x2014, 0x97},
                                        {0x2212, '-'}}};

// Returns the code point at `at` and moves on to the next one; 0 for bytes that are no UTF-8.
std::uint32_t next_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const std::uint32_t lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
  std::uint32_t point = more == 3 ? lead & 0x07U : more == 2 ? lead & 0x0fU : lead & 0x1fU;
  if (more == 0) return 0;
  for (int i = 0; i < more; ++i) {
    if ((byte(at) & 0xc0U) != 0x80U) return 0;
    point = point << 6U | (byte(at++) & 0x3fU);
  }
  return point;
}

char code_of(std::uint32_t point) {
  const bool printable = point >= kFirst && point <= 0x7e;
  const bool latin = point >= 0xa0 && point <= 0xff;
  if (printable || latin) return static_cast<char>(point);
  for (const Coded& coded : kCoded) {
    if (coded.point == point) return static_cast<char>(coded.code);
  }
  return '?';
}

}  // namespace
}  // namespace helvetica_detail

std::string win_ansi(std::string_view text) {
  std::string coded;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t point = helvetica_detail::next_point(text, at);
    coded += point == '\n' || point == '\t' ? ' ' : helvetica_detail::code_of(point);
  }
  return coded;
}

double helvetica_width(std::string_view win_ansi_text) {
  int width = 0;
  for (const char c : win_ansi_text) {
    const std::size_t at = static_cast<unsigned char>(c) - std::size_t{helvetica_detail::kFirst};
    width += at < helvetica_detail::kWidths.size() ? helvetica_detail::kWidths[at]
                                                   : helvetica_detail::kOther;
  }
  return width / 1000.0;
}

}  // namespace tidemark
