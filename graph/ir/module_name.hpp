// Names of modules, whose parts are parted by dots: "h.0.attn" lies in "h.0", and "h.01" does not.
#pragma once

#include <string_view>

namespace tidemark {

// Returns whether a layer or module is the named one or lies in it.
[[nodiscard]] inline bool is_in_module(std::string_view layer, std::string_view module) {
  return layer.starts_with(module) &&
         (layer.size() == module.size() || layer[module.size()] == '.');
}

}  // namespace tidemark
