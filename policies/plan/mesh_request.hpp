// The sizes that the policies of a list ask of the mesh.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/core/decoder.hpp"
#include "graph/ir/collective.hpp"

namespace tidemark {

// Dimensions that take ranks from those of data, in the order in which errors name them.
inline constexpr std::array<MeshDimension, 3> kDividingDimensions{
    MeshDimension::kTensor, MeshDimension::kPipeline, MeshDimension::kContext};

// The data ranks are what the number of GPUs leaves.
class MeshRequest {
 public:
  MeshRequest() { sizes_.fill(1); }

  // Reads `size`, the ranks that the policy gives the dimension.
  void ask(MeshDimension dimension, const Decoder& d, Range range) {
    const auto index = static_cast<std::size_t>(dimension);
    sizes_[index] = d.required<int>("size", range);
    keys_[index] = d.path() + ".size";
  }

  [[nodiscard]] int size(MeshDimension dimension) const {
    return sizes_[static_cast<std::size_t>(dimension)];
  }
  // Returns the key that says that size, "policies.tensor_parallel.size"; empty where none does.
  [[nodiscard]] const std::string& key(MeshDimension dimension) const {
    return keys_[static_cast<std::size_t>(dimension)];
  }
  // Returns the ranks that one data rank stands for.
  [[nodiscard]] std::int64_t divided() const {
    std::int64_t ranks = 1;
    for (const MeshDimension dimension : kDividingDimensions)
      ranks *= size(dimension);
    return ranks;
  }

  // Replicas that share the parameters' parts; all of them where a policy shards and says no
  // number.
  std::optional<int> shard;
  bool shards = false;

 private:
  std::array<int, kSizedDimensions> sizes_{};
  std::array<std::string, kSizedDimensions> keys_;
};

}  // namespace tidemark
