// Groups of layers and tensors that repeat at the peak of a point.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/results/peak_terms.hpp"

namespace tidemark {

// Names and their bytes.
using Terms = std::vector<std::pair<std::string, Bytes>>;

// Puts layers of one block together, and blocks of one size: "h.* (47 of 28.0 MiB each)". The
// largest first.
[[nodiscard]] Terms by_block(const Terms& by_layer);

// Tensors that repeated layers have alike.
struct TensorGroup {
  LargestTensor tensor;  // named by the layers' pattern
  std::int64_t count = 0;
  [[nodiscard]] Bytes bytes() const { return tensor.bytes * count; }
};

// Groups tensors, or with `each` leaves every one on its own; the largest group first.
[[nodiscard]] std::vector<TensorGroup> group_tensors(const std::vector<LargestTensor>& tensors,
                                                     bool each);

// Saved tensors that repeated layers have alike: the operator that made them, and the backward that
// needs them.
struct SavedGroup {
  std::string made_by;
  std::string needed_by;
  std::int64_t count = 0;
  Bytes bytes;
};

// Groups saved tensors; with `each` layers keep their numbers and every reader is named. The
// largest group first.
[[nodiscard]] std::vector<SavedGroup> group_saved(const TrainingGraph& graph,
                                                  const std::vector<SavedTensor>& saved, bool each);

}  // namespace tidemark
