#include "scenarios/studies/recipe.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace recipe_test {
namespace {

Recipes recipes_of(const std::string& model, const std::string& hardware,
                   std::vector<RecipeMethod> methods, std::int64_t largest = 4) {
  const std::string text = fmt::format(
      "{{model: {}, hardware: {}, training: {{sequence: 256, precision: bf16_autocast, optimizer: "
      "{{name: adamw, implementation: fused}}}}}}",
      model, hardware);
  return find_recipes(parse_document(text, "s.yaml"), environment(), methods, largest, 1);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("what a recipe shows fits, is not beaten, and says what it changes") {
    const Recipes found =
        recipes_of("{preset: llama-3.2-1b, layers: 2}", "h100-sxm-80gb", {RecipeMethod::kFull});
    CHECK(found.combinations >= 16);
    REQUIRE(!found.shown.empty());
    CHECK(found.shown.size() <= kShownRecipes);
    for (const std::size_t i : found.shown) {
      const Recipe& recipe = found.fitting[i];
      CHECK(recipe.point.status == PointStatus::kFits);
      const bool changes = std::any_of(recipe.measures.begin(), recipe.measures.end(),
                                       [](const Measure& m) { return m.changes_numbers(); });
      CHECK(changes == (recipe.numbers() != "nothing"));
    }
    // The first of a method is the fastest of all that were tried.
    for (const Recipe& recipe : found.fitting)
      CHECK(found.fitting[found.shown.front()].per_unit() <= recipe.per_unit());
  }

  TEST_CASE("a recipe's settings make its figures again") {
    const Recipes found =
        recipes_of("{preset: gpt2, layers: 2}", "v100-sxm-16gb", {RecipeMethod::kFull}, 2);
    REQUIRE(!found.shown.empty());
    for (const std::size_t i : found.shown) {
      const Recipe& recipe = found.fitting[i];
      Value document = parse_document(
          "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, training: {sequence: 256, "
          "precision: bf16_autocast, optimizer: {name: adamw, implementation: fused}}}",
          "s.yaml");
      for (const Override& change : recipe.overrides)
        apply_override(document, change);
      const PointResult again =
          simulate_points(document, environment(), 1, {.smallest_capacity = false}).front();
      CHECK(again.run.step == recipe.point.run.step);
      CHECK(again.device_used() == recipe.point.device_used());
    }
  }

  TEST_CASE("where nothing fits the nearest combination is named") {
    const Recipes found =
        recipes_of("{preset: gpt2, layers: 2}", "{gpu: v100-sxm-16gb, hbm: {capacity: 600MiB}}",
                   {RecipeMethod::kFull}, 1);
    CHECK(found.fitting.empty());
    REQUIRE(found.nearest.has_value());
    CHECK(found.nearest->point.device_needed() > Bytes(600 << 20));
  }
}

}  // namespace recipe_test
}  // namespace tidemark
