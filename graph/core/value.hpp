// The tree of a YAML or JSON text: every key and value knows where it stands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/errors.hpp"

namespace tidemark {

// Limits that a document is held to while it is read (document.hpp).
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 4'000'000;
inline constexpr std::size_t kMaxAliasNodes = 1'000'000;
inline constexpr std::size_t kMaxAliasBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// One value of a document. An alias is a copy of the value that it names, with the location of that
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
  Location location;  // location of the key
  Value value;
};

// Whether two values say the same, wherever they stand. Mappings agree in the order of their keys,
// too.
[[nodiscard]] bool says_the_same(const Value& a, const Value& b);

// Returns "'many'", "a list", "null": the value as an error names it.
[[nodiscard]] std::string found(const Value& value);

}  // namespace tidemark
