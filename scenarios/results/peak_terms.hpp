// The peak of a point in terms that add up: layers that repeat together, tensors that are alike,
// and the steps from live bytes to what the device holds.
#pragma once

#include <string>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Returns "h.3" of "h.3.attn": up to the first part that is a number, where layers repeat.
[[nodiscard]] std::string block_of(const std::string& layer);
// Returns "h.*.attn" of "h.3.attn": the part of the name that repeated layers have in common.
[[nodiscard]] std::string pattern_of(const std::string& layer);
// Returns the part of a tensor's name behind its layer's, which has the layer's number in it.
[[nodiscard]] std::string name_in_layer(const LargestTensor& tensor);

// Terms of what the device holds, from the live bytes of the peak on; they add up to device().
struct DeviceTerms {
  Bytes live;
  Bytes rounding;     // blocks are multiples of 512 bytes, and not always split
  Bytes cached;       // reserved and free at that moment
  Bytes other_times;  // reserved at other times, and kept
  Bytes context;      // process overhead of the framework
  [[nodiscard]] Bytes reserved() const { return live + rounding + cached + other_times; }
  [[nodiscard]] Bytes device() const { return reserved() + context; }
};
[[nodiscard]] DeviceTerms device_terms(const PointResult& point, const PointDetail& detail);

}  // namespace tidemark
