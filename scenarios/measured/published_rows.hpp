// What the tables of published steps have in common: metrics by name, and rows that cannot be said
// as a scenario.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/measured/row_reader.hpp"
#include "scenarios/measured/step_tables.hpp"

namespace tidemark {

// A row that is right and cannot be said as a scenario. Caught by read_published_rows().
struct NotMapped {
  std::string reason;
};

// Where a published step ran.
struct PublishedDevice {
  std::string gpu;
  int count = 1;
  bool room = true;  // a time is that of a step whose memory suffices, and a peak is not cut off
};

// Returns the YAML of a row's `hardware`.
[[nodiscard]] std::string hardware_of(const PublishedDevice& device);

// Returns a cell's whole number, 1 for an empty one. Throws RowFault.
[[nodiscard]] std::int64_t ranks_of(const RowReader& row, const char* column);

// Returns the YAML of a row's optimizer without its implementation: the name in its column, adamw
// where it is empty. Throws NotMapped for others.
[[nodiscard]] std::string optimizer_of(const RowReader& row);

// Returns the precision of a row's scenario. fp32 parameters that are gathered in bf16 are those of
// "bf16_fsdp", whose policy says the rest. Throws NotMapped for others.
[[nodiscard]] std::string precision_of(const RowReader& row);

// Returns the policy that recomputes what a row says, empty where it recomputes nothing. Throws
// NotMapped for others.
[[nodiscard]] std::string recompute_of(const RowReader& row);

[[nodiscard]] std::string policy_list(const std::vector<std::string>& policies);

// The columns that a kind of table has for the same.
struct PublishedColumns {
  const char* metric = "metric_norm";
  const char* kind = "precision_norm";               // errors are summed up by source and this
  std::function<std::string(const RowReader&)> gpu;  // null: the column gpu_profile
  bool marks_usable = true;  // usable_memory and usable_time say which rows count
};

// Reads the rows that are usable for their metric; scenario_of() returns the YAML of one and may
// throw NotMapped and RowFault.
using PublishedScenario = std::function<std::string(const RowReader&, const PublishedDevice&)>;
[[nodiscard]] MeasuredSteps read_published_rows(const CsvTable& table,
                                                const StepTableOptions& options,
                                                const PublishedScenario& scenario_of,
                                                const PublishedColumns& columns = {});

// Fine-tuning on one GPU with columns for methods, adapters and quantised weights.
[[nodiscard]] bool is_adapter_table(const CsvTable& table);
[[nodiscard]] MeasuredSteps read_adapter_runs(const CsvTable& table,
                                              const StepTableOptions& options);

// Steps on many GPUs with the columns of parallel runs, each said as its system ran it.
[[nodiscard]] bool is_parallel_table(const CsvTable& table);
[[nodiscard]] MeasuredSteps read_parallel_runs(const CsvTable& table,
                                               const StepTableOptions& options);

}  // namespace tidemark
