#include "sim/memory/packing/time_sections.hpp"

#include <algorithm>

namespace tidemark {

TimeSections time_sections(const PackingProblem& problem) {
  std::vector<std::int64_t> times;
  for (const Buffer& b : problem.buffers) {
    times.push_back(b.lower);
    times.push_back(b.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto index = [&](std::int64_t time) {
    return static_cast<std::size_t>(std::lower_bound(times.begin(), times.end(), time) -
                                    times.begin());
  };
  std::vector<char> begins(times.size());
  std::vector<char> ends(times.size());
  for (const Buffer& b : problem.buffers) {
    begins[index(b.lower)] = 1;
    ends[index(b.upper)] = 1;
  }
  TimeSections sections;
  // Number of sections before each instant; a section lies just before the end that closes it.
  std::vector<int> before(times.size());
  bool begun = false;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (ends[i] != 0 && begun) {
      ++sections.count;
      begun = false;
    }
    before[i] = sections.count;
    if (begins[i] != 0) begun = true;
  }
  sections.spans.reserve(problem.buffers.size());
  for (const Buffer& b : problem.buffers) {
    sections.spans.push_back({.first = before[index(b.lower)], .last = before[index(b.upper)]});
  }
  return sections;
}

std::vector<std::vector<int>> independent_components(const std::vector<SectionSpan>& spans,
                                                     const std::vector<int>& buffers) {
  const auto span = [&](int b) { return spans[static_cast<std::size_t>(b)]; };
  std::vector<int> ordered = buffers;
  std::sort(ordered.begin(), ordered.end(), [&](int a, int b) {
    return span(a).first != span(b).first ? span(a).first < span(b).first : a < b;
  });
  std::vector<std::vector<int>> components;
  int end = -1;
  for (const int b : ordered) {
    if (span(b).first >= end) components.emplace_back();
    components.back().push_back(b);
    end = std::max(end, span(b).last);
  }
  return components;
}

}  // namespace tidemark
