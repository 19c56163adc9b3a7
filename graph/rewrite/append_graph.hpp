// Appends one training graph to another, as the chunks of a rank and the turns of a step are put
// together.
#pragma once

#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

// The ids that elements of a graph have in the graph that it is appended to.
struct AppendedIds {
  IdVector<StorageId, StorageId> storages;
  IdVector<LayerId, LayerId> layers;
  // Parameters that the other graph has already; invalid for those that are appended, whose ids are
  // filled in.
  IdVector<ParameterId, ParameterId> parameters;
  std::uint32_t first_operator = 0;  // of those appended
  std::size_t first_hold = 0;

  [[nodiscard]] StorageId of(StorageId id) const { return id.valid() ? storages[id] : id; }
  [[nodiscard]] LayerId of(LayerId id) const { return id.valid() ? layers[id] : id; }
  [[nodiscard]] OperatorId of(OperatorId id) const {
    return id.valid() ? OperatorId(id.value + first_operator) : id;
  }
};

// Appends operators, touches, holds, parameters and what is updated. Storages, layers and parts are
// the caller's: `ids` names the first two.
void append_graph(TrainingGraph& result, const TrainingGraph& source, AppendedIds& ids);

}  // namespace tidemark
