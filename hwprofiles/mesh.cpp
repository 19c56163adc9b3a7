#include "hwprofiles/mesh.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

Mesh::Mesh(const Sizes& sizes, int node, LinkKind inside)
    : sizes_(sizes), node_(std::max(node, 1)), inside_(inside) {
  for (std::size_t d = 0; d < kSizedDimensions; ++d) {
    if (sizes_[d] >= 1) continue;
    throw InternalError(fmt::format("a mesh with {} ranks along '{}'", sizes_[d],
                                    name_of(static_cast<MeshDimension>(d))));
  }
  if (replicas() % size(MeshDimension::kShard) != 0) {
    throw InternalError(fmt::format("{} replicas cannot be divided into shard groups of {}",
                                    replicas(), size(MeshDimension::kShard)));
  }
  if (size(MeshDimension::kData) % size(MeshDimension::kExpert) != 0) {
    throw InternalError(fmt::format("{} data ranks cannot be divided into expert groups of {}",
                                    size(MeshDimension::kData), size(MeshDimension::kExpert)));
  }
}

int Mesh::ranks() const {
  return size(MeshDimension::kData) * size(MeshDimension::kTensor) * size(MeshDimension::kContext) *
         size(MeshDimension::kPipeline);
}

// Consecutive replicas have the same experts up to the size of a context group; then come the data
// ranks of an expert group, each with experts of its own.
//
//   expert 4, shard 8, context 2     replicas  0 1   2 3   4 5   6 7
//                                    experts   a a   b b   c c   d d       expert_shard = 2
int Mesh::expert_shard() const {
  const int shard = size(MeshDimension::kShard);
  const int data = std::max(1, shard / size(MeshDimension::kContext));
  const int different = std::min(size(MeshDimension::kExpert), data);
  return std::gcd(shard / different, expert_replicas());
}

int Mesh::stride(MeshDimension dimension) const {
  const int tensor = size(MeshDimension::kTensor);
  const int inner = tensor * size(MeshDimension::kContext);
  switch (dimension) {
    case MeshDimension::kTensor:
      return 1;
    case MeshDimension::kContext:
    case MeshDimension::kData:
    case MeshDimension::kShard:
      return tensor;
    case MeshDimension::kExpert:
      return inner;
    case MeshDimension::kPipeline:
      return inner * size(MeshDimension::kData);
    case MeshDimension::kReplicate:
      return tensor * size(MeshDimension::kShard);
  }
  throw InternalError("a dimension that the mesh does not know");
}

MeshGroup Mesh::group(MeshDimension dimension) const {
  const int ranks = dimension == MeshDimension::kData ? replicas() : size(dimension);
  const int together = std::min(on_one_node(dimension), ranks);
  return on_nodes(ranks, (ranks + together - 1) / together);
}

MeshGroup Mesh::neighbours(MeshDimension dimension, int ranks) const {
  const int together = on_one_node(dimension);
  // A group begins some ranks behind the first of its node: the groups' beginnings repeat.
  int nodes = 1;
  for (int first = 0; first < size(dimension); first += ranks) {
    const int behind = first % together;
    nodes = std::max(nodes, (behind + ranks + together - 1) / together);
    if (first > 0 && behind == 0) break;
  }
  return on_nodes(ranks, std::min(ranks, nodes));
}

// Neighbours further apart than a node leave one rank of the group on each.
int Mesh::on_one_node(MeshDimension dimension) const {
  return std::max(node_ / stride(dimension), 1);
}

MeshGroup Mesh::on_nodes(int ranks, int nodes) const {
  return {.size = ranks, .nodes = nodes, .link = nodes > 1 ? LinkKind::kNetwork : inside_};
}

std::string Mesh::text() const {
  std::string text;
  for (std::size_t d = 0; d < kSizedDimensions; ++d)
    text += fmt::format("{} {}, ", name_of(static_cast<MeshDimension>(d)), sizes_[d]);
  return text + fmt::format("on nodes of {}, {}", node_, name_of(inside_));
}

Mesh data_mesh(int count, const DeviceProfile& device) {
  return mesh_of({count, 1, 1, 1, 1, 1}, device);
}

Mesh mesh_of(const Mesh::Sizes& sizes, const DeviceProfile& device) {
  const LinkKind inside = device.links.nvlink.value > 0 ? LinkKind::kNvlink : LinkKind::kPcie;
  return {sizes, device.host.gpus, inside};
}

}  // namespace tidemark
