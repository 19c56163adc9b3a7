// The reader for JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/core/document_builder.hpp"

namespace tidemark {

struct SyntaxProblem {
  Place place;
  std::string problem;
};

// Reads JSON (RFC 8259, and the NaN and Infinity that Python writes) from valid UTF-8 into
// `builder`; says what is wrong if the text is not JSON. Throws UserError for what YAML would
// refuse too: duplicate keys, too deep, too large.
[[nodiscard]] std::optional<SyntaxProblem> read_json(std::string_view text,
                                                     DocumentBuilder& builder);

}  // namespace tidemark
