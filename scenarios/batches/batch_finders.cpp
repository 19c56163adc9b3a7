#include "scenarios/batches/batch_finders.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace tidemark {
namespace batch_finders_detail {
namespace {

constexpr std::string_view kLightning =
    "Lightning-AI/pytorch-lightning tuner/batch_size_scaling.py (BatchSizeFinder)";
constexpr std::string_view kAccelerate =
    "huggingface/accelerate utils/memory.py (find_executable_batch_size)";

constexpr std::array<BatchFinder, 4> kFinders{
    {{.name = "lightning_power", .rule = FinderRule::kPower, .source = kLightning},
     {.name = "lightning_binsearch",
      .rule = FinderRule::kBinsearch,
      .margin_percent = 5,
      .source = kLightning},
     {.name = "accelerate",
      .rule = FinderRule::kShrink,
      .first = 128,
      .trial_steps = 0,
      .factor = 0.9,
      .source = kAccelerate},
     {.name = "accelerate_halving",
      .rule = FinderRule::kShrink,
      .first = 128,
      .trial_steps = 0,
      .factor = 0.5,
      .source = kAccelerate}}};

// Keeps the record of the trials.
class Trials {
 public:
  explicit Trials(const std::function<bool(std::int64_t)>& fits) : fits_(fits) {}

  bool run(std::int64_t batch) {
    result_.tried.push_back(batch);
    const bool fitting = fits_(batch);
    if (fitting) largest_ = std::max(largest_, batch);
    return fitting;
  }
  [[nodiscard]] bool any_fits() const { return largest_ > 0; }
  [[nodiscard]] FinderTrials returning(std::int64_t batch) && {
    result_.found = batch;
    result_.tested = batch > 0 && batch <= largest_;
    return std::move(result_);
  }

 private:
  const std::function<bool(std::int64_t)>& fits_;
  FinderTrials result_;
  std::int64_t largest_ = 0;
};

FinderTrials find_by_power(const BatchFinder& finder, Trials trials) {
  std::int64_t batch = finder.first;
  for (int trial = 0; trial < finder.max_trials && batch > 0; ++trial) {
    if (trials.run(batch)) {
      // A batch that does not change any more ends the search: the data set as one batch is not
      // tried.
      const bool last = trial + 1 == finder.max_trials;
      if (!last) batch = std::min(2 * batch, finder.samples);
      if (batch >= finder.samples) break;
    } else {
      // Halving goes on only as long as nothing has fitted.
      batch /= 2;
      if (trials.any_fits()) break;
    }
  }
  return std::move(trials).returning(batch);
}

FinderTrials find_by_bisection(const BatchFinder& finder, Trials trials) {
  std::int64_t low = 1;
  std::optional<std::int64_t> high;
  std::int64_t batch = finder.first;
  for (int fitting = 0; batch > 0;) {
    if (trials.run(batch)) {
      low = batch;
      if (++fitting >= finder.max_trials) break;
      if (high && *high - low <= 1) break;
      batch = high ? (*high + low) / 2 : std::min(2 * batch, finder.samples);
      if (!high && batch >= finder.samples) break;
    } else {
      high = batch;
      // A first batch of 1 that does not fit leaves nothing between.
      if (*high <= low) {
        batch = 0;
        break;
      }
      batch = (*high + low) / 2;
      if (*high - low <= 1) break;
    }
  }
  const std::int64_t found = batch * (100 - finder.margin_percent) / 100;
  return std::move(trials).returning(batch > 0 ? std::max<std::int64_t>(found, 1) : 0);
}

FinderTrials find_by_shrinking(const BatchFinder& finder, Trials trials) {
  std::int64_t batch = finder.first;
  while (batch > 0 && !trials.run(batch))
    batch = static_cast<std::int64_t>(static_cast<double>(batch) * finder.factor);
  return std::move(trials).returning(batch);
}

}  // namespace
}  // namespace batch_finders_detail

std::span<const BatchFinder> batch_finders() {
  return batch_finders_detail::kFinders;
}

FinderTrials find_batch(const BatchFinder& finder, const std::function<bool(std::int64_t)>& fits) {
  const batch_finders_detail::Trials trials(fits);
  switch (finder.rule) {
    case FinderRule::kPower:
      return batch_finders_detail::find_by_power(finder, trials);
    case FinderRule::kBinsearch:
      return batch_finders_detail::find_by_bisection(finder, trials);
    case FinderRule::kShrink:
      break;
  }
  return batch_finders_detail::find_by_shrinking(finder, trials);
}

}  // namespace tidemark
