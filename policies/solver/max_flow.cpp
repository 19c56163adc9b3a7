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

std::optional<double> FlowNetwork::run(std::uint32_t source, std::uint32_t sink,
                                       Clock::time_point deadline) {
  auto late = [&, paths = 0U]() mutable {
    return (++paths & 255U) == 0 && deadline != Clock::time_point::max() && Clock::now() > deadline;
  };
  double greatest = 0;
  for (std::uint32_t e = first_[source]; e != kNone; e = edges_[e].next)
    greatest = std::max(greatest, edges_[e].capacity);
  least_ = greatest * 1e-12;
  double flow = 0;
  while (label(source, sink)) {
    if (deadline != Clock::time_point::max() && Clock::now() > deadline) return std::nullopt;
    at_ = first_;
    for (;;) {
      const double pushed = push(source, sink);
      if (pushed <= least_) break;
      flow += pushed;
      if (late()) return std::nullopt;
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

double FlowNetwork::push(std::uint32_t source, std::uint32_t sink) {
  path_.clear();
  for (std::uint32_t vertex = source; vertex != sink;) {
    std::uint32_t& e = at_[vertex];
    while (e != kNone &&
           (edges_[e].capacity <= least_ || level_[edges_[e].to] != level_[vertex] + 1))
      e = edges_[e].next;
    if (e != kNone) {
      path_.push_back(e);
      vertex = edges_[e].to;
      continue;
    }
    // Nothing leads on from here: the edge that led here is passed over.
    if (path_.empty()) return 0;
    vertex = edges_[path_.back() ^ 1U].to;
    path_.pop_back();
    at_[vertex] = edges_[at_[vertex]].next;
  }
  double pushed = std::numeric_limits<double>::max();
  for (const std::uint32_t e : path_)
    pushed = std::min(pushed, edges_[e].capacity);
  for (const std::uint32_t e : path_) {
    edges_[e].capacity -= pushed;
    edges_[e ^ 1U].capacity += pushed;
  }
  return pushed;
}

}  // namespace tidemark
