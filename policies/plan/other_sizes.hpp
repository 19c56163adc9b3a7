// The sizes that a dimension of the mesh could have on the same GPUs, for errors that suggest some.
#pragma once

#include <numeric>

#include "policies/plan/rewrite_context.hpp"

namespace tidemark {

// Returns the number whose divisors are those sizes: the dimension takes ranks from the data ranks,
// of which groups of experts and, but for a context, of as many shards as a policy says have to be
// left. `size`: what it has been given; 0 is returned where the mesh has another size, as in tests
// of a rewrite alone.
[[nodiscard]] inline int ranks_to_divide(const RewriteContext& context, MeshDimension dimension,
                                         int size) {
  const Mesh& mesh = context.mesh;
  if (mesh.size(dimension) != size) return 0;
  const int data = mesh.size(MeshDimension::kData);
  if (dimension == MeshDimension::kExpert) return data;
  const bool splits_replicas = dimension != MeshDimension::kContext;
  const int shard = splits_replicas ? context.request.shard.value_or(1) : 1;
  const int left = std::lcm(mesh.size(MeshDimension::kExpert), shard);
  const int ranks = data * size;
  return ranks % left == 0 ? ranks / left : 1;
}

}  // namespace tidemark
