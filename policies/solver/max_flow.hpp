// Maximum flow by blocking flows (Dinic 1970), for capacities that are real numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace tidemark {

class FlowNetwork {
 public:
  explicit FlowNetwork(std::size_t vertices) : first_(vertices, kNone) {}
  void add_edge(std::uint32_t from, std::uint32_t to, double capacity);
  // Saturates; afterwards reaches() tells the source's side of a minimum cut.
  double run(std::uint32_t source, std::uint32_t sink);
  [[nodiscard]] bool reaches(std::uint32_t vertex) const { return level_[vertex] >= 0; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;  // edge of the same vertex
    double capacity;     // that is left; edge e's opposite is e ^ 1
  };
  bool label(std::uint32_t source, std::uint32_t sink);
  double push(std::uint32_t vertex, std::uint32_t sink, double limit);

  std::vector<std::uint32_t> first_, at_;
  std::vector<Edge> edges_;
  std::vector<int> level_;
  double least_ = 0;  // capacities below count as none
};

}  // namespace tidemark
