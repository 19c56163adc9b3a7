// Chooses which of many points have charts of their own in a report: those that no other beats in
// time and memory, the slowest, the one with most memory, and the first.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include "scenarios/results/compared_time.hpp"

namespace tidemark {

// Returns at most `most` of the points that could be built, by index. Of points that are equal in
// time and memory the first counts; of a front that is too long, some from end to end.
[[nodiscard]] std::vector<std::size_t> charted_points(std::span<const PointResult> points,
                                                      std::size_t most);

// Finds the points that charted_points() may choose while they come one by one, in any order, so
// that the runs of the others need not be kept. What is compared is only known in the end: a
// candidate is on the front by the time of a step, of a sample or of tokens.
class ChartCandidates {
 public:
  explicit ChartCandidates(std::size_t most) : most_(most) {}

  // Adds a point, and returns the candidates that it replaces. It is one itself if is_candidate()
  // says so afterwards.
  std::vector<std::size_t> add(std::size_t index, const PointResult& point);
  [[nodiscard]] bool is_candidate(std::size_t index) const { return candidates_.contains(index); }

 private:
  struct Candidate {
    std::size_t index = 0;
    Bytes memory;
    double seconds = 0;  // time of one unit of work
  };

  std::size_t most_;
  std::array<std::vector<Candidate>, 3> fronts_;   // front of each WorkUnit
  std::array<std::vector<Candidate>, 3> slowest_;  // one each, once there is a point
  std::vector<Candidate> largest_;                 // the one with most memory
  std::set<std::size_t> first_;                    // those that come first
  std::set<std::size_t> candidates_;               // the union of these
};

}  // namespace tidemark
