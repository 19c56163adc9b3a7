// Every term of a point's peak.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/detailed_point.hpp"
#include "scenarios/studies/more_gpus.hpp"

namespace tidemark {

struct ExplanationView {
  std::size_t top = 20;  // number of tensors and layers to list
  bool all = false;      // lists every one of them, on its own
  bool colour = false;
  std::size_t width = 0;  // width of the terminal; 0: none
  std::optional<MoreGpus> more_gpus = {};
};

// Returns the peak by role, layer, tensor and phase, what is saved and moved, the time by kernel
// and layer, and the steps from the peak to what the device holds. Lines end with '\n'.
[[nodiscard]] std::string explanation(const DetailedPoint& point, const ExplanationView& view);

// Returns the result document with every layer and every saved tensor, for scripts.
[[nodiscard]] nlohmann::ordered_json explanation_json(const DetailedPoint& point,
                                                      const std::optional<MoreGpus>& more_gpus);

}  // namespace tidemark
