// The combinations of measures that a recipe tries, simulated with growing micro-batches.
//
//   model      A                   B             built once per micro-batch
//   combined   plain  checkpoint   fused ...     program lowered once, sizes taken for each
//   batch 1    fits   fits
//   batch 2    ooms   fits
//   batch 4           ooms
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "scenarios/studies/recipe.hpp"
#include "scenarios/studies/shared_models.hpp"

namespace tidemark {

struct RecipeCombination {
  RecipeMethod method = RecipeMethod::kFull;
  std::vector<Measure> measures;
};

// Tries combinations of measures on a scenario. The environment and the measures outlive this.
class RecipeSearch {
 public:
  RecipeSearch(const Value& document, const Environment& environment, const Measures& measures,
               std::vector<std::int64_t> micro_batches);

  // Returns the micro-batches of each combination that fit, else the smallest one; none where the
  // combination cannot be had.
  [[nodiscard]] std::vector<std::vector<Recipe>> try_all(
      const std::vector<RecipeCombination>& combinations, int threads) const;

 private:
  [[nodiscard]] std::vector<std::vector<std::size_t>> by_model(
      const std::vector<RecipeCombination>& combinations) const;
  [[nodiscard]] std::vector<std::vector<Recipe>> tried(
      std::span<const RecipeCombination> combinations) const;
  [[nodiscard]] Recipe untried(const RecipeCombination& combination, std::int64_t batch) const;
  [[nodiscard]] Value document_of(const Recipe& recipe) const;
  [[nodiscard]] Recipe simulated(const RecipeCombination& combination, std::int64_t batch,
                                 SharedModels& models) const;

  Value document_;
  const Environment& environment_;
  const Measures& measures_;
  std::vector<std::int64_t> micro_batches_;
};

// Returns 1, 2, 4, ... `largest`, or the one micro-batch that the file of a graph fixes.
[[nodiscard]] std::vector<std::int64_t> micro_batches_of(const Value& document,
                                                         const Environment& environment,
                                                         const TrainingGraph& training,
                                                         std::int64_t largest);

}  // namespace tidemark
