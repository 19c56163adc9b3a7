#include "hwprofiles/communicators.hpp"

#include <algorithm>

namespace tidemark {
namespace communicators_detail {
namespace {

// One channel's buffers to receive from a peer and to send to one.
constexpr std::int64_t kConnection = (10 + 2) * (std::int64_t{1} << 20);

// Channels of one pair of ranks that send messages: NVIDIA/nccl#1685 measures 2, and up to 32 after
// a change that enlarged an all-to-all of 8 ranks from 1.06 to 4.34 GB.
constexpr int kChannelsOfPair = 2;

// Returns how many channels are connected, each in both directions.
int connections(MeshDimension group, int ranks, int channels) {
  switch (group) {
    case MeshDimension::kContext:
    case MeshDimension::kPipeline:
      return std::min(channels, kChannelsOfPair) * std::min(ranks - 1, 2);
    case MeshDimension::kExpert:
      return std::min(channels, kChannelsOfPair) * (ranks - 1);
    case MeshDimension::kData:
    case MeshDimension::kTensor:
    case MeshDimension::kShard:
    case MeshDimension::kReplicate:
      break;
  }
  return channels;
}

struct ProcessGroup {
  MeshDimension dimension;
  int ranks;
};

// Returns the groups of several ranks. Groups of the same ranks are communicators of their own:
// Megatron-LM and DeepSpeed make a process group for each purpose.
std::vector<ProcessGroup> groups_of(const Mesh& mesh, int gather_ranks) {
  std::vector<ProcessGroup> groups;
  const int shard = mesh.size(MeshDimension::kShard);
  const bool replicates = shard > 1 && shard < mesh.replicas();
  const MeshDimension sharing = replicates ? MeshDimension::kShard : MeshDimension::kData;
  const int sharers = replicates ? shard : mesh.replicas();
  groups.push_back({sharing, sharers});
  if (replicates)
    groups.push_back({MeshDimension::kReplicate, mesh.size(MeshDimension::kReplicate)});
  for (const MeshDimension dimension : {MeshDimension::kTensor, MeshDimension::kContext,
                                        MeshDimension::kPipeline, MeshDimension::kExpert})
    groups.push_back({dimension, mesh.size(dimension)});
  if (mesh.size(MeshDimension::kExpert) > 1)
    groups.push_back({sharing, replicates ? mesh.expert_shard() : mesh.expert_replicas()});
  groups.push_back({sharing, gather_ranks});
  std::erase_if(groups, [](const ProcessGroup& group) { return group.ranks < 2; });
  return groups;
}

}  // namespace
}  // namespace communicators_detail

std::vector<Communicator> communicators_of(const Mesh& mesh, const DeviceProfile& device,
                                           int gather_ranks) {
  const Bytes first = device.framework.communication_buffers;
  const int channels = first.count > 0 ? device.links.collective.channels : 0;
  std::vector<Communicator> found;
  for (const auto& [group, ranks] : communicators_detail::groups_of(mesh, gather_ranks)) {
    const Bytes further(communicators_detail::kConnection *
                        communicators_detail::connections(group, ranks, channels));
    found.push_back({group, found.empty() ? first : further, ranks});
  }
  return found;
}

Bytes communication_buffers(const Mesh& mesh, const DeviceProfile& device, int gather_ranks) {
  Bytes sum;
  for (const Communicator& communicator : communicators_of(mesh, device, gather_ranks))
    sum += communicator.bytes;
  return sum;
}

}  // namespace tidemark
