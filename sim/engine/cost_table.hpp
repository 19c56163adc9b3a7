// Prices of a training graph on one device: one column next to the device-independent program.
#pragma once

#include <cstdint>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/cost_model.hpp"
#include "hwprofiles/interconnect_model.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

// The ways in which the host brings kernels to the device.
enum class HostClock : std::uint8_t {
  kEager,       // one by one, each after the framework's work for its operator
  kCudaGraphs,  // each part of a step (forward, backward, optimizer) as one recorded graph
};

struct CostTable {
  IdVector<OperatorId, Duration> device;    // duration on its stream, alone on the device
  IdVector<OperatorId, Duration> dispatch;  // host time until it is enqueued

  // The speed of one direction of a link: seconds per byte alone and while the other direction is
  // busy, and the fixed part of a copy.
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
  double page_locking_ns_per_byte = 0;  // time to page-lock host memory
  // `memory` is the part of `device` that is memory traffic; `slack` is how much longer that part
  // may take before the kernel does, because arithmetic or launches take longer. When they are
  // empty, all of the time is memory traffic and there is no slack.
  IdVector<OperatorId, Duration> memory;
  IdVector<OperatorId, Duration> slack;
  // Memory traffic during a running copy takes this much longer per copy (share of HBM bandwidth
  // that the copy takes).
  double tax_copy_out = 0;
  double tax_copy_in = 0;
  // The same of a running collective, by operator; 0 for other operators. Empty where nothing
  // communicates.
  IdVector<OperatorId, double> tax_collective;
  // The part of its duration alone for which a collective keeps links busy, by operator. Those that
  // together ask for more than a link has run that much longer. Empty where nothing communicates.
  IdVector<OperatorId, LinkUse> link_use;
  // Without NVLink the link inside the node is the one to the host: copies that run are one more
  // that asks for all of it.
  bool copies_share_inside = false;
  // Share of the multiprocessors that the kernel of each running collective occupies: arithmetic
  // has those that are left.
  double collective_multiprocessors = 0;

  Duration synchronize{};    // the host synchronizes with the device
  Duration device_malloc{};  // one cudaMalloc
  Duration device_free{};    // one cudaFree
};

// Prices the operators of a graph on one device. The ranks of the mesh are equal and share hosts
// (Mesh::ranks_on_host()): their copies, NVMe requests and optimizers on the CPU run at the same
// time and share the host's bandwidth evenly. A copied byte crosses host memory once.
//
// Products take longer than alone on the device, where the profile says by how much
// (DeviceProfile::sustained_matmul), and as long as on the slowest of the ranks.
//
// With CUDA graphs only the first operator of each part of the step costs the host a dispatch, and
// so does the one after an operator whose result the host waits for: a graph ends there. Kernels
// inside follow each other at LaunchProfile::in_graph, copies are nodes of the graphs.
[[nodiscard]] CostTable price(const TrainingGraph& graph, const CostModel& eager,
                              const Mesh& mesh = {}, HostClock clock = HostClock::kEager);

// Returns `device` of each operator, but nothing for collectives: they run concurrently with
// compute, so policies that add up compute time leave them out.
[[nodiscard]] IdVector<OperatorId, Duration> compute_durations(const TrainingGraph& graph,
                                                               const CostTable& costs);

}  // namespace tidemark
