// The files that validate writes: rows.csv, validate.svg and validate.html.
#pragma once

#include <string>

#include "cli/output/output_folder.hpp"
#include "hwprofiles/calibrate/validated.hpp"

namespace tidemark {

// Adds the three files of a validation to the folder. rows.csv has every row, the worst first:
// group, metric, row, file, line, predicted, measured, error. The picture shows the times of
// operators and steps, or where there are none the most frequent of bytes and other metrics.
void add_validation_files(OutputFolder& folder, const Validation& validation);

// Returns a value of a row in the unit of its metric: "24.9 GiB", "12.3 ms".
[[nodiscard]] std::string value_text(const ValidatedRow& row, double value);

// Returns how far a row is off, whichever way: |log(predicted / measured)|, at most 1 for a check
// that does not hold.
[[nodiscard]] double distance_of(const ValidatedRow& row);

}  // namespace tidemark
