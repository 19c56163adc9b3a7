// The readers of the two kinds of tables of training steps.
#pragma once

#include "scenarios/measured/measured_steps.hpp"

namespace tidemark {

[[nodiscard]] MeasuredSteps read_timm_table(const CsvTable& table, const StepTableOptions& options);
[[nodiscard]] MeasuredSteps read_published_steps(const CsvTable& table,
                                                 const StepTableOptions& options);

}  // namespace tidemark
