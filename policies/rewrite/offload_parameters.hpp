// Parameters that live on the host or on NVMe and visit the device.
//
//   compute   [ F0 ][ F1 ][ F2 ]...[ B2 ][ B1 ][ B0 ]
//   h2d    [p0][p1]  [p2]              [p1]  [p0]        prefetch 1: while the layer before runs
//
// A parameter is fetched `prefetch` layers before the one that uses it and its device memory goes
// when that layer has run, unless it is used again within the same distance (DeepSpeed ZeRO-3,
// partitioned_param_coordinator.py; its offload_param). Parameters of fewer than `min_elements`
// stay (param_persistence_threshold).
//
// With prefetch_bucket_size, max_live_parameters or max_reuse_distance (elements) the limits of
// DeepSpeed's coordinator decide instead: at the entry of each module, once its own parameters are
// there, the next ones are fetched until the bucket is full or as many are live as allowed.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& offload_parameters_entry();

}  // namespace tidemark
