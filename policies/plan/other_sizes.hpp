// The sizes that a dimension of the mesh could have on the same GPUs, for errors that suggest some.
#pragma once

#include <numeric>

#include "hwprofiles/mesh.hpp"

namespace tidemark {

// Returns the number whose divisors are those sizes: the dimension takes ranks from the data ranks,
// of which groups of experts and, but for a context, of shards have to be left. `size`: what it has
// been given; 0 is returned where the mesh has another size, as in tests of a rewrite alone.
[[nodiscard]] inline int ranks_to_divide(const Mesh& mesh, MeshDimension dimension, int size) {
  if (mesh.size(dimension) != size) return 0;
  const int data = mesh.size(MeshDimension::kData);
  if (dimension == MeshDimension::kExpert) return data;
  const bool splits_replicas = dimension != MeshDimension::kContext;
  const int shard = mesh.size(MeshDimension::kShard);
  const bool whole = !splits_replicas || shard == mesh.replicas();
  const int left = std::lcm(mesh.size(MeshDimension::kExpert), whole ? 1 : shard);
  const int ranks = data * size;
  return ranks % left == 0 ? ranks / left : 1;
}

}  // namespace tidemark
