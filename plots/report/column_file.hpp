// Columns of integers after a JSON description: the form in which a page contains a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tidemark {

// Writes integers as LEB128 of their zigzag, so that small ones of either sign take one byte. With
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

// A file of columns: length of the description (4 bytes, little endian), the description, then the
// columns one after the other. The description gains "columns": [{name, count, bytes, deltas}], in
// that order.
class ColumnFile {
 public:
  void add(std::string_view name, const ColumnWriter& column);
  // Returns the whole file; `description` is an object.
  [[nodiscard]] std::string text(nlohmann::ordered_json description) &&;

 private:
  struct Column {
    std::string name;
    std::size_t count = 0;
    std::size_t bytes = 0;
    bool deltas = false;
  };
  std::vector<Column> columns_;
  std::string body_;
};

// Returns the bytes in gzip, then base64: what a script element of a page may contain. Readers are
// the browser's own DecompressionStream and atob().
[[nodiscard]] std::string packed_for_page(std::string_view bytes);

}  // namespace tidemark
