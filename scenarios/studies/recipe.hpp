// The ways to train a model on a GPU: a ladder of methods and savings, each simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

enum class RecipeMethod : std::uint8_t {
  kFull,   // every weight is trained
  kLora,   // adapters beside a base of 2 bytes per weight
  kQlora,  // adapters beside a base of 4 bits
};
inline constexpr std::size_t kRecipeMethods = 3;
[[nodiscard]] constexpr std::string_view name_of(RecipeMethod method) {
  constexpr std::string_view kNames[] = {"full", "lora", "qlora"};
  return kNames[static_cast<int>(method)];
}

// A combination of measures with a micro-batch: the one that takes the least time per token, or per
// sample of a model without tokens, unless a smaller one is worth showing for its memory.
struct Recipe {
  RecipeMethod method = RecipeMethod::kFull;
  std::vector<Measure> measures;
  std::int64_t micro_batch = 1;
  std::vector<Override> overrides;  // changes to the document, micro-batch included
  PointResult point;

  [[nodiscard]] std::string text() const;     // "bf16 + checkpoint_every(period 1)"
  [[nodiscard]] std::string numbers() const;  // difference in what training computes; "nothing"
  [[nodiscard]] Duration per_unit() const;    // time per token or sample
};

struct Recipes {
  std::vector<Recipe> fitting;  // sorted by method, then by time per token
  // Indices in `fitting` of those worth a look: no other of the same method takes less time and no
  // more memory, and changes the numbers no more. At most kShownRecipes of a method, the fastest of
  // those that change the numbers least among them.
  std::vector<std::size_t> shown;
  std::size_t combinations = 0;  // number of combinations that were tried
  // The combination that comes nearest where none fits.
  std::optional<Recipe> nearest;
};
inline constexpr std::size_t kShownRecipes = 3;

// Tries the methods on `document` with micro-batches of 1, 2, 4, ... `largest_micro_batch` while
// they fit, or with its own where the model's file fixes that. A scenario that lists lora is tried
// as it is, by the name of that method; adapters are left out where the model has no linear layers
// in its blocks. Throws UserError where the model itself cannot be built, or the only method asked
// for cannot be had.
[[nodiscard]] Recipes find_recipes(const Value& document, const Environment& environment,
                                   const std::vector<RecipeMethod>& methods,
                                   std::int64_t largest_micro_batch, int threads);

}  // namespace tidemark
