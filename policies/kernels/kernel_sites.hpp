// Finds the parts of a transformer's block that a library has one kernel for.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/operators/framework.hpp"

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
  // The result goes into a sum at once, as that of the norms behind attention and feed-forward of
  // Gemma 2: its gradient is the residual stream's, which other operators read as well.
  bool is_added = false;
  bool is_of_heads = false;  // a norm of the queries or keys of each head
};

// Returns the sites in the order of the nodes that make their results. RMSNorm is found as Hugging
// Face's code composes it and as one operator; a rotary embedding where all features of a head are
// rotated. Kernels that write over what they are given are found only where nothing else needs it,
// by the rules of autograd in `rules`.
[[nodiscard]] std::vector<KernelSite> find_kernel_sites(const Graph& graph,
                                                        const FrameworkRules& rules);

}  // namespace tidemark
