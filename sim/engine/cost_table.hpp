// Prices of a training graph on one device: one column beside the device-independent program.
#pragma once

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/cost_model.hpp"

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
  Duration copy_dispatch{};
  // While a copy runs, kernels that start take this much longer per running copy (share of HBM
  // bandwidth that the copy takes).
  double tax_copy_out = 0;
  double tax_copy_in = 0;

  Duration synchronize{};    // of the device by the host
  Duration device_malloc{};  // one cudaMalloc
  Duration device_free{};    // one cudaFree
};

[[nodiscard]] CostTable price(const TrainingGraph& graph, const CostModel& model);

}  // namespace tidemark
