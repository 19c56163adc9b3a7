#include "scenarios/studies/recipe.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/measures/measures.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

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
    std::set<std::string> combinations;
    for (const std::size_t i : found.shown) {
      const Recipe& recipe = found.fitting[i];
      CHECK(combinations.insert(recipe.text()).second);
      CHECK(recipe.point.status == PointStatus::kFits);
      const bool changes = std::any_of(recipe.measures.begin(), recipe.measures.end(),
                                       [](const Measure& m) { return m.changes_numbers(); });
      CHECK(changes == (recipe.numbers() != "nothing"));
    }
    // The first of a method is the fastest of all that were tried.
    for (const Recipe& recipe : found.fitting)
      CHECK(found.fitting[found.shown.front()].per_unit() <= recipe.per_unit());
  }

  TEST_CASE("the fastest recipe of those that change the numbers least is shown") {
    const auto changes = [](const Recipe& recipe) {
      return std::count_if(recipe.measures.begin(), recipe.measures.end(),
                           [](const Measure& m) { return m.changes_numbers(); });
    };
    for (const char* const hardware : {"h100-sxm-80gb", "{gpu: a100-sxm-80gb, count: 8}"}) {
      CAPTURE(hardware);
      const Recipes found =
          recipes_of("{preset: llama-3.2-1b, layers: 4}", hardware, {RecipeMethod::kFull}, 8);
      REQUIRE(!found.fitting.empty());
      std::size_t fastest = 0;  // they are sorted by time
      for (std::size_t i = 1; i < found.fitting.size(); ++i) {
        if (changes(found.fitting[i]) < changes(found.fitting[fastest])) fastest = i;
      }
      CHECK(std::find(found.shown.begin(), found.shown.end(), fastest) != found.shown.end());
    }
  }

  TEST_CASE("a smaller micro-batch of another combination is shown where it takes less memory") {
    // Without Liger's kernels the fastest micro-batch of the checkpointed adapters takes more
    // memory than with them, and one sample a tenth less.
    const Recipes found = find_recipes(
        parse_document("{model: llama-3-8b, hardware: a100-sxm-40gb, training: {precision: "
                       "bf16_autocast, optimizer: {name: adamw, implementation: fused}}}",
                       "s.yaml"),
        environment(), {RecipeMethod::kLora}, 8, 1);
    REQUIRE(found.shown.size() >= 3);
    const Recipe& first = found.fitting[found.shown[1]];
    const Recipe& second = found.fitting[found.shown[2]];
    CHECK(first.micro_batch > 1);
    CHECK(second.micro_batch == 1);
    CHECK(second.point.device_used().count * 10 <= first.point.device_used().count * 9);
    CHECK(second.per_unit() > first.per_unit());
  }

  TEST_CASE("updating within backward lets full fine-tuning fit where gradients do not") {
    // 4.5 of 5.4 GiB are weights and gradients in bf16, so that one of both has to go.
    const Recipes found = recipes_of("llama-3.2-1b", "{gpu: h100-sxm-80gb, hbm: {capacity: 6GiB}}",
                                     {RecipeMethod::kFull}, 1);
    REQUIRE(!found.shown.empty());
    bool in_backward = false;
    for (const Recipe& recipe : found.fitting) {
      const bool drops_gradients =
          std::any_of(recipe.measures.begin(), recipe.measures.end(),
                      [](const Measure& m) { return m.kind == MeasureKind::kOptimizerInBackward; });
      if (!drops_gradients) continue;
      in_backward = true;
      CHECK(recipe.point.run.status == RunStatus::kCompleted);
    }
    CHECK(in_backward);
  }

  TEST_CASE("on several GPUs updating within backward is tried with sharding, and only so") {
    const Recipes found =
        recipes_of("llama-3.2-1b", "{gpu: h100-sxm-80gb, count: 2, hbm: {capacity: 8GiB}}",
                   {RecipeMethod::kFull}, 1);
    int in_backward = 0;
    for (const Recipe& recipe : found.fitting) {
      if (!takes(recipe.measures, MeasureKind::kOptimizerInBackward)) continue;
      ++in_backward;
      CHECK(takes(recipe.measures, MeasureKind::kSharding));
      CHECK(recipe.point.run.status == RunStatus::kCompleted);
    }
    CHECK(in_backward > 0);
  }

  TEST_CASE("where updates within backward are said to leave the peak, it is the same without") {
    int said = 0;
    int lowered = 0;
    int raised = 0;
    for (const char* model : {"gpt2", "{preset: llama-3.2-1b, layers: 2}",
                              "{preset: gpt, layers: 24, width: 512, heads: 8, vocab: 100000, "
                              "sequence: 1024, tie: false}"}) {
      for (const int micro_batch : {2, 16}) {
        for (const char* more : {"", "checkpoint_every: {period: 1}", "fused_loss"}) {
          for (const char* training :
               {"precision: bf16", "precision: bf16_mixed, optimizer: adafactor",
                "precision: bf16_mixed, optimizer: {name: adamw, implementation: loop}",
                "precision: bf16_mixed, steps: 1", "precision: fp32, optimizer: sgd"}) {
            const auto simulated = [&](const std::string& policies) {
              const Value document = parse_document(
                  fmt::format("{{model: {}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: "
                              "400GiB}}}}, training: {{micro_batch: {}, sequence: 512, {}}}, "
                              "policies: [{}]}}",
                              model, micro_batch, training, policies),
                  "s.yaml");
              return simulate_points(document, environment(), 1, {.smallest_capacity = false})
                  .front();
            };
            const std::string others = more;
            CAPTURE(model);
            CAPTURE(micro_batch);
            CAPTURE(training);
            CAPTURE(others);
            const PointResult with =
                simulated(others + (others.empty() ? "" : ", ") + "optimizer_in_backward");
            const PointResult without = simulated(others);
            const bool says = std::any_of(
                with.warnings.begin(), with.warnings.end(), [](const std::string& warning) {
                  return warning.find("leaves the peak as it is") != std::string::npos;
                });
            if (says) CHECK(with.run.live.bytes == without.run.live.bytes);
            said += says ? 1 : 0;
            lowered += with.run.live.bytes < without.run.live.bytes ? 1 : 0;
            raised += with.run.live.bytes > without.run.live.bytes ? 1 : 0;
          }
        }
      }
    }
    CHECK(said > 3);
    CHECK(lowered > 0);
    // The update of a large parameter may be on top of the activations.
    CHECK(raised > 0);
  }

  TEST_CASE("updating within backward is a measure where the policy is not refused") {
    struct Row {
      const char* gpus;
      const char* training;
      const char* policies;
    };
    int measures = 0;
    for (const Row& row :
         {Row{"1", "", ""}, Row{"1", ", accumulate: 2", ""}, Row{"1", ", zero_grad: zero", ""},
          Row{"1", ", clip_grad_norm: 1.0", ""}, Row{"1", ", loss_scale: dynamic", ""},
          Row{"2", "", ""}, Row{"2", "", "fsdp"}, Row{"2", "", "zero: {stage: 1}"},
          Row{"2", "", "distributed_optimizer"}, Row{"1", "", "offload_optimizer"},
          Row{"2", "", "pipeline: {size: 2}"}, Row{"1", "", "optimizer_in_backward"}}) {
      const auto document_with = [&](const std::string& policies) {
        return parse_document(
            fmt::format("{{model: {{preset: llama-3.2-1b, layers: 2}}, hardware: {{gpu: "
                        "h100-sxm-80gb, count: {}}}, training: {{sequence: 64, precision: "
                        "fp16_mixed{}}}, policies: [{}]}}",
                        row.gpus, row.training, policies),
            "s.yaml");
      };
      const std::string policies = row.policies;
      CAPTURE(row.training);
      CAPTURE(policies);
      const Value document = document_with(policies);
      const Scenario scenario = decode_scenario(document, environment());
      const TrainedModel model = build_training(scenario);
      const bool is_measure =
          Measures(document, scenario, model).optimizer_in_backward().has_value();
      measures += is_measure ? 1 : 0;
      const auto runs = [&] {
        if (policies == "optimizer_in_backward") return false;  // it is there already
        try {
          const std::string with =
              policies + (policies.empty() ? "" : ", ") + "optimizer_in_backward";
          static_cast<void>(simulate_points(document_with(with), environment(), 1, {}));
          return true;
        } catch (const UserError&) {
          return false;
        }
      };
      CHECK(is_measure == runs());
    }
    CHECK(measures == 2);
  }

  TEST_CASE("a graph from a file keeps the micro-batch that it was exported with") {
    // scenarios/models/feed_forward.onnx has 2 samples.
    const std::string text = fmt::format("{{model: {{onnx: '{}'}}, hardware: a100-sxm-40gb}}",
                                         test::source_path("scenarios/models/feed_forward.onnx"));
    const Recipes found =
        find_recipes(parse_document(text, "s.yaml"), environment(), {RecipeMethod::kFull}, 4, 1);
    REQUIRE(!found.fitting.empty());
    for (const Recipe& recipe : found.fitting) {
      CHECK(recipe.micro_batch == 2);
      CHECK(recipe.point.samples == 2);
    }
  }

  TEST_CASE("a smaller micro-batch is a measure where the file leaves the batch open") {
    const auto sizes = [](const std::string& more) {
      const Value document =
          parse_document(fmt::format("{{model: {{onnx: '{}'{}}}, hardware: a100-sxm-40gb}}",
                                     test::source_path("scenarios/models/feed_forward.onnx"), more),
                         "s.yaml");
      const Scenario scenario = decode_scenario(document, environment());
      const TrainedModel model = build_training(scenario);
      return Measures(document, scenario, model).smaller_micro_batches();
    };
    CHECK(sizes("").empty());
    CHECK(sizes(", batch_axis: 0}, training: {micro_batch: 4") == std::vector<std::int64_t>{1, 2});
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

  TEST_CASE("a scenario with adapters is a recipe of its own method") {
    const auto found = [](const std::string& lora, std::vector<RecipeMethod> methods) {
      const std::string text = fmt::format(
          "{{model: {{preset: gpt2, layers: 2}}, hardware: h100-sxm-80gb, training: {{sequence: "
          "64}}, policies: [{{lora: {}}}]}}",
          lora);
      return find_recipes(parse_document(text, "s.yaml"), environment(), methods, 1, 1);
    };
    const std::vector<RecipeMethod> any{RecipeMethod::kFull, RecipeMethod::kLora,
                                        RecipeMethod::kQlora};
    const auto of_method = [](const Recipes& recipes, RecipeMethod method) {
      return !recipes.fitting.empty() &&
             std::all_of(recipes.fitting.begin(), recipes.fitting.end(),
                         [&](const Recipe& recipe) { return recipe.method == method; });
    };
    CHECK(of_method(found("{rank: 8, targets: [c_attn]}", any), RecipeMethod::kLora));
    CHECK(of_method(found("{rank: 8, targets: [c_attn], base: nf4}", any), RecipeMethod::kQlora));
    CHECK(error_of([&] {
            static_cast<void>(found("{rank: 8, targets: [c_attn]}", {RecipeMethod::kFull}));
          }).find("the scenario lists lora, and so trains lora") != std::string::npos);
  }

  TEST_CASE("use_liger_kernel is a setting of models that Liger patches") {
    const auto settings = [](const std::string& model, const std::string& hardware,
                             const std::string& text) {
      const Recipes found = recipes_of(model, hardware, {RecipeMethod::kFull, RecipeMethod::kLora});
      std::string lines;
      for (const Recipe& recipe : found.fitting) {
        for (const Measure& measure : recipe.measures) {
          if (measure.text.starts_with(text)) lines += measure.hugging_face + measure.axolotl;
        }
      }
      return lines;
    };
    CHECK(settings("{preset: llama-3.2-1b, layers: 1}", "h100-sxm-80gb", "fused_loss")
              .find("use_liger_kernel=True") != std::string::npos);
    CHECK(settings("{preset: gpt2, layers: 1}", "h100-sxm-80gb", "fused_loss").empty());
    // Adapters in fp32 over a base in fp16 need a loss scale.
    CHECK(settings("{preset: gpt2, layers: 1}", "v100-sxm-16gb", "lora").find("fp16=True") !=
          std::string::npos);
    CHECK(settings("{preset: gpt2, layers: 1}", "h100-sxm-80gb", "lora").find("fp16=True") ==
          std::string::npos);
  }

  TEST_CASE("adapters are for models with linear layers in their blocks") {
    const auto methods = [](const std::string& model) {
      const std::string text = "{model: " + model + ", hardware: h100-sxm-80gb}";
      const Recipes recipes =
          find_recipes(parse_document(text, "s.yaml"), environment(),
                       {RecipeMethod::kFull, RecipeMethod::kLora, RecipeMethod::kQlora}, 1, 1);
      return std::any_of(recipes.fitting.begin(), recipes.fitting.end(),
                         [](const Recipe& r) { return r.method != RecipeMethod::kFull; });
    };
    CHECK_FALSE(methods("resnet18"));
    CHECK_FALSE(methods("vgg11"));
    CHECK(methods("{preset: vit, layers: 2}"));
    CHECK(error_of([] {
            static_cast<void>(
                find_recipes(parse_document("{model: resnet18, hardware: h100-sxm-80gb}", "s.yaml"),
                             environment(), {RecipeMethod::kLora}, 1, 1));
          }).find("no linear layers in its blocks") != std::string::npos);
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
