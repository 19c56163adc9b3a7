// The readers of the tables of operators, one for each source.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

// Reads one row; throws RowFault where it is wrong. A row that is right but not ours goes to
// `table.other`.
using RowFunction = void (*)(const CsvTable& csv, const CsvRow& row, MeasuredTable& table);

struct OperatorTableKind {
  std::string_view name;
  std::span<const std::string_view> columns;  // columns that a table of the kind has
  RowFunction read;
};

// DeepBench, NeuSight and published rates, and our own.
[[nodiscard]] std::span<const OperatorTableKind> published_table_kinds();
[[nodiscard]] const OperatorTableKind& plain_table_kind();

// Reads LLMCompass' tables, which have no header; `op` comes from the file's name.
void read_llmcompass_row(std::string_view op, const CsvRow& row, MeasuredTable& table);

}  // namespace tidemark
