// Weights that are stored in fewer bytes than their elements take, as 2:4 sparse ones.
#pragma once

#include <algorithm>

#include "graph/ir/graph.hpp"

namespace tidemark {

// Whether the weight's storage holds it in another form than element by element, so that it can
// neither be cut nor given another type.
[[nodiscard]] inline bool is_packed(const Graph& graph, const Parameter& parameter) {
  return graph.storages[parameter.storage].dtype == DType::kByte && parameter.dtype != DType::kByte;
}

[[nodiscard]] inline bool has_packed_weights(const Graph& graph) {
  return std::any_of(graph.parameters.begin(), graph.parameters.end(),
                     [&](const Parameter& parameter) { return is_packed(graph, parameter); });
}

}  // namespace tidemark
