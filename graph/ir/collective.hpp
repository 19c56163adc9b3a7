// Communication between ranks, as an operator of the graph names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/core/units.hpp"

namespace tidemark {

// The dimensions along which the ranks of a run differ. Ranks that differ in one of them only are a
// group of that dimension: they communicate with each other.
enum class MeshDimension : std::uint8_t {
  kData,       // samples
  kShard,      // parts of parameters, gradients or optimizer state; within the data ranks
  kTensor,     // parts of matrix products
  kContext,    // parts of a sequence
  kExpert,     // experts of a mixture; within the data ranks
  kPipeline,   // layers
  kReplicate,  // copies of a shard: data ranks of different shard groups
};
inline constexpr std::size_t kMeshDimensions = 7;
// Dimensions whose size is given; that of kReplicate follows.
inline constexpr std::size_t kSizedDimensions = 6;
[[nodiscard]] constexpr std::string_view name_of(MeshDimension dimension) {
  constexpr std::string_view kNames[] = {"data",   "shard",    "tensor",   "context",
                                         "expert", "pipeline", "replicate"};
  return kNames[static_cast<int>(dimension)];
}

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
};
inline constexpr std::size_t kCollectiveKinds = 7;
[[nodiscard]] constexpr std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                         "broadcast",  "send",       "receive"};
  return kNames[static_cast<int>(kind)];
}

// Describes the communication of an operator of class kCollective.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  MeshDimension group = MeshDimension::kData;
  Bytes bytes;  // bytes of the whole tensor: all-gather ends with it, reduce-scatter begins with it
  // kSend and kReceive name the other rank by its index in the group; the tag tells several
  // messages between the same two ranks apart. Equal ones match in the order in which they are
  // issued.
  int peer = -1;
  int tag = 0;
  // Ranks of the group that take part; 0: all of it.
  int ranks = 0;
  // Those ranks are consecutive in the group, rather than as far apart as the group spreads.
  bool neighbours = false;
  // The compute stream goes on only when it has ended.
  bool blocks_compute = false;
};

}  // namespace tidemark
