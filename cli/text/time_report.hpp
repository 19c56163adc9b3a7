// The time of a step by kernel and by layer, as text and for scripts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/results/time_terms.hpp"

namespace tidemark {

// Returns the longest of the terms as shares of the step: "linear 31 %, attention 12 %".
[[nodiscard]] std::string longest_terms(const std::vector<TimeTerm>& terms, Duration step);

// Returns what the step's time depends on: "arithmetic 61 %, memory 30 %, the host 9 %".
[[nodiscard]] std::string bounds_text(const PointResult& point);
// Returns the rates of a step that fits: "4,251 tokens/s, 2.1 samples/s, 41 % of the peak
// arithmetic (MFU)".
[[nodiscard]] std::string throughput_text(const PointResult& point);
// Returns what a million tokens, or a thousand samples, cost; empty where the device has neither a
// price nor a power.
[[nodiscard]] std::string cost_text(const PointResult& point);

struct TimeReportView {
  std::size_t top = 20;  // kinds of kernels and modules to list
  bool all = false;      // lists every one of them; modules that repeat on their own
  bool colour = false;
  std::size_t width = 0;  // width of the terminal; 0: none
};
// Returns a table of the kinds of kernels and one of the modules, each ending with the step.
[[nodiscard]] std::string time_tables(const TimeTerms& terms, const TimeReportView& view);

// Returns {"operators": [...], "layers": [...]}: name, kernels, and seconds by phase.
[[nodiscard]] nlohmann::ordered_json time_terms_json(const TimeTerms& terms);
// Adds "operators" and "layers" (those that repeat together) to time.breakdown of a point's entry
// in the result document.
void add_time_terms(nlohmann::ordered_json& point, const TimeTerms& terms);

}  // namespace tidemark
