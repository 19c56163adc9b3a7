#include "policies/solver/max_flow.hpp"

#include <algorithm>
#include <limits>

namespace tidemark {

void FlowNetwork::add_edge(std::uint32_t from, std::uint32_t to, double capacity) {
  const auto edge = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back({to, first_[from], capacity});
  edges_.push_back({from, first_[to], 0});
  first_[from] = edge;
  first_[to] = edge + 1;
}

double FlowNetwork::run(std::uint32_t source, std::uint32_t sink) {
  double greatest = 0;
  for (std::uint32_t e = first_[source]; e != kNone; e = edges_[e].next)
    greatest = std::max(greatest, edges_[e].capacity);
  least_ = greatest * 1e-12;
  double flow = 0;
  while (label(source, sink)) {
    at_ = first_;
    for (;;) {
      const double pushed = push(source, sink, std::numeric_limits<double>::max());
      if (pushed <= least_) break;
      flow += pushed;
    }
  }
  return flow;
}

bool FlowNetwork::label(std::uint32_t source, std::uint32_t sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<std::uint32_t> queue{source};
  for (std::size_t k = 0; k < queue.size(); ++k) {
    for (std::uint32_t e = first_[queue[k]]; e != kNone; e = edges_[e].next) {
      if (edges_[e].capacity <= least_ || level_[edges_[e].to] >= 0) continue;
      level_[edges_[e].to] = level_[queue[k]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[sink] >= 0;
}

double FlowNetwork::push(std::uint32_t vertex, std::uint32_t sink, double limit) {
  if (vertex == sink) return limit;
  for (std::uint32_t& e = at_[vertex]; e != kNone; e = edges_[e].next) {
    Edge& edge = edges_[e];
    if (edge.capacity <= least_ || level_[edge.to] != level_[vertex] + 1) continue;
    const double pushed = push(edge.to, sink, std::min(limit, edge.capacity));
    if (pushed <= least_) continue;
    edge.capacity -= pushed;
    edges_[e ^ 1U].capacity += pushed;
    return pushed;
  }
  return 0;
}

}  // namespace tidemark
