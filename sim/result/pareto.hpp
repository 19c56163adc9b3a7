// Runs as points of memory and time, and the runs that no other one beats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/core/units.hpp"

namespace tidemark {

// A run as a point of memory and time.
struct TradeOff {
  std::string name;
  Bytes memory;        // bytes of the device
  double seconds = 0;  // step time; 0: unknown, as of a run that does not fit
  bool fits = true;
};

// Returns the indices of the runs that fit and that no other one beats in one of memory and time
// without being worse in the other; by memory. Equal runs are all there, or none.
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<TradeOff>& runs);

}  // namespace tidemark
