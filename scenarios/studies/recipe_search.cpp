#include "scenarios/studies/recipe_search.hpp"

#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/global_batch.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/parallel.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {
namespace recipe_search_detail {
namespace {

// Keeps the last model only: combinations come to it one after the other.
constexpr Bytes kOneModel{0};

}  // namespace
}  // namespace recipe_search_detail

RecipeSearch::RecipeSearch(const Value& document, const Environment& environment,
                           const Measures& measures, std::vector<std::int64_t> micro_batches)
    : document_(without_global_batch(document)),
      environment_(environment),
      measures_(measures),
      micro_batches_(std::move(micro_batches)) {}

std::vector<std::vector<Recipe>> RecipeSearch::try_all(
    const std::vector<RecipeCombination>& combinations, int threads) const {
  const std::vector<std::vector<std::size_t>> groups = by_model(combinations);
  std::vector<std::vector<Recipe>> found(combinations.size());
  for_each_parallel(groups.size(), threads, [&](std::size_t group) {
    std::vector<RecipeCombination> members;
    for (const std::size_t i : groups[group])
      members.push_back(combinations[i]);
    std::vector<std::vector<Recipe>> made = tried(members);
    for (std::size_t i = 0; i < made.size(); ++i)
      found[groups[group][i]] = std::move(made[i]);
  });
  return found;
}

// Returns the indices of combinations that train one model, for each model: with and without
// recomputation, for example.
std::vector<std::vector<std::size_t>> RecipeSearch::by_model(
    const std::vector<RecipeCombination>& combinations) const {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::string, std::size_t> known;  // by training_key
  for (std::size_t i = 0; i < combinations.size(); ++i) {
    try {
      const Value changed = document_of(untried(combinations[i], micro_batches_.front()));
      const std::string key = trial_scenario(changed, environment_).training_key;
      const auto [group, is_new] = known.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back(i);
    } catch (const UserError&) {
      continue;  // it cannot be had
    }
  }
  return groups;
}

// Returns the micro-batches of each combination that fit, else the smallest one; none where the
// combination cannot be had. The combinations train one model, which is built once for each
// micro-batch; programs of one combination differ in sizes alone.
std::vector<std::vector<Recipe>> RecipeSearch::tried(
    std::span<const RecipeCombination> combinations) const {
  SharedModels models(recipe_search_detail::kOneModel);
  std::vector<std::vector<Recipe>> made(combinations.size());
  std::vector<char> fits(combinations.size(), 1);
  for (const std::int64_t batch : micro_batches_) {
    for (std::size_t i = 0; i < combinations.size(); ++i) {
      if (fits[i] == 0) continue;
      fits[i] = 0;
      try {
        Recipe recipe = simulated(combinations[i], batch, models);
        if (recipe.point.status == PointStatus::kFits) fits[i] = 1;
        if (fits[i] != 0 || made[i].empty()) made[i].push_back(std::move(recipe));
      } catch (const UserError&) {
        continue;  // it cannot be had with this micro-batch
      }
    }
  }
  return made;
}

// Returns a recipe that is yet to be simulated.
Recipe RecipeSearch::untried(const RecipeCombination& combination, std::int64_t batch) const {
  Recipe recipe{.method = combination.method,
                .measures = combination.measures,
                .micro_batch = batch,
                .overrides = measures_.overrides(combination.measures)};
  recipe.overrides.push_back(
      {"training.micro_batch", text_value(fmt::to_string(batch), Location{})});
  return recipe;
}

Value RecipeSearch::document_of(const Recipe& recipe) const {
  Value document = document_;
  for (const Override& change : recipe.overrides)
    apply_override(document, change);
  return document;
}

Recipe RecipeSearch::simulated(const RecipeCombination& combination, std::int64_t batch,
                               SharedModels& models) const {
  Recipe recipe = untried(combination, batch);
  const Value document = document_of(recipe);
  const Scenario scenario = trial_scenario(document, environment_);
  recipe.point = simulate(scenario, *models.of(scenario, document),
                          {.smallest_capacity = false, .largest_tensors = 0});
  return recipe;
}

std::vector<std::int64_t> micro_batches_of(const Value& document, const Environment& environment,
                                           const TrainingGraph& training, std::int64_t largest) {
  const auto can_be = [&](std::int64_t batch) {
    Value changed = without_global_batch(document);
    apply_override(changed,
                   {"training.micro_batch", text_value(fmt::to_string(batch), Location{})});
    try {
      static_cast<void>(build_training(decode_scenario(changed, environment)));
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  // A file whose constants hold its own batch can be built for no other, and does not say so.
  if (training.fixes_samples || !can_be(1)) return {training.samples};
  std::vector<std::int64_t> doubling;
  for (std::int64_t batch = 1; batch <= largest; batch *= 2)
    doubling.push_back(batch);
  return doubling;
}

}  // namespace tidemark
