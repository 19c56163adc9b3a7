#include "sim/memory/trace/trace_reader.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"

namespace tidemark {
namespace trace_reader_detail {
namespace {

constexpr std::array<std::string_view, 4> kNames{"op", "id", "bytes", "stream"};
constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

}  // namespace
}  // namespace trace_reader_detail

TraceReader::TraceReader(const std::string& path) : lines_(path) {
  read_header();
}

void TraceReader::fail_at(std::size_t offset, std::string_view path,
                          const std::string& problem) const {
  const auto line = std::min<std::int64_t>(lines_.line_number(), std::numeric_limits<int>::max());
  throw UserError({.file = lines_.path(),
                   .line = static_cast<int>(line),
                   .column = static_cast<int>(offset) + 1},
                  std::string(path), problem);
}

void TraceReader::fail(std::string_view name, const std::string& problem) const {
  const auto* found =
      std::find(trace_reader_detail::kNames.begin(), trace_reader_detail::kNames.end(), name);
  fail_at(offset_[static_cast<std::size_t>(found - trace_reader_detail::kNames.begin())], name,
          problem);
}

void TraceReader::read_header() {
  column_.fill(trace_reader_detail::kAbsent);
  if (!lines_.next(line_)) {
    throw UserError({.file = lines_.path()}, {},
                    "the file is empty; a trace starts with the columns op,id,bytes,stream");
  }
  if (line_.starts_with("\xEF\xBB\xBF")) line_.remove_prefix(3);  // byte order mark
  if (line_.find('\r') != std::string_view::npos)
    fail_at(0, {}, "the lines end in CR alone; save the file with LF or CRLF line ends");
  std::vector<std::string> given;
  for (std::size_t begin = 0, column = 0; begin <= line_.size(); ++column) {
    const std::size_t end = std::min(line_.find(',', begin), line_.size());
    given.emplace_back(line_.substr(begin, end - begin));
    const auto* known = std::find(trace_reader_detail::kNames.begin(),
                                  trace_reader_detail::kNames.end(), given.back());
    if (known != trace_reader_detail::kNames.end()) {
      const auto field = static_cast<std::size_t>(known - trace_reader_detail::kNames.begin());
      if (column_[field] != trace_reader_detail::kAbsent) {
        fail_at(begin, {}, fmt::format("column '{}' is there twice", *known));
      }
      column_[field] = column;
      columns_ = column + 1;
    }
    begin = end + 1;
  }
  for (std::size_t field = 0; field < kFields; ++field) {
    if (column_[field] != trace_reader_detail::kAbsent) continue;
    fail_at(0, {},
            fmt::format("column '{}' is missing{}; a trace starts with the columns "
                        "op,id,bytes,stream",
                        trace_reader_detail::kNames[field],
                        did_you_mean(trace_reader_detail::kNames[field], given)));
  }
}

std::int64_t TraceReader::number(Field field, bool needed) const {
  const std::string_view text = text_[field];
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= 0) return value;
  if (!needed && text.empty()) return 0;
  const char* problem = "expected a whole number, found {}";
  if (error == std::errc::result_out_of_range && stop == end) {
    problem = text.front() == '-' ? "{} is negative" : "{} does not fit into 63 bits";
  } else if (error == std::errc() && stop == end) {
    problem = "{} is negative";
  }
  fail_at(offset_[field], trace_reader_detail::kNames[field],
          fmt::format(fmt::runtime(problem), quoted_excerpt(text)));
}

bool TraceReader::next(TraceRow& row) {
  do {
    if (lines_.next(line_)) continue;
    if (!has_rows_)
      throw UserError({.file = lines_.path()}, {}, "has a header and no rows; nothing to replay");
    return false;
  } while (line_.empty());
  has_rows_ = true;
  std::size_t begin = 0;
  for (std::size_t column = 0; column < columns_; ++column) {
    if (begin > line_.size()) {
      fail_at(line_.size(), {},
              fmt::format("the row ends after {} of {} columns", column, columns_));
    }
    const std::size_t end = std::min(line_.find(',', begin), line_.size());
    for (std::size_t field = 0; field < kFields; ++field) {
      if (column_[field] != column) continue;
      text_[field] = line_.substr(begin, end - begin);
      offset_[field] = begin;
    }
    begin = end + 1;
  }
  const std::string_view op = text_[kOp];
  if (op.size() != 1 || std::string_view("aofrem").find(op.front()) == std::string_view::npos) {
    fail("op", fmt::format("expected a, o, f, r, e or m, found {}", quoted_excerpt(op)));
  }
  row.op = static_cast<TraceOp>(op.front());
  const bool allocates = row.op == TraceOp::kAllocate || row.op == TraceOp::kFailed;
  const bool records = row.op == TraceOp::kRecordStream;
  row.id = number(kId, allocates || records || row.op == TraceOp::kFree);
  row.bytes = Bytes(number(kBytes, allocates));
  row.stream = number(kStream, allocates || records);
  return true;
}

}  // namespace tidemark
