// Helvetica, which every reader of PDF has: its character codes and the widths of its letters.
#pragma once

#include <string>
#include <string_view>

namespace tidemark {

// Returns a UTF-8 text in PDF's WinAnsiEncoding; '?' for what that encoding lacks.
[[nodiscard]] std::string win_ansi(std::string_view text);
// Returns the width of such a text over the size of the font; letters beyond ASCII count as wide as
// figures. Adobe's font metrics of Helvetica.
[[nodiscard]] double helvetica_width(std::string_view win_ansi_text);

}  // namespace tidemark
