#include "cli/commands/recipe.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/recipe.hpp"

namespace tidemark {
namespace recipe_detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kMethods{"any", "full", "lora", "qlora"};

std::vector<RecipeMethod> methods_of(std::string_view word) {
  std::vector<RecipeMethod> methods;
  for (std::size_t i = 0; i < kRecipeMethods; ++i) {
    const auto method = static_cast<RecipeMethod>(i);
    if (word == "any" || word == name_of(method)) methods.push_back(method);
  }
  return methods;
}

// The scenario that combinations change, and what was added to it: words of the command line.
struct Base {
  Value document;
  std::vector<std::string> added;
  std::string precision;  // empty where the scenario says its own
  bool fused_adamw = false;
};

void set_default(Base& base, const std::string& key, const std::string& standard) {
  base.added.push_back(fmt::format("{}={}", key, standard));
  apply_override(base.document, parse_override(base.added.back()));
}

// Starts from what Hugging Face's Trainer does: weights of 4 bytes under autocast, and AdamW in one
// kernel.
Base base_of(Value document, const Environment& environment, int count) {
  Base base{.document = std::move(document)};
  if (count > 0) set_default(base, "hardware.count", fmt::to_string(count));
  const Scenario scenario = decode_scenario(base.document, environment);
  if (scenario.model.kind == ModelKind::kCostGraph) return base;
  const Value* training = base.document.find("training");
  const auto given = [&](std::string_view key) {
    return training != nullptr && training->find(key) != nullptr;
  };
  const bool has_precision = given("precision");
  const bool has_optimizer = given("optimizer");
  if (!has_precision) {
    const bool has_bf16 = matrix_type(scenario.device, DType::kBFloat16) == DType::kBFloat16;
    base.precision = has_bf16 ? "bf16" : "fp16";
    set_default(base, "training.precision", base.precision + "_autocast");
  }
  base.fused_adamw = !has_optimizer;
  if (!has_optimizer)
    set_default(base, "training.optimizer", "{name: adamw, implementation: fused}");
  return base;
}

// Whether a recipe leaves the precision, or the optimizer, of the base.
bool keeps_precision(const Recipe& recipe) {
  return !takes(recipe.measures, MeasureKind::kPrecision) &&
         !takes(recipe.measures, MeasureKind::kAdapters);
}
bool keeps_optimizer(const Recipe& recipe) {
  return !takes(recipe.measures, MeasureKind::kOptimizer) &&
         !takes(recipe.measures, MeasureKind::kOffloadOptimizer);
}

// Returns the settings of a list of measures, one source of them after the other.
std::vector<std::string> lines_of(const Recipe& recipe, std::string Measure::*source) {
  std::vector<std::string> lines;
  for (const Measure& measure : recipe.measures) {
    std::string_view text = measure.*source;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      lines.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return lines;
}

// Returns the measures that a trainer has no setting for: without them its settings would be those
// of another step, which may not fit.
std::vector<std::string> lacking_in_trainer(const Recipe& recipe) {
  std::vector<std::string> texts;
  for (const Measure& measure : recipe.measures) {
    if (trainer_lacks(measure, recipe.measures)) texts.push_back(measure.text);
  }
  return texts;
}

std::vector<std::string> hugging_face(const Recipe& recipe, const Base& base) {
  if (!lacking_in_trainer(recipe).empty()) return {};
  std::vector<std::string> lines{fmt::format("per_device_train_batch_size={}", recipe.micro_batch)};
  if (!base.precision.empty() && keeps_precision(recipe)) lines.push_back(base.precision + "=True");
  if (base.fused_adamw && keeps_optimizer(recipe))
    lines.emplace_back("optim=\"adamw_torch_fused\"");
  const std::vector<std::string> more = lines_of(recipe, &Measure::hugging_face);
  lines.insert(lines.end(), more.begin(), more.end());
  std::string deepspeed = deepspeed_argument(recipe.measures);
  if (!deepspeed.empty()) lines.push_back(std::move(deepspeed));
  return lines;
}

// axolotl loads the weights in the type that it computes in (torch_dtype of `bf16: true`); under
// FSDP Accelerate makes those that are trained fp32.
std::vector<std::string> lacking_in_axolotl(const Recipe& recipe, const Base& base) {
  std::vector<std::string> texts;
  for (const Measure& measure : recipe.measures) {
    if (!measure.axolotl.empty()) continue;
    texts.push_back(measure.kind == MeasureKind::kAdapters
                        ? "norms and embeddings of 16 bits beside a base of 4 bits, of this model"
                        : measure.text);
  }
  const bool shards = takes(recipe.measures, MeasureKind::kSharding);
  if (!base.precision.empty() && keeps_precision(recipe) && !shards)
    texts.push_back("weights in fp32 under " + base.precision);
  return texts;
}

std::vector<std::string> axolotl(const Recipe& recipe, const Base& base) {
  if (!lacking_in_axolotl(recipe, base).empty()) return {};
  std::vector<std::string> lines{fmt::format("micro_batch_size: {}", recipe.micro_batch)};
  if (!base.precision.empty() && keeps_precision(recipe))
    lines.push_back(base.precision + ": true");
  if (base.fused_adamw && keeps_optimizer(recipe))
    lines.emplace_back("optimizer: adamw_torch_fused");
  const std::vector<std::string> more = lines_of(recipe, &Measure::axolotl);
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

std::string table_of(const Recipes& recipes, bool colour, std::size_t width) {
  const bool tokens = !recipes.fitting.empty() && recipes.fitting.front().point.tokens > 0;
  Table table({{"", Align::kRight},
               {"method"},
               {"with"},
               {"batch", Align::kRight},
               {"device memory", Align::kRight},
               {tokens ? "per token" : "per sample", Align::kRight},
               {tokens ? "tokens/s" : "samples/s", Align::kRight},
               {"changes in the numbers"}});
  int number = 0;
  for (const std::size_t i : recipes.shown) {
    const Recipe& recipe = recipes.fitting[i];
    table.add_row(
        {{fmt::to_string(++number)},
         {std::string(name_of(recipe.method))},
         {recipe.text()},
         {fmt::to_string(recipe.micro_batch)},
         {format_bytes(recipe.point.device_used())},
         {format_duration(recipe.per_unit())},
         {rate(tokens ? recipe.point.tokens_per_second : recipe.point.samples_per_second)},
         {recipe.numbers()}});
  }
  return table.text(colour, width);
}

std::string settings_of(const Recipe& recipe, const Base& base, int number, bool colour) {
  std::string text =
      '\n' +
      bold(fmt::format("{}: {}, {}", number, name_of(recipe.method), recipe.text()), colour) + '\n';
  const auto add = [&](std::string_view where, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += fmt::format("  {}\n", where);
    for (const std::string& line : lines)
      text += fmt::format("    {}\n", line);
  };
  const auto add_or_lack = [&](std::string_view where, const std::vector<std::string>& lines,
                               const std::vector<std::string>& lacks) {
    add(where, lines);
    if (!lacks.empty())
      text += fmt::format("  {}: it has no {}\n", where, fmt::join(lacks, " and no "));
  };
  add("in PyTorch", lines_of(recipe, &Measure::pytorch));
  add_or_lack("for Hugging Face's Trainer", hugging_face(recipe, base), lacking_in_trainer(recipe));
  add_or_lack("for axolotl", axolotl(recipe, base), lacking_in_axolotl(recipe, base));
  std::string words;
  for (const std::string& added : base.added) {
    const bool replaced =
        std::any_of(recipe.overrides.begin(), recipe.overrides.end(),
                    [&](const Override& change) { return added.starts_with(change.key + '='); });
    if (!replaced) words += fmt::format(" -s '{}'", added);
  }
  for (const Override& change : recipe.overrides)
    words += fmt::format(" -s '{}={}'", change.key, as_json(change.value));
  text += fmt::format("  with tidemark run\n   {}\n", words);
  return text;
}

Json json_of(const Recipe& recipe, const Base& base) {
  Json overrides = Json::object();
  for (const Override& change : recipe.overrides)
    overrides[change.key] = as_json(change.value);
  return {{"method", name_of(recipe.method)},
          {"with", recipe.text()},
          {"changes_in_numbers", recipe.numbers()},
          {"micro_batch", recipe.micro_batch},
          {"device_used", recipe.point.device_used().count},
          {"seconds_per_unit", static_cast<double>(recipe.per_unit().count()) * 1e-9},
          {"overrides", std::move(overrides)},
          {"pytorch", lines_of(recipe, &Measure::pytorch)},
          {"base", base.added},
          {"hugging_face", hugging_face(recipe, base)},
          {"axolotl", axolotl(recipe, base)}};
}

std::string document_of(const Recipes& recipes, const Base& base) {
  std::vector<PointResult> points;
  Json list = Json::array();
  for (const std::size_t i : recipes.shown) {
    points.push_back(recipes.fitting[i].point);
    points.back().name = recipes.fitting[i].text();
    list.push_back(json_of(recipes.fitting[i], base));
  }
  Json document = result_document(points);
  document["recipes"] = std::move(list);
  document["combinations"] = recipes.combinations;
  document["fitting"] = recipes.fitting.size();
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Says that everything that was tried runs on one GPU, and how to try several.
std::string note_on_count(const Recipes& recipes, const Base& base) {
  if (recipes.fitting.empty() && !recipes.nearest) return {};
  const PointResult& point =
      recipes.fitting.empty() ? recipes.nearest->point : recipes.fitting.front().point;
  if (point.ranks > 1 || base.document.find("hardware") == nullptr) return {};
  return fmt::format(
      "\nAll of these run on one GPU; --count N tries N of them, also with parameters and states "
      "sharded{}.\n",
      recipes.fitting.empty() ? ", where each takes less" : "");
}

// Says what the scenario has beside the settings that are shown.
std::string note_on_policies(const Base& base) {
  const Value* policies = base.document.find("policies");
  if (policies == nullptr || policies->items.empty()) return {};
  return fmt::format("\nThe scenario's own policies come to each of them: {}.\n",
                     short_setting(*policies));
}

std::string text_of(const Recipes& recipes, const Base& base, const Console& console) {
  if (recipes.fitting.empty()) {
    std::string text = fmt::format("None of {} combinations fits.\n", recipes.combinations);
    if (recipes.nearest) {
      const Recipe& nearest = *recipes.nearest;
      text += fmt::format("The nearest, {} with {}, takes {} of {}.\n", name_of(nearest.method),
                          nearest.text(), format_bytes(nearest.point.device_needed()),
                          format_bytes(nearest.point.capacity));
    }
    return text + note_on_count(recipes, base);
  }
  std::string text = fmt::format("{} of {} combinations fit into {}; the ones to choose from:\n\n",
                                 recipes.fitting.size(), recipes.combinations,
                                 format_bytes(recipes.fitting.front().point.capacity));
  text += table_of(recipes, console.colour, console.terminal ? console.width : 0);
  const std::string close =
      close_runs(std::count_if(recipes.shown.begin(), recipes.shown.end(),
                               [&](std::size_t i) { return is_close(recipes.fitting[i].point); }));
  if (!close.empty()) text += '\n' + close + '\n';
  text += note_on_policies(base);
  // The first one of each method is the fastest.
  int number = 0;
  for (std::size_t i = 0; i < recipes.shown.size(); ++i) {
    ++number;
    const Recipe& recipe = recipes.fitting[recipes.shown[i]];
    const bool first = i == 0 || recipes.fitting[recipes.shown[i - 1]].method != recipe.method;
    if (first) text += settings_of(recipe, base, number, console.colour);
  }
  return text + note_on_count(recipes, base);
}

}  // namespace
}  // namespace recipe_detail

void RecipeCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "the ways to train a model on a GPU, as settings to copy");
  app->footer(
      R"(Every combination is simulated: full fine-tuning, LoRA and QLoRA, each with narrower types,
smaller optimizer states, recomputation, a fused loss, states on the host and, with several GPUs,
sharding; micro-batches double while they fit, but for a file that fixes its batch. What is shown are
the fastest of each method and those that take a tenth less memory or change the numbers less.

Examples:
  tidemark recipe llama-3-8b --gpu rtx-4090
  tidemark recipe llama-3-8b --gpu a100-sxm-80gb --count 8 --method full
  tidemark recipe config.json --gpu l4 -s training.sequence=4096 --json

Exit codes: 0 some way fits; 1 none does; 2 bad input; 3 internal error.)");
  input.add_options(*app, false);
  app->add_option("--method", method, "what is trained")
      ->type_name(choice_type(recipe_detail::kMethods))
      ->check(CLI::IsMember(
          std::vector<std::string>(recipe_detail::kMethods.begin(), recipe_detail::kMethods.end())))
      ->capture_default_str();
  app->add_option("--count", count, "GPUs")->type_name("N")->check(CLI::Range(1, 1 << 20));
  app->add_option("--largest-batch", largest_micro_batch, "the largest micro-batch that is tried")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  app->add_flag("--json", json, "print the result document with `recipes`, and nothing else");
  app->add_option("-j,--threads", threads,
                  "combinations that are simulated at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

int RecipeCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const recipe_detail::Base base = recipe_detail::base_of(input.load().front(), environment, count);
  Recipes recipes;
  {
    const Waiting waiting(console, "trying combinations", std::chrono::nanoseconds(0));
    recipes = find_recipes(base.document, environment, recipe_detail::methods_of(method),
                           largest_micro_batch, thread_count(threads));
  }
  print(json ? recipe_detail::document_of(recipes, base)
             : recipe_detail::text_of(recipes, base, console));
  return recipes.fitting.empty() ? kExitDoesNotFit : kExitFits;
}

}  // namespace tidemark
