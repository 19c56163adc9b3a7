// Writes a drawing as SVG.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "plots/drawing/drawing.hpp"

namespace tidemark {

// Writes a file that is complete in itself: a viewer fetches nothing.
void write_svg(std::ostream& out, const Drawing& drawing);

// Returns the text with <, >, & and quotes as entities, and with '?' for control characters, which
// XML does not allow.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace tidemark
