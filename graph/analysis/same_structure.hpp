// The structure of a step: graphs that agree in it differ in sizes alone. The same operators touch
// the same storages in the same order, and only bytes, shapes and amounts of work are others.
#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// 128 bits by which structures are told apart within one run of the program: families of operators
// count by their addresses.
struct StructureDigest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const StructureDigest&, const StructureDigest&) = default;
  friend auto operator<=>(const StructureDigest& a, const StructureDigest& b) {
    return std::tie(a.high, a.low) <=> std::tie(b.high, b.low);
  }
};

// Returns the digest of everything that an order, its liveness and a program follow from but the
// bytes of storages, workspaces and messages. Names and amounts of work count as sizes; whether an
// operator has a workspace at all does not. `checkpoint_random_state` is a rule of the framework
// and counts.
[[nodiscard]] StructureDigest structure_digest(const TrainingGraph& graph);

}  // namespace tidemark
