// Finds the largest value of a key with which a scenario fits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

struct FitOptions {
  std::string key;               // key of a sweep: "training.micro_batch", "model.layers"
  std::int64_t multiple_of = 1;  // only multiples of it are tried; >= 1
  std::int64_t limit = 1 << 20;  // the largest value that is tried; >= multiple_of
  SimulateOptions simulate{};    // `suggestions` for the smallest value only
  int threads = 1;               // for the points of a sweep; else for the last searches
};

struct FitPoint {
  std::int64_t value = 0;
  PointResult result;
};

struct Fit {
  std::vector<FitPoint> tried;  // ascending
  // index in `tried` of the largest value that fits; none if none fits
  std::optional<std::size_t> largest;
  // Index of the next value, which does not fit; none where the limit fits.
  std::optional<std::size_t> next;
  // The least value with which the live bytes alone are more than the allocator may take: neither
  // it nor, as live bytes grow with the value, any above it fits. None when the limit or a value
  // that cannot be built ended the search.
  std::optional<std::int64_t> excluded_from;
  std::int64_t untried = 0;  // values between `largest` and `excluded_from` that were not tried
};

// A value that is simulated: as one of many, for which searches of policies that no parameter
// limits end after kTrialSearch, or as the user would run it.
enum class SearchEffort : std::uint8_t { kTrial, kWhole };

struct TriedValue {
  PointResult result;
  bool limited = false;  // the search of a policy was limited, where the scenario does not limit it
};

// A scenario of one point, simulated with one value of a key after another.
class ValuePoints {
 public:
  // Throws UserError for a key that does not affect memory and for a sweep of several points. All
  // three outlive this, `document` excepted.
  ValuePoints(const Value& document, const Environment& environment, const FitOptions& options);

  // Simulates the scenario with a value of the key. Where that cannot be built the result is an
  // error with `name`, or UserError is thrown if `name` is empty.
  [[nodiscard]] TriedValue simulate(std::int64_t value, const std::string& name,
                                    SearchEffort effort, bool suggestions = false) const;

 private:
  Value document_;
  const Environment& environment_;
  const FitOptions& options_;
};

// Doubles the value from `multiple_of` until it does not fit, then halves the interval. Where the
// smallest value does not fit, it goes on only as long as live bytes shrink with larger ones. A
// value may fit though a smaller one does not, where fragmentation decides: those up to
// `excluded_from` are tried, too, or kTriedAbove of them, evenly. Policies search as for a trial;
// the answer and the next value are simulated with the whole search. Throws UserError where the
// smallest value cannot be built, with the reason; for a key that does not affect memory; for a
// sweep of several points.
inline constexpr int kTriedAbove = 128;
[[nodiscard]] Fit fit(const Value& document, const Environment& environment,
                      const FitOptions& options);

// The fit of one point of a sweep.
struct PointFit {
  std::vector<Override> overrides;
  Fit fit;
  std::string error;  // reason why its smallest value cannot be built; then there is no fit
};
// Returns the fits of all points of the document's sweep, in their order.
// Throws UserError for a key that does not affect memory, or that the sweep changes itself.
[[nodiscard]] std::vector<PointFit> fit_points(const Value& document,
                                               const Environment& environment,
                                               const FitOptions& options);

}  // namespace tidemark
