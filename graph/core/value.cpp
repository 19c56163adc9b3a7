#include "graph/core/value.hpp"

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
