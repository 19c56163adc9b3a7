// Changes of a scenario that are tried by simulating it with them.
#pragma once

#include <cstddef>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// A candidate is a list of measures that are taken together.
using Candidate = std::vector<Measure>;

// The scenario on which candidates are tried, and its result.
struct OriginalPoint {
  const Value& document;
  const Scenario& scenario;
  const TrainedModel& model;
  const Environment& environment;
};

// Tries measures and keeps what came of each.
class Trials {
 public:
  Trials(const Measures& measures, const OriginalPoint& original)
      : measures_(measures), original_(original) {}

  // Simulates the scenario with a candidate, unless it is not legal here. Returns whether it fits.
  // `compiled`, if given, is the program of both.
  bool run(const Candidate& candidate, const Compiled* compiled = nullptr);
  // Returns whether the scenario with a candidate fits as far as two of its micro-batches show: the
  // third takes no other memory than the second. Nothing is kept of it.
  [[nodiscard]] bool seems_to_fit(const Candidate& candidate) const;
  // Returns whether something fits that takes some of these measures, or all of them.
  [[nodiscard]] bool less_fits(const Candidate& candidate) const;
  // Returns whether something fits that leaves the numbers as they are.
  [[nodiscard]] bool unchanged_fits() const;
  // Returns whether a single measure of this kind fits.
  [[nodiscard]] bool fits_alone(MeasureKind kind) const;

  // Drops what was tried from the `first` on, but for the one at `kept` and, where `failures` is
  // set, what does not fit.
  void drop_from(std::size_t first, std::size_t kept, bool failures);
  [[nodiscard]] std::size_t size() const { return tried_.size(); }
  // Returns everything that was tried: what fits, fastest first, then the rest.
  [[nodiscard]] std::vector<Suggestion> ranked() &&;

 private:
  struct Tried {
    std::vector<MeasureKind> kinds;
    Suggestion suggestion;
  };

  const Measures& measures_;
  const OriginalPoint& original_;
  std::vector<Tried> tried_;
};

}  // namespace tidemark
