#include "hwprofiles/measured/measured_operators.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/measured/operator_tables.hpp"
#include "hwprofiles/measured/row_reader.hpp"

namespace tidemark {
namespace measured_operators_detail {
namespace {

constexpr auto kCompassTables =
    std::to_array<std::string_view>({"matmul", "softmax", "layernorm", "gelu"});
constexpr std::size_t kShownFaults = 5;

// Returns the operator that the name of a table without a header says; empty: none.
std::string_view compass_operator(const CsvTable& table) {
  if (!table.header.empty()) return {};
  const std::string name = table.file.substr(table.file.rfind('/') + 1);
  for (const std::string_view op : kCompassTables) {
    if (name.find(op) != std::string::npos) return op;
  }
  return {};
}

// Columns that a table of this kind has, and how many of them are here.
std::size_t columns_here(const CsvTable& table, const OperatorTableKind& kind) {
  return static_cast<std::size_t>(
      std::count_if(kind.columns.begin(), kind.columns.end(),
                    [&](std::string_view column) { return table.has(column); }));
}

// Returns the kind of which most columns are here: a table that lacks one column is still one.
const OperatorTableKind* nearest_kind(const CsvTable& table) {
  const OperatorTableKind* nearest = nullptr;
  std::size_t missing = 2;  // more are another table
  const auto consider = [&](const OperatorTableKind& kind) {
    const std::size_t here = columns_here(table, kind);
    if (kind.columns.size() - here < missing) {
      missing = kind.columns.size() - here;
      nearest = &kind;
    }
  };
  consider(plain_table_kind());
  for (const OperatorTableKind& kind : published_table_kinds())
    consider(kind);
  return nearest;
}

}  // namespace
}  // namespace measured_operators_detail

void require_mostly_right(const MeasuredTable& table) {
  if (2 * table.refused.size() <= table.rows) return;
  std::string lines;
  const std::size_t shown = std::min(table.refused.size(), measured_operators_detail::kShownFaults);
  for (std::size_t i = 0; i < shown; ++i)
    lines += fmt::format("\n  line {}: {}", table.refused[i].line, table.refused[i].problem);
  throw UserError({.file = table.file}, {},
                  fmt::format("{} of {} rows are wrong, too many to go on{}", table.refused.size(),
                              table.rows, lines));
}

bool is_operator_table(const CsvTable& table) {
  return measured_operators_detail::nearest_kind(table) != nullptr ||
         !measured_operators_detail::compass_operator(table).empty();
}

MeasuredTable read_measured_operators(const CsvTable& table) {
  const std::string_view compass = measured_operators_detail::compass_operator(table);
  const OperatorTableKind* kind = measured_operators_detail::nearest_kind(table);
  if (compass.empty() && kind == nullptr) {
    throw UserError({.file = table.file, .line = 1}, {},
                    "is no table of measured operators; the plainest one has the columns "
                    "op,shape,dtype,device,seconds");
  }
  if (compass.empty()) {
    for (const std::string_view column : kind->columns)
      static_cast<void>(table.column(column));
  }
  MeasuredTable read{.file = table.file, .rows = table.rows.size()};
  for (const CsvRow& row : table.rows) {
    const std::size_t before = read.operators.size();
    try {
      if (compass.empty()) {
        kind->read(table, row, read);
      } else {
        read_llmcompass_row(compass, row, read);
      }
    } catch (const RowFault& fault) {
      read.operators.resize(before);
      read.refused.push_back({.line = row.line, .problem = fault.problem});
    }
  }
  require_mostly_right(read);
  return read;
}

std::uint64_t hash_of(const MeasuredOperator& op, std::uint64_t seed) {
  // FNV-1a with a last mixing step, so that every bit depends on the whole text.
  std::uint64_t hash = 14695981039346656037ULL ^ seed;
  const std::string key =
      op.model.empty() ? op.device + '|' + op.kind + '|' + op.text + '|' : op.model;
  for (const char c : key) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33U);
}

}  // namespace tidemark
