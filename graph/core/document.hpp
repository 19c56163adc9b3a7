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

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/errors.hpp"

namespace tidemark {

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 4'000'000;
inline constexpr std::size_t kMaxAliasNodes = 1'000'000;
inline constexpr std::size_t kMaxAliasBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// One value of a document. An alias is a copy of the value it names, with the location of that
// value.
struct Value {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  struct Entry;

  Kind kind = Kind::kNull;
  bool quoted = false;         // a quoted scalar is a text even if it looks like a number
  std::string scalar;          // kScalar
  std::vector<Value> items;    // kSequence
  std::vector<Entry> entries;  // kMapping, in the order of the file
  Location location;

  [[nodiscard]] bool is_null() const { return kind == Kind::kNull; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::kScalar; }
  [[nodiscard]] bool is_sequence() const { return kind == Kind::kSequence; }
  [[nodiscard]] bool is_mapping() const { return kind == Kind::kMapping; }
  [[nodiscard]] const Value* find(std::string_view key) const;  // null when absent or not a mapping
  [[nodiscard]] Value* find(std::string_view key);
};

struct Value::Entry {
  std::string key;
  Location location;  // of the key
  Value value;
};

// Parses one document; `file` is what error locations show. An empty text is a null value.
// Columns count bytes. Throws UserError.
[[nodiscard]] Value parse_document(std::string_view text, const std::string& file);

// Reads a file from disk. Throws UserError: missing, a folder, unreadable, too large, not text.
[[nodiscard]] Value read_document(const std::string& path);
[[nodiscard]] std::string read_text_file(const std::string& path);

}  // namespace tidemark
