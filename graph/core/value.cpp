#include "graph/core/value.hpp"

#include <algorithm>

namespace tidemark {

const Value* Value::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Value* Value::find(std::string_view key) {
  for (Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

bool says_the_same(const Value& a, const Value& b) {
  const auto same_entry = [](const Value::Entry& x, const Value::Entry& y) {
    return x.key == y.key && says_the_same(x.value, y.value);
  };
  return a.kind == b.kind && a.quoted == b.quoted && a.scalar == b.scalar &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    says_the_same) &&
         std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    same_entry);
}

std::string found(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kScalar:
      return tidemark::quoted_excerpt(value.scalar);
    case Value::Kind::kSequence:
      return "a list";
    case Value::Kind::kMapping:
      break;
  }
  return "a mapping";
}

}  // namespace tidemark
