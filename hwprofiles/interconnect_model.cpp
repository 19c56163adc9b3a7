#include "hwprofiles/interconnect_model.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace interconnect_model_detail {
namespace {

// Share of NVLink that a ring reaches: NCCL's 20.6 GB/s for each of 18 links of an H100, of 25.
constexpr double kRingShare = 0.8;
// Share of NVLink that one pair of GPUs reaches: 195 of 300 GB/s at 1 GiB on 8 x A100
// (li-plus/playground, cuda/nccl.md).
constexpr double kPairShare = 0.65;
// Share of its adapters' line rate that a host reaches: 339 GB/s of bus bandwidth at 8 GiB on 2 x 8
// H100 with 200 Gbit/s each, where 375 are possible (lessizzmore/create-a3mega-ztan-fork).
constexpr double kNetworkShare = 0.9;
// Time of NCCL and its network thread, for each hop: 125 us of the smallest message on 2 x 8 H100
// less the 35 us of one node, less the latency of two hops (same source).
constexpr Duration kNetworkStep = std::chrono::microseconds(40);
// Network transfers add this to the ramp, in nanoseconds per square root of a byte: 669 us more
// than the law without it at 1 GiB on 2 x 8 H100 (same source).
constexpr double kNetworkRamp = 20;
// The floor of 8 x A100, for profiles without figures of collectives.
constexpr Duration kUnknownFloor = std::chrono::microseconds(45);

// Bytes of memory traffic for each byte sent: the input is read and the output written. The buffers
// between ranks, 4 MiB for each channel (NCCL_BUFFSIZE), stay in L2.
constexpr double kTrafficPerByte = 2;

double real(Bytes bytes) {
  return static_cast<double>(bytes.count);
}

// Returns the share of the whole tensor that each of `parties` (GPUs of a ring, or nodes) sends.
double sent_share(CollectiveKind kind, int parties) {
  const double others = static_cast<double>(parties - 1) / parties;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * others;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return others;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSend:
    case CollectiveKind::kReceive:
      return 1;
  }
  return 1;
}

bool is_between_two(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
}

// Whether messages take bytes over bandwidth and nothing else, as in the closed forms of a schedule
// or a collective: a latency of 0 says so, which no measured network has.
bool is_ideal(const NetworkProfile& network) {
  return network.latency == Duration(0);
}

int doublings(int nodes) {
  int steps = 0;
  while ((1 << steps) < nodes)
    ++steps;
  return steps;
}

}  // namespace
}  // namespace interconnect_model_detail

InterconnectModel::InterconnectModel(const DeviceProfile& device, const Mesh& mesh)
    : links_(device.links), mesh_(mesh) {}

BytesPerSecond InterconnectModel::bus_bandwidth(CollectiveKind kind, const MeshGroup& group) const {
  const double nvlink = links_.nvlink.value;
  if (!(nvlink > 0)) {
    if (links_.collective.bandwidth.value > 0) return links_.collective.bandwidth;
    // A ring uses both directions of each link. Through the host's memory a pair of GPUs reaches 10
    // to 13 GB/s on PCIe 4.0, and half of that where more of them share it (recalled, not
    // measured).
    const double duplex =
        std::min(links_.host_to_device.duplex.value, links_.device_to_host.duplex.value);
    const bool direct = links_.peer_to_peer || mesh_.ranks_on_host() <= 2;
    return {direct ? duplex : duplex / 2};
  }
  if (interconnect_model_detail::is_between_two(kind))
    return {interconnect_model_detail::kPairShare * nvlink};
  const CollectiveProfile& figures = links_.collective;
  const int on_one_node = (group.size + group.nodes - 1) / group.nodes;
  const bool in_switch = kind == CollectiveKind::kAllReduce && figures.in_switch_ranks > 0 &&
                         on_one_node >= figures.in_switch_ranks;
  if (in_switch) return figures.in_switch;
  return figures.bandwidth.value > 0
             ? figures.bandwidth
             : BytesPerSecond{interconnect_model_detail::kRingShare * nvlink};
}

