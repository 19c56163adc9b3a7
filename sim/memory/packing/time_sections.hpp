// Time, cut into the sections that matter to a packing.
//
//   a  +-------+                 Only the maximal sets of buffers that are live together restrict
//   b     +----------+           a packing: {a, b} and {b, c} here. Between the start of a buffer
//   c             +------+       and the next end of one lies one such section; whatever else is
//          0         1           live at other instants is a part of a neighbour.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/packing/problem.hpp"

namespace tidemark {

// The sections first <= s < last of one buffer; never empty. Two buffers are live together exactly
// when they share a section.
struct SectionSpan {
  int first = 0;
  int last = 0;
  friend bool operator==(const SectionSpan&, const SectionSpan&) = default;
};
[[nodiscard]] inline bool overlap(const SectionSpan& a, const SectionSpan& b) {
  return a.first < b.last && b.first < a.last;
}

struct TimeSections {
  int count = 0;
  std::vector<SectionSpan> spans;  // sections of each buffer
};
[[nodiscard]] TimeSections time_sections(const PackingProblem& problem);

// Returns the groups of buffers that share no section with another group, in the order of time.
[[nodiscard]] std::vector<std::vector<int>> independent_components(
    const std::vector<SectionSpan>& spans, const std::vector<int>& buffers);

}  // namespace tidemark
