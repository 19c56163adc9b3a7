// Maximum flow by blocking flows (Dinic 1970), for capacities that are real numbers.
//
// Boost.Graph's boykov_kolmogorov_max_flow takes more than twice our time on most cuts and between
// 1.7 and 3.4 times on bounds; on the cuts of one graph it is faster. Medians of 5 runs on graphs
// of ../shared/cases/rematerialization, ours and Boost's, in ms (paired, -O2, on a loaded machine):
//
//                        60 minimum cuts    4 bounds of cuts
//   unet_d2_n10            0.03   0.14        0.07   0.15
//   transformer_l1_n9      0.03   0.13        0.46   1.55
//   mobilenet              0.24   1.81       26.0   77.5
//   random_layered_100    15.7   11.2        47.0   78.1
//
// Cuts and bounds were the same. push_relabel_max_flow gave no result on chain_hom_n8 within 100 s,
// for an unknown reason.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace tidemark {

class FlowNetwork {
 public:
  explicit FlowNetwork(std::size_t vertices) : first_(vertices, kNone) {}
  void add_edge(std::uint32_t from, std::uint32_t to, double capacity);
  // Saturates the flow and returns it; afterwards reaches() tells the source's side of a minimum
  // cut. Nothing is returned, and no cut known, where `deadline` comes first.
  using Clock = std::chrono::steady_clock;
  std::optional<double> run(std::uint32_t source, std::uint32_t sink,
                            Clock::time_point deadline = Clock::time_point::max());
  [[nodiscard]] bool reaches(std::uint32_t vertex) const { return level_[vertex] >= 0; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Edge {
    std::uint32_t to;
    std::uint32_t next;  // edge of the same vertex
    double capacity;     // remaining capacity; edge e's opposite is e ^ 1
  };
  bool label(std::uint32_t source, std::uint32_t sink);
  // Pushes along one path of rising labels and returns how much; 0: there is none left.
  double push(std::uint32_t source, std::uint32_t sink);

  std::vector<std::uint32_t> first_, at_;
  std::vector<std::uint32_t> path_;  // edges from the source
  std::vector<Edge> edges_;
  std::vector<int> level_;
  double least_ = 0;  // capacities below count as none
};

}  // namespace tidemark
