// Parts of the result document about the ranks of a run and what they send each other.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/step/point_result.hpp"

namespace tidemark {

// Returns the size of each dimension that has one.
[[nodiscard]] nlohmann::ordered_json mesh_json(const Mesh& mesh);

// Returns [{"group", "kind", "ranks", "count", "bytes", "seconds", "exposed_seconds"}] of the last
// step.
[[nodiscard]] nlohmann::ordered_json communication_json(const PointResult& point);

// Returns [{"group", "bytes"}]: what of the process's memory NCCL takes for each communicator.
[[nodiscard]] nlohmann::ordered_json communicators_json(const PointResult& point);

}  // namespace tidemark
