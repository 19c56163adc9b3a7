#include "hwprofiles/measured/row_reader.hpp"

#include <cmath>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace row_reader_detail {
namespace {

// Above it no extent of a tensor is.
constexpr double kLargestCount = 1e12;

}  // namespace
}  // namespace row_reader_detail

const std::string& RowReader::text(std::string_view column) const {
  static const std::string empty;
  const std::size_t place = table_->column(column);
  return place < row_->cells.size() ? row_->cells[place] : empty;
}

double RowReader::positive(std::string_view column) const {
  const std::string& cell = text(column);
  const std::optional<double> number = number_in(cell);
  if (!number || !(*number > 0)) {
    throw RowFault{
        fmt::format("{}: expected a number above 0, found {}", column, quoted_excerpt(cell))};
  }
  return *number;
}

std::int64_t RowReader::count(std::string_view column, std::int64_t least) const {
  const std::string& cell = text(column);
  const std::optional<double> number = number_in(cell);
  if (!number || *number != std::floor(*number) || *number < static_cast<double>(least) ||
      *number > row_reader_detail::kLargestCount) {
    throw RowFault{fmt::format("{}: expected a whole number of at least {}, found {}", column,
                               least, quoted_excerpt(cell))};
  }
  return static_cast<std::int64_t>(*number);
}

}  // namespace tidemark
