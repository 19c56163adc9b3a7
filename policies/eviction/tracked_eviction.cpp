#include "policies/eviction/tracked_eviction.hpp"

#include <limits>
#include <utility>

namespace tidemark {

void TrackedEviction::begin(const EvictionProgram& program) {
  std::vector<std::pair<std::uint32_t, StorageEdge>> up;
  for (const RecipeInput& input : program.recipes)
    up.emplace_back(input.to.value, StorageEdge{input.launch, input.from.value});
  edges_ = StorageEdges(program.allocations, up);
  costs_.emplace(program.allocations, edges_, neighbourhood_);
  // An allocation that has not been computed yet has a state of its own; no edge needs to be
  // hidden.
  costs_->define_operators(std::numeric_limits<std::uint32_t>::max());
  for (std::uint32_t allocation = 0; allocation < program.allocations; ++allocation)
    costs_->add_cost(allocation, program.cost[allocation].count());
  costs_->changed().clear();
}

}  // namespace tidemark
