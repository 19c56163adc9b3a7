#include "scenarios/read/located_error.hpp"

#include <algorithm>
#include <string_view>

namespace tidemark {
namespace located_error_detail {
namespace {

// Returns the value below `node` that a part of a path names, and the location of its key.
const Value* child(const Value& node, std::string_view part, const Location*& at) {
  if (node.is_sequence()) {  // `policies`: an item is a name or a mapping of one
    for (const Value& item : node.items) {
      if (item.is_scalar() && item.scalar == part) {
        at = &item.location;
        return &item;
      }
      if (const Value* inner = child(item, part, at)) return inner;
    }
    return nullptr;
  }
  for (const Value::Entry& entry : node.entries) {
    if (entry.key != part) continue;
    at = &entry.location;
    return &entry.value;
  }
  return nullptr;
}

}  // namespace
}  // namespace located_error_detail

UserError located(const UserError& error, const Value& document) {
  if (error.location().line > 0) return error;
  const Value* node = &document;
  const Location* at = nullptr;
  std::string_view rest = error.path();
  while (!rest.empty()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    node = located_error_detail::child(*node, rest.substr(0, dot), at);
    if (node == nullptr) break;
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  if (at == nullptr) return error;
  return {*at, error.path(), error.problem()};
}

}  // namespace tidemark