double InterconnectModel::inside_seconds(const Collective& collective,
                                         const MeshGroup& group) const {
  const int on_one_node = (group.size + group.nodes - 1) / group.nodes;
  if (on_one_node == 1) return 0;
  return interconnect_model_detail::sent_share(collective.kind, group.size) *
         interconnect_model_detail::real(collective.bytes) /
         bus_bandwidth(collective.kind, group).value;
}

double InterconnectModel::network_seconds(const Collective& collective,
                                          const MeshGroup& group) const {
  if (group.nodes == 1) return 0;
  if (!(links_.network.bandwidth.value > 0)) {
    throw UserError({}, "hardware.network",
                    "the ranks lie on several hosts, and the profile of the GPU knows no network; "
                    "write {bandwidth: 50GB/s, latency: 5us}, or a larger hardware.node");
  }
  const int adapters = interconnect_model_detail::is_between_two(collective.kind)
                           ? 1
                           : (group.size + group.nodes - 1) / group.nodes;
  const double share = interconnect_model_detail::is_ideal(links_.network)
                           ? 1
                           : interconnect_model_detail::kNetworkShare;
  return interconnect_model_detail::sent_share(collective.kind, group.nodes) *
         interconnect_model_detail::real(collective.bytes) / adapters /
         (share * links_.network.bandwidth.value);
}

MeshGroup InterconnectModel::group_of(const Collective& collective) const {
  MeshGroup group = mesh_.group(collective.group);
  const bool part = collective.ranks > 0 && collective.ranks < group.size;
  if (part && collective.neighbours) return mesh_.neighbours(collective.group, collective.ranks);
  if (part) {
    group.size = collective.ranks;
    group.nodes = std::min(group.nodes, collective.ranks);
  }
  return group;
}

Bytes InterconnectModel::traffic(const Collective& collective) const {
  const MeshGroup group = group_of(collective);
  if (group.size == 1 || interconnect_model_detail::is_between_two(collective.kind))
    return Bytes(0);
  const double sent = interconnect_model_detail::sent_share(collective.kind, group.size) *
                      interconnect_model_detail::real(collective.bytes);
  return Bytes(std::llround(interconnect_model_detail::kTrafficPerByte * sent));
}

LinkUse InterconnectModel::use(const Collective& collective) const {
  const double alone = std::chrono::duration<double>(duration(collective)).count();
  if (!(alone > 0)) return {};
  const MeshGroup group = group_of(collective);
  return {.inside = std::min(1.0, inside_seconds(collective, group) / alone),
          .network = std::min(1.0, network_seconds(collective, group) / alone)};
}

Duration InterconnectModel::duration(const Collective& collective) const {
  const MeshGroup group = group_of(collective);
  if (group.size == 1 || collective.kind == CollectiveKind::kReceive) return Duration(0);
  const CollectiveProfile& figures = links_.collective;
  const bool known = figures.bandwidth.value > 0 || figures.floor > Duration(0);
  Duration floor = known ? figures.floor : interconnect_model_detail::kUnknownFloor;
  double ramp = figures.ramp;
  if (group.nodes > 1 && interconnect_model_detail::is_ideal(links_.network)) {
    // Floor and ramp were measured inside of a node, and belong to what its GPUs exchange.
    const bool inside =
        group.size > group.nodes && !interconnect_model_detail::is_between_two(collective.kind);
    if (!inside) {
      floor = Duration(0);
      ramp = 0;
    }
  } else if (group.nodes > 1) {
    floor += 2 * interconnect_model_detail::doublings(group.nodes) *
             (links_.network.latency + interconnect_model_detail::kNetworkStep);
    ramp += interconnect_model_detail::kNetworkRamp;
  }
  const double seconds =
      std::max(inside_seconds(collective, group), network_seconds(collective, group));
  constexpr auto kMost = static_cast<double>(kLargestQuantity);
  const double nanoseconds =
      ramp * std::sqrt(interconnect_model_detail::real(collective.bytes)) + seconds * 1e9;
  return floor + Duration(std::llround(std::min(nanoseconds, kMost)));
}

}  // namespace tidemark
