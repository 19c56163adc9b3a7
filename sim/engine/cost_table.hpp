// Prices of a training graph on one device: one column beside the device-independent program.
#pragma once

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/cost_model.hpp"
#include "hwprofiles/interconnect_model.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

struct CostTable {
  IdVector<OperatorId, Duration> device;    // on its stream, alone on the device
  IdVector<OperatorId, Duration> dispatch;  // host time until it is enqueued

  // Copies: seconds per byte alone and while the other direction is busy, and the fixed part.
  struct Link {
    double ns_per_byte_alone = 0;
    double ns_per_byte_duplex = 0;
    Duration latency{};
  };
  Link copy_out;
  Link copy_in;
  Link nvme_read;  // independent of each other and of the copies
  Link nvme_write;
  Duration copy_dispatch{};
  double pinned_ns_per_byte = 0;  // page-locking host memory
  // The part of `device` that is memory traffic, and how much longer that part may take before the
  // kernel does, because arithmetic or launches take longer. Empty: all of it, nothing.
  IdVector<OperatorId, Duration> memory;
  IdVector<OperatorId, Duration> slack;
  // Memory traffic beside a running copy takes this much longer per copy (share of HBM bandwidth
  // that the copy takes).
  double tax_copy_out = 0;
  double tax_copy_in = 0;

  Duration synchronize{};    // of the device by the host
  Duration device_malloc{};  // one cudaMalloc
  Duration device_free{};    // one cudaFree
};

// The ranks of the mesh are equal and share hosts of DeviceProfile::host.gpus GPUs each: their
// copies, NVMe requests and optimizers on the CPU run at the same time and share the host's
// bandwidth evenly. A copied byte crosses host memory once.
[[nodiscard]] CostTable price(const TrainingGraph& graph, const CostModel& model,
                              const Mesh& mesh = {});

// By operator: `device`, but nothing for collectives: they run beside compute, so that policies
// that add up compute time leave them out.
[[nodiscard]] IdVector<OperatorId, Duration> compute_durations(const TrainingGraph& graph,
                                                               const CostTable& costs);

}  // namespace tidemark
