// Files of measurements, compressed or not.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hwprofiles/measured/csv_table.hpp"

namespace tidemark {

// Returns the paths with each folder replaced by the *.csv and *.csv.gz below it and by the traces
// of PyTorch's profiler, *.pt.trace.json and *.pt.trace.json.gz, sorted; `scenarios`: by its
// *.yaml, too. Throws UserError for a folder without any.
[[nodiscard]] std::vector<std::string> measured_files(std::span<const std::string> paths,
                                                      bool scenarios = false);

// Throws UserError: missing, unreadable, empty.
[[nodiscard]] CsvTable read_csv_file(const std::string& path);

}  // namespace tidemark
