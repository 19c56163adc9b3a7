// Two peaks side by side, for people and for scripts.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/peak_difference.hpp"

namespace tidemark {

struct DiffView {
  std::size_t top = 20;  // most rows of a table
  bool colour = false;
  std::size_t width = 0;  // width of the terminal; 0: none
};
// Returns the differences of two simulated points, term by term.
[[nodiscard]] std::string difference_text(const DetailedPoint& a, const DetailedPoint& b,
                                          const DiffView& view);
[[nodiscard]] nlohmann::ordered_json difference_json(const DetailedPoint& a,
                                                     const DetailedPoint& b);

}  // namespace tidemark
