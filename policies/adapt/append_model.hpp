// Puts a second model beside the one that is trained.
#pragma once

#include <string_view>

#include "graph/ir/graph.hpp"

namespace tidemark {

// Appends the nodes of `model`, which is an evaluation_graph(), to `into` as they run under
// no_grad: nothing is kept for backward, parameters have the role kTeacher and stand in no table,
// layers are named `prefix` and belong to no block. An input of `model` is the input of `into` with
// the same shape and type. Throws UserError, naming `policy`, where there is none.
struct AppendedModel {
  IdVector<TensorId, TensorId>
      tensor;  // copy of each tensor of `model`; invalid for roots that it never uses
};
[[nodiscard]] AppendedModel append_model(Graph& into, const Graph& model, std::string_view prefix,
                                         std::string_view policy);

}  // namespace tidemark
