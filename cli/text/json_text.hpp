// Documents in JSON as the commands print them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace tidemark {

// Returns the document, on one line where `indent` is -1. Names come from files and command lines:
// their bytes that are not UTF-8 become U+FFFD.
template <class Json>
[[nodiscard]] std::string json_text(const Json& document, int indent = 2) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tidemark
