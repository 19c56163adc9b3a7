#include "scenarios/results/peak_terms.hpp"

#include <algorithm>
#include <cctype>

namespace tidemark {

std::string block_of(const std::string& layer) {
  std::size_t begin = 0;
  while (begin < layer.size()) {
    const std::size_t end = std::min(layer.find('.', begin), layer.size());
    const bool number = std::all_of(layer.begin() + static_cast<std::ptrdiff_t>(begin),
                                    layer.begin() + static_cast<std::ptrdiff_t>(end),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number) return layer.substr(0, end);
    begin = end + 1;
  }
  return layer;
}

std::string pattern_of(const std::string& layer) {
  const std::string block = block_of(layer);
  const std::size_t number = block.rfind('.') + 1;  // 0 without a dot
  const bool numbered =
      !block.empty() && std::isdigit(static_cast<unsigned char>(block.back())) != 0;
  return numbered ? block.substr(0, number) + '*' + layer.substr(block.size()) : layer;
}

std::string name_in_layer(const LargestTensor& tensor) {
  const bool prefixed = !tensor.layer.empty() && tensor.tensor.starts_with(tensor.layer + '.');
  return prefixed ? tensor.tensor.substr(tensor.layer.size() + 1) : tensor.tensor;
}

DeviceTerms device_terms(const PointResult& point, const PointDetail& detail) {
  const Bytes live = sum_of(point.peak.by_role);
  Bytes active = live;
  Bytes reserved = live;
  // The state at the peak: the last one recorded for the instruction that reached it.
  for (const TimelinePoint& p : detail.timeline.points) {
    if (p.instruction > point.run.live.instruction) break;
    active = p.active;
    reserved = p.reserved;
  }
  return {.live = live,
          .rounding = active - live,
          .cached = reserved - active,
          .other_times = point.run.reserved.bytes - reserved,
          .context = point.context};
}

}  // namespace tidemark
