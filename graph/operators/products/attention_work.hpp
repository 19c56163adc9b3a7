// The work of fused attention, which several families share.
#pragma once

#include <cstdint>

#include "graph/operators/node_view.hpp"

namespace tidemark {

// Returns the work of attention of the node's queries to its keys: `share` times that of forward.
[[nodiscard]] Work attention_work(const NodeView& node, double share, std::int64_t direction);
// Returns the workspace of the backward kernel.
[[nodiscard]] Bytes attention_backward_workspace(const NodeView& node);

}  // namespace tidemark
