// Training graphs written down by hand.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "graph/operators/family.hpp"

namespace tidemark::testing {

inline StorageId add_storage(TrainingGraph& graph, std::string name, std::int64_t bytes, Role role,
                             LayerId layer) {
  return graph.storages.push_back(
      {.bytes = Bytes(bytes), .role = role, .layer = layer, .name = std::move(name)});
}

// An operator that takes one microsecond.
inline OperatorId add_microsecond(TrainingGraph& graph, std::string name, Phase phase,
                                  LayerId layer, const std::vector<Touch>& touches) {
  Operator op;
  op.family = find_family(name);
  op.part = phase == Phase::kForward ? OperatorPart::kForward : OperatorPart::kBackward;
  op.name = std::move(name);
  op.phase = phase;
  op.layer = layer;
  op.work = {.op_class = OperatorClass::kFixed, .fixed = std::chrono::microseconds(1)};
  return graph.add_operator(std::move(op), touches);
}

}  // namespace tidemark::testing
