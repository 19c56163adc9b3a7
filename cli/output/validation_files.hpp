// The files that validate writes: rows.csv, validate.svg and validate.html.
#pragma once

#include <string>

#include "cli/output/output_folder.hpp"
#include "hwprofiles/calibrate/validated.hpp"

namespace tidemark {

// Adds the three files of a validation to the folder. rows.csv has every row, the worst first:
// group, metric, row, file, line, predicted, measured, error. The picture shows times, or where
// there are none the most frequent metric.
void add_validation_files(OutputFolder& folder, const Validation& validation);

// Returns how far a row is off, whichever way: |log(predicted / measured)|, at most 1 for a check
// that does not hold.
[[nodiscard]] double distance_of(const ValidatedRow& row);

}  // namespace tidemark
