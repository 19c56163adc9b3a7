// Finds the parts of a transformer's block that a library has one kernel for.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

enum class KernelKind : std::uint8_t {
  kRmsNorm,  // operands: x, weight
  kGlu,      // act(gate) * up with act silu or gelu's approximation by tanh; operands: gate, up
  kRope,     // operands: x, cos, sin
};

struct KernelSite {
  KernelKind kind;
  NodeId last;                 // makes the part's result
  std::vector<NodeId> inside;  // nodes before it that only this part reads
  std::vector<TensorId> operands;
  // The result goes into a sum at once, as the norms behind attention and feed-forward of Gemma 2
  // do: its gradient is the residual stream's, which other operators read as well.
  bool is_added = false;
};

// Returns the sites in the order of the nodes that make their results. RMSNorm is found as Hugging
// Face's code composes it and as one operator; a rotary embedding where all features of a head are
// rotated.
[[nodiscard]] std::vector<KernelSite> find_kernel_sites(const Graph& graph);

}  // namespace tidemark
