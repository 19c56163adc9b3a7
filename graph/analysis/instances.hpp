// Instances of storages: micro-batches in flight together have values of their own.
//
//   storage        instances with three micro-batches in flight
//   parameter      0
//   activation     0  1  2
//
// A storage that outlives its micro-batch (initial or persistent), or of which a rank has one for
// all of them, has one instance. Micro-batches
// that are not in flight together share one, so a plain order has as many instances as storages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/analysis/program_order.hpp"
#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

using InstanceId = Id<struct InstanceTag>;  // a storage of one micro-batch in flight

// The instances of a graph's storages under one order: all of a storage are neighbours.
class Instances {
 public:
  Instances(const TrainingGraph& graph, const ProgramOrder& order)
      : graph_(graph), in_flight_(static_cast<std::uint32_t>(order.in_flight)) {}

  [[nodiscard]] std::size_t size() const { return graph_.storages.size() * in_flight_; }
  // Returns the instance that an occurrence with Occurrence::instance `number` touches.
  [[nodiscard]] InstanceId of(StorageId storage, std::uint16_t number) const {
    const bool own = number != 0 && !outlives_micro_batch(graph_.storages[storage]);
    return InstanceId(storage.value * in_flight_ + (own ? number : 0U));
  }

 private:
  [[nodiscard]] static bool outlives_micro_batch(const Storage& storage) {
    return storage.initial || storage.persistent || storage.one_per_rank;
  }
  const TrainingGraph& graph_;
  std::uint32_t in_flight_;
};

}  // namespace tidemark
