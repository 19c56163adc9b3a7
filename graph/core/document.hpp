// A YAML or JSON text as a tree in which every key and value knows where it stands.
//
// YAML is built from yaml-cpp's event stream, because YAML::Node loses key positions and lets
// duplicate keys pass. JSON has a reader of its own, ten times as fast: a text that starts with a
// bracket and is not JSON is read as YAML, unless the file is called *.json.
// Checked while reading, each with its location:
//   duplicate keys, merge keys and non-scalar keys, unknown aliases and tags, more than one
//   document, nesting deeper than kMaxDepth, more than kMaxNodes values, aliases that expand to
//   more than kMaxAliasNodes values or kMaxAliasBytes, files above kMaxFileBytes, bytes that are
//   not UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "graph/core/value.hpp"

namespace tidemark {

// Parses one document; `file` is what error locations show. An empty text is a null value.
// Columns count bytes. Throws UserError.
[[nodiscard]] Value parse_document(std::string_view text, const std::string& file);

// Throws UserError at the first byte that is no text: NUL and other control characters, bytes that
// are not UTF-8, archives and UTF-16.
void require_text(std::string_view text, const std::string& file);

// Returns the text behind the byte order mark that some editors write before it.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text);

// Reads a file from disk, without a byte order mark. Throws UserError: missing, a folder,
// unreadable, too large, not text.
[[nodiscard]] Value read_document(const std::string& path);
[[nodiscard]] std::string read_text_file(const std::string& path);

}  // namespace tidemark
