#include "policies/eviction/tracked_eviction.hpp"

#include <limits>
#include <utility>

namespace tidemark {

void TrackedEviction::begin(const EvictionProgram& program) {
  std::vector<std::pair<std::uint32_t, StorageEdge>> up;
  for (const RecipeInput& input : program.recipes)
    up.emplace_back(input.to.value, StorageEdge{input.launch, input.from.value});
  edges_ = StorageEdges(program.blocks, up);
  costs_.emplace(program.blocks, edges_, neighbourhood_);
  // What has not been computed yet has a state of its own; no edge needs to be hidden.
  costs_->define_operators(std::numeric_limits<std::uint32_t>::max());
  for (std::uint32_t block = 0; block < program.blocks; ++block)
    costs_->add_cost(block, program.cost[block].count());
  costs_->changed().clear();
}

}  // namespace tidemark
