// The reader for YAML, on yaml-cpp's events.
#pragma once

#include <string>
#include <string_view>

#include "graph/core/document_builder.hpp"

namespace tidemark {

// Reads one YAML document from valid UTF-8 without byte order mark into `builder`. Throws
// UserError.
void read_yaml(std::string_view text, DocumentBuilder& builder);

}  // namespace tidemark
