// Traces of allocator calls: CSV with the columns op, id, bytes, stream in any order; further
// columns are ignored. One row per call:
//   a  allocate `bytes` on `stream` as `id`      o  the same; it failed when it was recorded
//   f  free id        r  record_stream(id, stream)
//   e  empty_cache()  m  a step begins, id is its number
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/core/units.hpp"
#include "sim/memory/trace/text_file.hpp"

namespace tidemark {

enum class TraceOp : char {
  kAllocate = 'a',
  kFailed = 'o',
  kFree = 'f',
  kRecordStream = 'r',
  kEmptyCache = 'e',
  kMark = 'm',
  // A snapshot records a free in two halves. The block is active until the second.
  kRequestFree = 'q',
  kCompleteFree = 'c',
};

struct TraceRow {
  TraceOp op = TraceOp::kMark;
  std::int64_t id = 0;
  Bytes bytes;
  std::int64_t stream = 0;
};

class TraceReader {
 public:
  // Reads the header. Throws UserError: no file, no header, a column missing or named twice.
  explicit TraceReader(const std::string& path);

  // Returns false at the end. Throws UserError with line and column: an unknown op, a missing
  // field, a number that is negative, too large or none.
  bool next(TraceRow& row);
  // Throws a UserError about the last row, at its column `name` ("id").
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const;

 private:
  enum Field : std::size_t { kOp, kId, kBytes, kStream, kFields };

  void read_header();
  [[nodiscard]] std::int64_t number(Field field, bool needed) const;
  [[noreturn]] void fail_at(std::size_t offset, std::string_view path,
                            const std::string& problem) const;

  LineReader lines_;
  bool has_rows_ = false;  // a row has been read
  std::string_view line_;
  std::array<std::size_t, kFields> column_{};     // column of the file, by field
  std::size_t columns_ = 0;                       // columns up to the last one needed
  std::array<std::string_view, kFields> text_{};  // texts of the last row
  std::array<std::size_t, kFields> offset_{};     // offsets in the line
};

}  // namespace tidemark
