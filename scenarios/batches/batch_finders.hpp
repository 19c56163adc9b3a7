// The batch-size finders of training libraries: which batches they try, and which they return.
//
//   the largest batch that fits is 37      tries                          returns
//   lightning_power                        2 4 8 16 32 64                 32
//   lightning_binsearch, margin 0          2 4 8 16 32 64 48 40 36 38 37  37
//   accelerate, from 128                   128 115 103 92 ... 46 41 36    36
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tidemark {

enum class FinderRule : std::uint8_t {
  kPower,      // doubles until a batch does not fit, halves, and returns that untested
  kBinsearch,  // doubles until a batch does not fit, then bisects
  kShrink,     // goes down by a factor from the first batch, and keeps the first that fits
};

struct BatchFinder {
  std::string_view name;
  FinderRule rule = FinderRule::kPower;
  std::int64_t first = 2;       // the batch that is tried first
  int max_trials = 25;          // kPower: trials; kBinsearch: trials that fit; kShrink: no limit
  int trial_steps = 3;          // training steps of one trial; 0: the training itself is the trial
  std::int64_t samples = 8192;  // samples of the data set: no batch is larger; kShrink: no limit
  int margin_percent = 0;       // kBinsearch: share that is taken off what was found
  double factor = 0.9;          // kShrink: factor between one batch and the next
  std::string_view source;
};

// The finders by name: lightning_power, lightning_binsearch, accelerate (releases from 1.0 on) and
// accelerate_halving (before).
[[nodiscard]] std::span<const BatchFinder> batch_finders();

struct FinderTrials {
  std::vector<std::int64_t> tried;  // batches in the order of the trials
  std::int64_t found = 0;           // the batch that the finder returns; 0: it gives up
  bool tested = false;  // whether a trial with that batch, or a larger one, went through
};

// Runs a finder; `fits(batch)` is one trial and must not depend on earlier ones. Sources:
// Lightning-AI/pytorch-lightning tuner/batch_size_scaling.py, huggingface/accelerate
// utils/memory.py.
[[nodiscard]] FinderTrials find_batch(const BatchFinder& finder,
                                      const std::function<bool(std::int64_t)>& fits);

}  // namespace tidemark
