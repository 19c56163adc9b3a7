// The peak of a point in terms that add up: layers that repeat together, tensors that are alike,
// and the way from what is live to what the device holds.
#pragma once

#include <cstdint>
#include <string>

#include "sim/step/simulate.hpp"

namespace tidemark {

// "h.3" of "h.3.attn": up to the first part that is a number, where layers repeat.
[[nodiscard]] std::string block_of(const std::string& layer);
// "h.*.attn" of "h.3.attn": what repeated layers have in common.
[[nodiscard]] std::string pattern_of(const std::string& layer);
// The part of a tensor's name behind its layer's, which has the layer's number in it.
[[nodiscard]] std::string name_in_layer(const LargestTensor& tensor);

// What the device holds, from the live bytes of the peak on; the terms add up to device().
struct DeviceTerms {
  std::int64_t live = 0;
  std::int64_t rounding = 0;     // blocks are multiples of 512 bytes, and not always split
  std::int64_t cached = 0;       // reserved and free at that moment
  std::int64_t other_times = 0;  // reserved at other times, and kept
  std::int64_t context = 0;      // of the framework
  [[nodiscard]] std::int64_t reserved() const { return live + rounding + cached + other_times; }
  [[nodiscard]] std::int64_t device() const { return reserved() + context; }
};
[[nodiscard]] DeviceTerms device_terms(const PointResult& point, const PointDetail& detail);

}  // namespace tidemark
