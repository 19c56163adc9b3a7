// Memory that NCCL takes in one process, outside the caching allocator: that of each communicator.
//
// A process group is one communicator. It connects each of its channels to the ranks that the
// channel sends to and receives from, when they first communicate:
//
//   receiving   Simple 4 MiB, LL 512 KiB, LL128 4.6875 MiB, allocated together as 10 MiB
//   sending     2 MiB, the smallest allocation of that kind
//
// (NVIDIA/nccl@5067397c src/include/device.h and src/init.cc; sizes as seen in NVIDIA/nccl#1685.)
// The memory of the first communicator is measured, kernels that are loaded with it included
// (`framework.communication_buffers`); that of each further one is counted by this rule.
#pragma once

#include <vector>

#include "graph/core/units.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

struct Communicator {
  MeshDimension group = MeshDimension::kData;
  Bytes bytes;
  int ranks = 0;  // as many as communicate in it
};

// Returns the communicators of one rank, the measured one first; none for one rank. All have 0
// bytes on a device of which the memory of the first is not known, and those that follow it where
// the number of channels is not known.
//
//   data, shard, replicate, tensor   rings: each channel has one peer on either side
//   context, pipeline                messages to and from one or two neighbours
//   expert                           messages to and from every other rank
//
// Replicas that have the same experts add up their gradients in a ring of their own, and so do the
// `gather_ranks` neighbours that backward gathers among (reshard_after_forward: 8, ZeRO++'s hpZ),
// if those are several: both are called by the group that they are a part of.
[[nodiscard]] std::vector<Communicator> communicators_of(const Mesh& mesh,
                                                         const DeviceProfile& device,
                                                         int gather_ranks = 1);

// Returns the bytes of all of them.
[[nodiscard]] Bytes communication_buffers(const Mesh& mesh, const DeviceProfile& device,
                                          int gather_ranks = 1);

}  // namespace tidemark
