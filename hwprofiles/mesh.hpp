// The layout of a run's ranks: the size of each dimension, and the links that its groups use.
//
// Consecutive ranks differ in the dimension that communicates most, as Megatron lays them out:
//
//   rank = tensor + T (context + C (data + D pipeline))
//
//   T = 2, D = 4, nodes of 4 GPUs        tensor groups   {0,1} {2,3} {4,5} {6,7}    one node each
//                                        data groups     {0,2,4,6} {1,3,5,7}        two nodes
//
// Ranks that differ in data or context only train the same parameters: they are replicas, and their
// gradients are summed over all of them, so that the group of `data` has data x context ranks.
// Groups of `shard` are consecutive replicas, and those of `expert` consecutive data ranks: they
// add no ranks of their own. Those of `replicate` hold equal shards: replicas a shard group apart.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/ir/collective.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {

// The slowest link between two ranks of a group.
enum class LinkKind : std::uint8_t { kNvlink, kPcie, kNetwork };
[[nodiscard]] constexpr std::string_view name_of(LinkKind link) {
  constexpr std::string_view kNames[] = {"nvlink", "pcie", "network"};
  return kNames[static_cast<int>(link)];
}

// One group of a dimension; all groups of it are alike.
struct MeshGroup {
  int size = 1;   // ranks
  int nodes = 1;  // nodes that the ranks are on
  LinkKind link = LinkKind::kNvlink;
};

class Mesh {
 public:
  using Sizes = std::array<int, kSizedDimensions>;  // size of each MeshDimension

  Mesh() : Mesh({1, 1, 1, 1, 1, 1}, 1, LinkKind::kNvlink) {}
  // `node`: GPUs of one host, connected by `inside`. Throws InternalError unless all sizes are
  // positive, that of shard divides the replicas, and that of expert the data ranks.
  Mesh(const Sizes& sizes, int node, LinkKind inside);

  [[nodiscard]] int size(MeshDimension dimension) const {
    if (dimension != MeshDimension::kReplicate) return sizes_[index_of(dimension)];
    return replicas() / size(MeshDimension::kShard);
  }
  // Returns the ranks that train the same parameters: data x context.
  [[nodiscard]] int replicas() const {
    return size(MeshDimension::kData) * size(MeshDimension::kContext);
  }
  // Returns the ranks that train the same experts: replicas of different expert groups.
  [[nodiscard]] int expert_replicas() const { return replicas() / size(MeshDimension::kExpert); }
  // Returns those of them that are in one shard group, and so share the experts' states.
  [[nodiscard]] int expert_shard() const;
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] int ranks() const;
  [[nodiscard]] int nodes() const { return (ranks() + node_ - 1) / node_; }  // hosts of all ranks
  // Returns the ranks on the host that has the most of them.
  [[nodiscard]] int ranks_on_host() const { return std::min(ranks(), node_); }
  [[nodiscard]] MeshGroup group(MeshDimension dimension) const;
  // Returns one of the groups of `ranks` consecutive ranks that a group is divided into, which
  // `ranks` divide; where some of them lie on more nodes than others, one of those.
  [[nodiscard]] MeshGroup neighbours(MeshDimension dimension, int ranks) const;
  // Returns "data 8, shard 1, ... on nodes of 8, nvlink": equal meshes have equal texts.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  static constexpr std::size_t index_of(MeshDimension dimension) {
    return static_cast<std::size_t>(dimension);
  }
  // Returns the distance in ranks between two neighbours of a group.
  [[nodiscard]] int stride(MeshDimension dimension) const;
  // Returns how many ranks of a group lie on one node.
  [[nodiscard]] int on_one_node(MeshDimension dimension) const;
  [[nodiscard]] MeshGroup on_nodes(int ranks, int nodes) const;

  Sizes sizes_;
  int node_;
  LinkKind inside_;
};

// Returns the mesh of `count` equal data ranks on hosts with as many GPUs as the profile says.
[[nodiscard]] Mesh data_mesh(int count, const DeviceProfile& device);
// Returns the mesh of these sizes on such hosts.
[[nodiscard]] Mesh mesh_of(const Mesh::Sizes& sizes, const DeviceProfile& device);

}  // namespace tidemark
