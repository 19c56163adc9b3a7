// Writes results as a table for spreadsheets.
#pragma once

#include <ostream>
#include <span>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Writes one row per point: its name, a column per key that any point overrides (empty where a
// point does not), status, bytes, seconds, rates, and the reason where it does not fit or failed.
void write_results_csv(std::ostream& out, std::span<const PointResult> points);

}  // namespace tidemark
