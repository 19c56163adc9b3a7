// The time of communication between ranks, on the links that their mesh says.
//
//   t = floor + ramp * sqrt(bytes) + max(inside, network)        in whole nanoseconds
//
//   inside    what each GPU sends / bus bandwidth. Of n GPUs and a whole tensor of b bytes:
//               all_reduce                             2 (n - 1) / n * b   (a ring; NCCL's "busbw")
//               all_gather, reduce_scatter, all_to_all   (n - 1) / n * b
//               broadcast, send                                        b
//   network   the same between N nodes, on each of which g GPUs of the group have an adapter each:
//               all_reduce                             2 (N - 1) / N * b / g
//               others                                   (N - 1) / N * b / g
//   floor     of one node, and between nodes two hops for each doubling of their number (a tree)
//
// A network of latency 0 is an ideal one: nothing but the bytes over its bandwidth, without the
// floor and the ramp of messages that only it carries.
//
// Floor, ramp and bus bandwidth of one node are figures of the profile, fitted to nccl-tests; mean
// errors 8 % (8 x A100), 3 % (8 x H200). NCCL's own tuner model is within 4 % for large messages,
// but says 15 us where 35 to 45 are measured for small ones. Between nodes the law agrees within
// 15 % with 2 x 8 H100 from 256 MiB on; messages of 1 to 64 MiB take up to three times as long.
// Without such figures (no collective: in the profile) a ring reaches 0.8 of NVLink.
//
// The kernel of a collective takes multiprocessors (CollectiveProfile::channels) and memory
// bandwidth (traffic()) from concurrent kernels. Not modelled: what these take from it.
//
// Collectives of several groups that run at one time share the links of a GPU inside its node, and
// its adapter (use()); without NVLink copies to and from the host share the former. As all ranks do
// the same, the other ranks' links are as busy as this one's. Not measured: how kernels of NCCL
// that ask for one link divide it (here all are slowed down alike, sim/engine/link_load.hpp), and
// what a GPU's link has left where a ring is slow because it passes the host's memory (nothing).
#pragma once

#include "graph/core/units.hpp"
#include "graph/ir/collective.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

// The parts of its time alone for which a collective keeps the links of a GPU busy.
struct LinkUse {
  double inside = 0;   // NVLink or PCIe, to GPUs of the same node
  double network = 0;  // the adapter
};

class InterconnectModel {
 public:
  InterconnectModel(const DeviceProfile& device, const Mesh& mesh);

  // Returns the time of a collective: nothing in a group of one, and for a receive, which takes
  // what the send takes. Throws UserError (path hardware.network) where a group spans nodes and the
  // profile knows no network.
  [[nodiscard]] Duration duration(const Collective& collective) const;

  // Returns how much of the links it takes while it runs alone: a small message waits most of its
  // time, and leaves them to others.
  [[nodiscard]] LinkUse use(const Collective& collective) const;

  // Returns the bytes that it reads and writes in this device's memory: nothing in a group of one,
  // for a receive, and for a send, whose kernel is a small one.
  [[nodiscard]] Bytes traffic(const Collective& collective) const;

 private:
  // Returns the group of ranks that take part.
  [[nodiscard]] MeshGroup group_of(const Collective& collective) const;
  [[nodiscard]] double inside_seconds(const Collective& collective, const MeshGroup& group) const;
  [[nodiscard]] double network_seconds(const Collective& collective, const MeshGroup& group) const;
  [[nodiscard]] BytesPerSecond bus_bandwidth(CollectiveKind kind, const MeshGroup& group) const;

  LinksProfile links_;
  Mesh mesh_;
};

}  // namespace tidemark
