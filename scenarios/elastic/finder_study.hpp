// Runs a training library's batch-size finder on a scenario: each trial is simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/batches/batch_finders.hpp"
#include "scenarios/studies/fit.hpp"

namespace tidemark {

struct FinderTrial {
  std::int64_t batch = 0;
  bool went_through = false;
  std::string reason;  // the reason why it did not
  // Time of the trial's steps on the device. A trial that fails is over with the phase in which it
  // does. Where the training itself is the trial, one that goes through takes none.
  Duration time{};
  PointResult result;
};

struct FinderStudy {
  BatchFinder finder;
  std::vector<FinderTrial> trials;
  std::int64_t found = 0;  // the batch that the finder returns; 0: it gives up
  // Whether that batch fits in every step of a training, which the finder may not have tried; none
  // where it gives up.
  std::optional<bool> fits;
  Duration time{};  // all trials together
};

// Simulates the trials of `finder` with the key of `options` as the batch. Throws as fit() does.
[[nodiscard]] FinderStudy study_finder(const Value& document, const Environment& environment,
                                       const FitOptions& options, const BatchFinder& finder);

}  // namespace tidemark
