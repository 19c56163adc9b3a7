#include "sim/result/pareto.hpp"

#include <algorithm>
#include <numeric>

namespace tidemark {

std::vector<std::size_t> pareto_front(const std::vector<TradeOff>& runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return !runs[i].fits || runs[i].seconds <= 0; });
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return runs[a].memory.count != runs[b].memory.count
               ? runs[a].memory.count < runs[b].memory.count
               : runs[a].seconds < runs[b].seconds;
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    if (front.empty() || runs[i].seconds < runs[front.back()].seconds ||
        (runs[i].seconds == runs[front.back()].seconds &&
         runs[i].memory.count == runs[front.back()].memory.count)) {
      front.push_back(i);
    }
  }
  return front;
}

}  // namespace tidemark
