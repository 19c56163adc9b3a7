// Sizes as a layer list writes them: integers, names of sizes and arithmetic with them.
//   4 * width      (image / patch) * (image / patch) + 1      -1
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/document.hpp"

namespace tidemark {

// Names and their values; later ones hide earlier ones of the same name.
class SizeNames {
 public:
  void set(std::string_view name, std::int64_t value) { values_.emplace_back(name, value); }
  [[nodiscard]] const std::int64_t* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  // Forgets the names set since `size()` was `count`.
  void cut(std::size_t count) { values_.resize(count); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

// Evaluates a scalar with + - * / and parentheses; a division must leave no remainder. Throws
// UserError at the value: unknown names, bad syntax, overflow, a result outside the limits.
[[nodiscard]] std::int64_t evaluate_size(const Value& value, const SizeNames& names,
                                         const std::string& path, std::int64_t lowest,
                                         std::int64_t highest);
// Whether a text can name a size: a letter or _, then letters, digits and _.
[[nodiscard]] bool is_size_name(std::string_view text);

}  // namespace tidemark
