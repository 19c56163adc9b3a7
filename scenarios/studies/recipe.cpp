#include "scenarios/studies/recipe.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/ir/convolutions.hpp"
#include "graph/operators/known_families.hpp"
#include "scenarios/studies/recipe_search.hpp"

namespace tidemark {
namespace recipe_detail {
namespace {

// Returns all subsets of some measures in their order, smallest first.
std::vector<std::vector<Measure>> subsets(const std::vector<std::optional<Measure>>& measures) {
  std::vector<std::vector<Measure>> sets{{}};
  for (const std::optional<Measure>& measure : measures) {
    if (!measure) continue;
    const std::size_t count = sets.size();
    for (std::size_t i = 0; i < count; ++i) {
      sets.push_back(sets[i]);
      sets.back().push_back(*measure);
    }
  }
  std::stable_sort(sets.begin(), sets.end(),
                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return sets;
}

// Returns no measure, or one of a list.
std::vector<std::vector<Measure>> choices(std::vector<Measure> list) {
  std::vector<std::vector<Measure>> result{{}};
  for (Measure& measure : list)
    result.push_back({std::move(measure)});
  return result;
}

// Returns what the scenario trains as it is: adapters where the model has some, else every weight.
RecipeMethod method_of(const TrainingGraph& graph) {
  const auto has = [&](Role role) {
    return std::any_of(graph.storages.begin(), graph.storages.end(),
                       [&](const Storage& storage) { return storage.role == role; });
  };
  if (!has(Role::kAdapter)) return RecipeMethod::kFull;
  return has(Role::kQuantisedParameter) ? RecipeMethod::kQlora : RecipeMethod::kLora;
}

// Whether adapters beside linear layers are a way to train the model: they are where its repeated
// blocks have some, and in a model without blocks that has no convolutions. The one linear layer
// that classifies what a convolutional network has seen is none of them.
bool takes_adapters(const TrainingGraph& graph) {
  bool has_blocks = false;
  bool in_block = false;
  bool linear = false;
  bool convolution = false;
  for (const Layer& layer : graph.layers)
    has_blocks = has_blocks || layer.block != kNoBlock;
  for (const Operator& op : graph.operators) {
    if (op.part != OperatorPart::kForward) continue;
    convolution = convolution || is_convolution(op.work.op_class);
    if (op.family != &linear_family()) continue;
    linear = true;
    in_block = in_block || graph.block_of(op.layer) != kNoBlock;
  }
  return has_blocks ? in_block : linear && !convolution;
}

// Throws where a method cannot be had with this scenario and this model, and no other is asked for.
void check_method(RecipeMethod method, RecipeMethod own, const TrainedModel& model) {
  if (own != RecipeMethod::kFull && method != own) {
    throw UserError(fmt::format(
        "--method: the scenario lists lora, and so trains {}; leave it out of its policies for {}",
        name_of(own), name_of(method)));
  }
  if (method != RecipeMethod::kFull && method != own && !takes_adapters(model.training)) {
    throw UserError(fmt::format(
        "--method: {} has no linear layers in its blocks that adapters could stand beside; write "
        "--method full",
        model.training.name));
  }
}

// `own` is what the scenario trains as it is.
std::vector<RecipeCombination> combinations_of(RecipeMethod method, RecipeMethod own,
                                               const Measures& measures) {
  std::vector<std::vector<Measure>> states{{}};
  if (method == own) {
    states.clear();
    for (const std::vector<Measure>& type : choices(measures.precisions())) {
      for (const std::vector<Measure>& optimizer : choices(measures.optimizers())) {
        for (const std::vector<Measure>& place : subsets({measures.optimizer_in_backward(true)})) {
          states.push_back(type);
          states.back().insert(states.back().end(), optimizer.begin(), optimizer.end());
          states.back().insert(states.back().end(), place.begin(), place.end());
        }
      }
      if (const std::optional<Measure> host = measures.offload_optimizer()) {
        states.push_back(type);
        states.back().push_back(*host);
      }
    }
  } else if (const auto adapters = measures.adapters(method == RecipeMethod::kQlora)) {
    states = {{*adapters}};
  } else {
    return {};
  }
  const bool goes_unsharded = measures.optimizer_in_backward().has_value();
  std::vector<RecipeCombination> result;
  for (const std::vector<Measure>& state : states) {
    const bool in_autocast =
        !takes(state, MeasureKind::kPrecision) && !takes(state, MeasureKind::kAdapters);
    for (const std::vector<Measure>& less :
         subsets({measures.recompute(method == RecipeMethod::kFull), measures.fused_loss(),
                  measures.sharding(in_autocast)})) {
      RecipeCombination& made =
          result.emplace_back(RecipeCombination{.method = method, .measures = state});
      made.measures.insert(made.measures.end(), less.begin(), less.end());
      if (!goes_unsharded && takes(made.measures, MeasureKind::kOptimizerInBackward) &&
          !takes(made.measures, MeasureKind::kSharding)) {
        result.pop_back();
      }
    }
  }
  return result;
}

std::size_t changes_of(const Recipe& recipe) {
  return static_cast<std::size_t>(
      std::count_if(recipe.measures.begin(), recipe.measures.end(),
                    [](const Measure& measure) { return measure.changes_numbers(); }));
}

bool is_no_worse(const Recipe& a, const Recipe& b) {
  return a.method == b.method && a.per_unit() <= b.per_unit() &&
         a.point.device_used() <= b.point.device_used() && changes_of(a) <= changes_of(b) &&
         a.measures.size() <= b.measures.size();
}

// A recipe that fits, with the index of its combination.
struct Candidate {
  Recipe recipe;
  std::size_t combination = 0;
};

// Returns the fewest changes of the numbers among the recipes of the method that begins at `first`.
std::size_t fewest_changes(const std::vector<Candidate>& fitting, std::size_t first) {
  std::size_t fewest = changes_of(fitting[first].recipe);
  for (std::size_t i = first; i < fitting.size(); ++i) {
    if (fitting[i].recipe.method != fitting[first].recipe.method) break;
    fewest = std::min(fewest, changes_of(fitting[i].recipe));
  }
  return fewest;
}

// Chooses what to show of `fitting`, which is sorted by method and time and has a combination once
// per micro-batch: a slower recipe of the same method only where it takes a tenth less memory than
// each that is shown, or changes the numbers less, and a combination once. The fastest of those
// that change the numbers least is among them.
std::vector<std::size_t> worth_showing(const std::vector<Candidate>& fitting) {
  std::vector<std::size_t> shown;
  std::size_t of_method = 0;
  std::size_t fewest = 0;  // changes of a recipe of the method
  bool shows_fewest = false;
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    const Recipe& recipe = fitting[i].recipe;
    if (i == 0 || recipe.method != fitting[i - 1].recipe.method) {
      of_method = 0;
      fewest = fewest_changes(fitting, i);
      shows_fewest = false;
    }
    const bool beaten = std::any_of(shown.begin(), shown.end(), [&](std::size_t other) {
      const Recipe& above = fitting[other].recipe;
      return fitting[other].combination == fitting[i].combination || is_no_worse(above, recipe) ||
             (above.method == recipe.method && changes_of(above) <= changes_of(recipe) &&
              above.point.device_used().count * 9 <= recipe.point.device_used().count * 10);
    });
    const bool has_fewest = changes_of(recipe) == fewest;
    const std::size_t places = kShownRecipes - (shows_fewest || has_fewest ? 0 : 1);
    if (beaten || of_method >= places) continue;
    shown.push_back(i);
    ++of_method;
    shows_fewest = shows_fewest || has_fewest;
  }
  return shown;
}

// Keeps each combination once, with the micro-batch that is shown or else the fastest one.
void choose(std::vector<Candidate> fitting, std::size_t combinations, Recipes& result) {
  std::stable_sort(fitting.begin(), fitting.end(), [](const Candidate& a, const Candidate& b) {
    return a.recipe.method != b.recipe.method ? a.recipe.method < b.recipe.method
                                              : a.recipe.per_unit() < b.recipe.per_unit();
  });
  const std::vector<std::size_t> shown = worth_showing(fitting);
  std::vector<char> is_shown(fitting.size(), 0);
  std::vector<char> is_taken(combinations, 0);
  for (const std::size_t i : shown) {
    is_shown[i] = 1;
    is_taken[fitting[i].combination] = 1;
  }
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    char& taken = is_taken[fitting[i].combination];
    if (is_shown[i] == 0 && taken != 0) continue;
    taken = 1;
    if (is_shown[i] != 0) result.shown.push_back(result.fitting.size());
    result.fitting.push_back(std::move(fitting[i].recipe));
  }
}

}  // namespace
}  // namespace recipe_detail

