// How far a fit is followed, told by rows that it has not seen.
//
// The figures that a profile has may know more than the rows do: with few rows a fit answers their
// noise. So the rows are parted into folds, each fold is predicted by a fit to the others, and of
//   figure = prior * (fit / prior)^share,    share = 0, 1/4, ... 1
// the share is taken that lowers the errors most, as long as it lowers them by more than chance
// explains; without one it is 0 and the profile keeps its figures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tidemark {

inline constexpr std::array<double, 5> kFollowedShares{0, 0.25, 0.5, 0.75, 1};
inline constexpr std::size_t kFolds = 10;
// Different rows; with fewer the prior alone restrains the fit.
inline constexpr std::size_t kFewestToValidate = 4;

// Which errors of unseen rows are to fall.
enum class JudgedBy : std::uint8_t {
  kMean,   // of few rows that all count, as whole steps
  kMedian  // of many rows, some of which run another kernel: the mean square root stands for it
};

// Returns the fold of each row, below kFolds: rows of equal hash share one, and folds are even.
[[nodiscard]] std::vector<std::size_t> folds_of(std::span<const std::uint64_t> hashes);

// The absolute relative errors of the unseen rows at each share.
using UnseenErrors = std::array<std::vector<double>, kFollowedShares.size()>;

// Returns the share by which to follow the fit.
[[nodiscard]] double followed_share(const UnseenErrors& errors, JudgedBy judged_by);

}  // namespace tidemark
