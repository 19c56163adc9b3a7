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

// Returns the dimensions whose groups have several ranks. Groups of the same ranks are
// communicators of their own: Megatron-LM and DeepSpeed make a process group for each purpose.
std::vector<MeshDimension> groups_of(const Mesh& mesh) {
  std::vector<MeshDimension> groups;
  const int shard = mesh.size(MeshDimension::kShard);
  if (shard > 1 && shard < mesh.replicas()) {
    groups.push_back(MeshDimension::kShard);
    groups.push_back(MeshDimension::kReplicate);
  } else if (mesh.replicas() > 1) {
    groups.push_back(MeshDimension::kData);
  }
  for (const MeshDimension dimension : {MeshDimension::kTensor, MeshDimension::kContext,
                                        MeshDimension::kPipeline, MeshDimension::kExpert}) {
    const int ranks = mesh.size(dimension);
    if (ranks > 1) groups.push_back(dimension);
  }
  return groups;
}

}  // namespace
}  // namespace communicators_detail

std::vector<Communicator> communicators_of(const Mesh& mesh, const DeviceProfile& device) {
  const Bytes first = device.framework.communication_buffers;
  const int channels = first.count > 0 ? device.links.collective.channels : 0;
  std::vector<Communicator> found;
  for (const MeshDimension group : communicators_detail::groups_of(mesh)) {
    const int ranks = mesh.size(group);
    const Bytes further(communicators_detail::kConnection *
                        communicators_detail::connections(group, ranks, channels));
    found.push_back({group, found.empty() ? first : further});
  }
  return found;
}

Bytes communication_buffers(const Mesh& mesh, const DeviceProfile& device) {
  Bytes sum;
  for (const Communicator& communicator : communicators_of(mesh, device))
    sum += communicator.bytes;
  return sum;
}

}  // namespace tidemark
