// Changes of a scenario that are tried by simulating it with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// A candidate is a list of measures that are taken together.
using Candidate = std::vector<Measure>;

// Operators that a suggested step runs at most, over its micro-batches: simulating a million of
// them takes about four seconds with the steps that show whether it converges.
inline constexpr std::int64_t kMostOperators = 250'000;

// Returns the operators of a micro-batch, over all stages.
[[nodiscard]] std::int64_t operators_of(const TrainedModel& model);

// The scenario on which candidates are tried, and its result.
struct OriginalPoint {
  const Value& document;
  const Scenario& scenario;
  const TrainedModel& model;
  const Environment& environment;
  const PointResult& result;
};

// Tries measures and keeps what came of each.
class Trials {
 public:
  Trials(const Measures& measures, const OriginalPoint& original);

  // Simulates the scenario with a candidate, unless it is not legal here. Returns whether it fits.
  // `compiled`, if given, is the program of both. In a pipeline the stage that takes most of its
  // device comes first: where it cannot fit, the candidate's figures are those of that stage alone.
  bool run(const Candidate& candidate, const Compiled* compiled = nullptr);
  // Returns whether the scenario with a candidate fits as far as two of its micro-batches show, as
  // the third takes no other memory than the second, or as far as one stage of a pipeline does.
  // Nothing is kept of it.
  [[nodiscard]] bool seems_to_fit(const Candidate& candidate) const;
  // Returns whether something fits that takes some of these measures, or all of them.
  [[nodiscard]] bool less_fits(const Candidate& candidate) const;
  // Returns whether something fits that leaves the numbers as they are.
  [[nodiscard]] bool unchanged_fits() const;
  // Returns whether what fits will do: a step of very many operators is not simulated further times
  // once something fits that leaves the numbers as they are.
  [[nodiscard]] bool will_do() const { return operators_ > kMostOperators && unchanged_fits(); }
  // Returns whether a simulation is so short that more than the usual ones may be tried.
  [[nodiscard]] bool is_short() const { return operators_ <= kMostOperators / 5; }
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
  std::int64_t operators_;  // of the step, over its micro-batches
  std::vector<Tried> tried_;
};

}  // namespace tidemark
