// An order in which to try the members of a list when time may not suffice for all of them.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace tidemark {

// Returns the list in an order of which every beginning is spread evenly over it: the first, the
// one in the middle, those at the quarters, and so on.
template <class T>
[[nodiscard]] std::vector<T> spread_evenly(std::vector<T> list) {
  std::vector<T> spread;
  spread.reserve(list.size());
  const std::size_t all = std::bit_ceil(list.size());
  for (std::size_t k = 0; k < list.size(); k += all)
    spread.push_back(std::move(list[k]));
  for (std::size_t stride = all; stride > 1; stride /= 2) {
    for (std::size_t k = stride / 2; k < list.size(); k += stride)
      spread.push_back(std::move(list[k]));
  }
  return spread;
}

}  // namespace tidemark
