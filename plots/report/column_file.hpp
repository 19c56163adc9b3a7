// Columns of integers after a JSON description: the form in which a page holds a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tidemark {

// Integers as LEB128 of their zigzag, so that small ones of either sign take one byte. With
// `deltas` each value is kept as its difference from the one before: times, running totals.
class ColumnWriter {
 public:
  explicit ColumnWriter(bool deltas = false) : deltas_(deltas) {}
  void add(std::int64_t value);

  [[nodiscard]] bool deltas() const { return deltas_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  bool deltas_;
  std::int64_t last_ = 0;
  std::size_t count_ = 0;
  std::string bytes_;
};

// Layout: length of the description (4 bytes, little endian), the description, then the columns one
// after the other. The description gains "columns": [{name, count, bytes, deltas}], in that order.
class ColumnFile {
 public:
  nlohmann::ordered_json description = nlohmann::ordered_json::object();
  void add(std::string_view name, const ColumnWriter& column);
  [[nodiscard]] std::string text() &&;

 private:
  nlohmann::ordered_json columns_ = nlohmann::ordered_json::array();
  std::string body_;
};

// gzip, then base64: what a script element of a page may hold. Readers are the browser's own
// DecompressionStream and atob().
[[nodiscard]] std::string packed_for_page(std::string_view bytes);

}  // namespace tidemark
