// Writes a drawing as PDF: one page of its size, vectors and texts that can be selected.
//
// PDF 1.4 (ISO 32000-1 describes all that is used). Texts are in Helvetica, one of the fonts that
// every reader has, so no font is embedded.
#pragma once

#include <ostream>

#include "plots/drawing/drawing.hpp"

namespace tidemark {

// Writes the same bytes for the same drawing: there is no date in the file.
void write_pdf(std::ostream& out, const Drawing& drawing);

}  // namespace tidemark
