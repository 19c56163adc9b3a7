// Named constants of a node: kernel sizes, probabilities, axes. The attributes of a YAML layer or
// an ONNX node map onto them one to one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/core/errors.hpp"

namespace tidemark {

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, AttributeValue>> values) {
    for (const auto& [name, value] : values)
      set(name, value);
  }

  void set(std::string_view name, AttributeValue value) {
    for (auto& [known, old] : values_) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    values_.emplace_back(name, std::move(value));
  }
  // Returns the value of `name`, or `fallback` when absent. Throws InternalError when it has
  // another type: families and builders disagree on what the attribute is.
  template <class T>
  [[nodiscard]] T get(std::string_view name, T fallback) const {
    for (const auto& [known, value] : values_) {
      if (known != name) continue;
      if (const T* found = std::get_if<T>(&value)) return *found;
      throw InternalError("attribute '" + std::string(name) + "' has another type than is read");
    }
    return fallback;
  }
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t fallback = 0) const {
    return get<std::int64_t>(name, fallback);
  }
  [[nodiscard]] double number(std::string_view name, double fallback = 0) const {
    return get<double>(name, fallback);
  }
  [[nodiscard]] bool flag(std::string_view name) const { return integer(name) != 0; }
  [[nodiscard]] std::string text(std::string_view name, std::string fallback = {}) const {
    return get<std::string>(name, std::move(fallback));
  }
  [[nodiscard]] std::vector<std::int64_t> list(std::string_view name) const {
    return get<std::vector<std::int64_t>>(name, {});
  }
  // Whether `name` is there and has this type: for attributes that may have one of several.
  template <class T>
  [[nodiscard]] bool holds(std::string_view name) const {
    for (const auto& [known, value] : values_) {
      if (known == name) return std::holds_alternative<T>(value);
    }
    return false;
  }
  [[nodiscard]] const auto& all() const { return values_; }

 private:
  std::vector<std::pair<std::string, AttributeValue>> values_;
};

}  // namespace tidemark