std::string Recipe::text() const {
  std::vector<std::string> texts;
  for (const Measure& measure : measures)
    texts.push_back(measure.text);
  return texts.empty() ? "as it is" : fmt::format("{}", fmt::join(texts, " + "));
}

std::string Recipe::numbers() const {
  std::vector<std::string> texts;
  for (const Measure& measure : measures) {
    if (measure.changes_numbers()) texts.push_back(measure.numbers);
  }
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

Duration Recipe::per_unit() const {
  const double units = point.tokens > 0 ? point.tokens : point.samples;
  if (units <= 0) return point.run.step;
  return Duration(static_cast<std::int64_t>(static_cast<double>(point.run.step.count()) / units));
}

Recipes find_recipes(const Value& document, const Environment& environment,
                     const std::vector<RecipeMethod>& methods, std::int64_t largest_micro_batch,
                     int threads) {
  const Scenario scenario = decode_scenario(document, environment);
  const TrainedModel model = build_training(scenario);
  const Measures measures(document, scenario, model);
  std::vector<RecipeCombination> combinations;
  const RecipeMethod own = recipe_detail::method_of(model.training);
  const bool adapts = recipe_detail::takes_adapters(model.training);
  for (const RecipeMethod method : methods) {
    if (methods.size() == 1) recipe_detail::check_method(method, own, model);
    const bool other = method != own && (own != RecipeMethod::kFull || !adapts);
    if (other) continue;
    std::vector<RecipeCombination> more = recipe_detail::combinations_of(method, own, measures);
    std::move(more.begin(), more.end(), std::back_inserter(combinations));
  }
  const RecipeSearch search(
      document, environment, measures,
      micro_batches_of(document, environment, model.training, largest_micro_batch));
  std::vector<std::vector<Recipe>> found = search.try_all(combinations, threads);

  Recipes result{.combinations = combinations.size()};
  std::vector<recipe_detail::Candidate> fitting;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (Recipe& recipe : found[i]) {
      if (recipe.point.status == PointStatus::kFits) {
        fitting.push_back({std::move(recipe), i});
        continue;
      }
      const bool nearer =
          !result.nearest || recipe.point.device_used() < result.nearest->point.device_used();
      if (nearer) result.nearest = std::move(recipe);
    }
  }
  if (!fitting.empty()) result.nearest.reset();
  recipe_detail::choose(std::move(fitting), combinations.size(), result);
  return result;
}

}  // namespace tidemark
