#include "hwprofiles/calibrate/cross_validation.hpp"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace cross_validation_detail {
namespace {

// Standard errors that a gain has to exceed: chance alone does so one time in twenty.
constexpr double kBeyondChance = 1.645;

// Returns by how much the mean score of the rows falls; 0 unless that is more than chance explains.
double gain_beyond_chance(const std::vector<double>& before, const std::vector<double>& after,
                          JudgedBy judged_by) {
  const auto score = [judged_by](double error) {
    return judged_by == JudgedBy::kMean ? error : std::sqrt(error);
  };
  const auto n = static_cast<double>(before.size());
  if (n < 2) return 0;
  double sum = 0;
  double squares = 0;
  for (std::size_t row = 0; row < before.size(); ++row) {
    const double gain = score(before[row]) - score(after[row]);
    sum += gain;
    squares += gain * gain;
  }
  const double gain = sum / n;
  const double variance = std::max(0.0, squares / n - gain * gain);
  const double standard_error = std::sqrt(variance / (n - 1));
  return gain > kBeyondChance * standard_error ? gain : 0;
}

}  // namespace
}  // namespace cross_validation_detail

std::vector<std::size_t> folds_of(std::span<const std::uint64_t> hashes) {
  std::vector<std::uint64_t> order(hashes.begin(), hashes.end());
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<std::size_t> folds;
  folds.reserve(hashes.size());
  for (const std::uint64_t hash : hashes) {
    const auto place = std::lower_bound(order.begin(), order.end(), hash);
    folds.push_back(static_cast<std::size_t>(place - order.begin()) % kFolds);
  }
  return folds;
}

double followed_share(const UnseenErrors& errors, JudgedBy judged_by) {
  double best_share = 0;
  double most = 0;
  for (std::size_t s = 1; s < errors.size(); ++s) {
    const double gain =
        cross_validation_detail::gain_beyond_chance(errors.front(), errors[s], judged_by);
    if (gain <= most) continue;
    most = gain;
    best_share = kFollowedShares[s];
  }
  return best_share;
}

}  // namespace tidemark
