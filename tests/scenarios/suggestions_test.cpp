#include "scenarios/studies/suggestions.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/read/environment.hpp"
#include "sim/program/live_peak.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::suggestions_test {

namespace {

const Environment& environment() {
  static const Environment found = default_environment();
  return found;
}

// A step that does not fit, and what was tried about it.
struct Failed {
  Value document;
  PointResult point;
  std::vector<Suggestion> tried;

  explicit Failed(const std::string& yaml) : document(parse_document(yaml, "s.yaml")) {
    const Scenario scenario = decode_scenario(document, environment());
    const TrainedModel model = build_training(scenario);
    point = simulate(scenario, model, {});
    tried = suggest_changes(document, scenario, model, environment(), point);
  }
  [[nodiscard]] const Suggestion* find(std::string_view change) const {
    const auto found = std::find_if(tried.begin(), tried.end(),
                                    [&](const Suggestion& s) { return s.change == change; });
    return found == tried.end() ? nullptr : &*found;
  }
  // Returns the point when the suggestion is followed.
  [[nodiscard]] PointResult follow(const Suggestion& suggestion) const {
    const Scenario other =
        decode_scenario(point_document(document, suggestion.overrides), environment());
    return simulate(other, build_training(other), {});
  }
};

// 12 bytes of states per parameter beside 4 of weights and gradients: of llama-2-7b's 6.74 billion
// they take 75 GiB of the 100 that the model takes.
const std::string kStatesTooLarge =
    "{version: 1, model: llama-2-7b, hardware: a100-sxm-80gb, training: {micro_batch: 1, sequence: "
    "2048}}";

// Stages of a GPT whose first one holds the most micro-batches: its activations do not fit.
std::string pipeline_of(const std::string& schedule, int accumulate, const std::string& more) {
  return fmt::format(
      "{{version: 1, model: {{preset: gpt, layers: 8, width: 512, heads: 8, vocab: 4096, "
      "sequence: 512, tie: false}}, hardware: {{gpu: h100-sxm-80gb, count: 4, hbm: {{capacity: "
      "2600MiB}}}}, "
      "training: {{micro_batch: 16, sequence: 512, accumulate: {}}}, policies: [{{pipeline: "
      "{{size: 4, schedule: {}}}}}{}]}}",
      accumulate, schedule, more);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("where states alone do not fit, moving and shrinking them is tried") {
    const Failed failed(kStatesTooLarge);
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const Suggestion* offload = failed.find("offload_optimizer");
    REQUIRE(offload != nullptr);
    CHECK(offload->fits);
    CHECK_FALSE(offload->changes_numbers);
    CHECK_FALSE(offload->pytorch.empty());
    CHECK_FALSE(offload->hugging_face.empty());
    const Suggestion* smaller = failed.find("optimizer adamw_8bit");
    REQUIRE(smaller != nullptr);
    CHECK(smaller->fits);
    CHECK(smaller->changes_numbers);
    CHECK(smaller->hugging_face == std::vector<std::string>{"optim=\"adamw_bnb_8bit\""});
    REQUIRE(failed.find("precision bf16") != nullptr);
    CHECK(failed.find("precision bf16")->changes_numbers);
    // Activations alone are no help, so nothing is simulated for them.
    CHECK(failed.find("checkpoint_every(period 1)") == nullptr);
    CHECK(failed.find("offload_activations") == nullptr);
  }

  TEST_CASE("what fits is ranked by speed, and the best leaves the numbers as they are") {
    const Failed failed(kStatesTooLarge);
    const auto fits = [](const Suggestion& s) { return s.fits; };
    CHECK(std::is_partitioned(failed.tried.begin(), failed.tried.end(), fits));
    const auto end = std::find_if_not(failed.tried.begin(), failed.tried.end(), fits);
    REQUIRE(end - failed.tried.begin() >= 4);
    CHECK(std::is_sorted(failed.tried.begin(), end, [](const Suggestion& a, const Suggestion& b) {
      return a.tokens_per_second > b.tokens_per_second;
    }));
    const Suggestion* best = best_that_fits(failed.tried);
    REQUIRE(best != nullptr);
    CHECK_FALSE(best->changes_numbers);
    CHECK(best->change.starts_with("offload_optimizer(ratio "));
    for (const Suggestion& suggestion : failed.tried) {
      CAPTURE(suggestion.change);
      const PointResult point = failed.follow(suggestion);
      CHECK(suggestion.fits == (point.status == PointStatus::kFits));
      CHECK(suggestion.tokens_per_second == point.tokens_per_second);
    }
  }

  TEST_CASE("a combination is tried only where less does not suffice") {
    // Weights and gradients take 25 of 32 GiB; activations of 16 sequences take 98 more.
    const Failed failed(
        "{version: 1, model: llama-2-7b, hardware: {gpu: v100-sxm-32gb}, training: {micro_batch: "
        "16, sequence: 2048}}");
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const auto parts_of = [](std::string change) {
      std::set<std::string> parts;
      for (std::size_t plus = 0; (plus = change.find(" + ")) != std::string::npos;) {
        parts.insert(change.substr(0, plus));
        change.erase(0, plus + 3);
      }
      parts.insert(change);
      return parts;
    };
    int combinations = 0;
    for (const Suggestion& suggestion : failed.tried) {
      const std::set<std::string> parts = parts_of(suggestion.change);
      if (parts.size() < 2) continue;
      ++combinations;
      CAPTURE(suggestion.change);
      for (const Suggestion& other : failed.tried) {
        const std::set<std::string> fewer = parts_of(other.change);
        if (!other.fits || fewer.size() >= parts.size()) continue;
        CAPTURE(other.change);
        CHECK_FALSE(std::includes(parts.begin(), parts.end(), fewer.begin(), fewer.end()));
      }
    }
    CHECK(combinations >= 5);
  }

  TEST_CASE("no smaller micro-batch is faster than the best that is advised") {
    const std::string text =
        "{version: 1, model: {preset: t5-base, layers: 4}, hardware: {gpu: v100-sxm-16gb, hbm: "
        "{capacity: 8GiB}}, training: {micro_batch: MB, accumulate: ACC, sequence: 512}}";
    const auto with = [&](int size, int accumulate) {
      std::string changed = text;
      changed.replace(changed.find("MB"), 2, std::to_string(size));
      changed.replace(changed.find("ACC"), 3, std::to_string(accumulate));
      return changed;
    };
    const Failed failed(with(64, 1));
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    const Suggestion* best = best_that_fits(failed.tried);
    REQUIRE(best != nullptr);
    int fitting = 0;
    for (const int size : {1, 2, 4, 8, 16, 32}) {
      const Scenario scenario =
          decode_scenario(parse_document(with(size, 64 / size), "s.yaml"), environment());
      const PointResult point = simulate(scenario, build_training(scenario), {});
      if (point.status != PointStatus::kFits) continue;
      ++fitting;
      CAPTURE(size);
      CHECK(best->samples_per_second >= point.samples_per_second);
    }
    CHECK(fitting > 0);
  }

  TEST_CASE("advice about a far too large batch simulates few micro-batches") {
    // 4096 samples one by one would be 4096 passes over the model for one suggestion.
    const Failed failed(
        "{version: 1, model: {preset: gpt2, layers: 4}, hardware: a100-sxm-40gb, training: "
        "{micro_batch: 4096, sequence: 1024}}");
    std::int64_t micro_batches = 0;
    const Suggestion* best = nullptr;
    for (const Suggestion& suggestion : failed.tried) {
      if (!suggestion.change.starts_with("micro_batch ")) continue;
      micro_batches += std::stoll(suggestion.change.substr(suggestion.change.rfind(' ') + 1));
      if (suggestion.fits) best = &suggestion;
    }
    CHECK(micro_batches <= 1024);
    REQUIRE(best != nullptr);
    CHECK(failed.follow(*best).status == PointStatus::kFits);
    // It is the largest power of two that fits: twice as much does not.
    const std::int64_t size = std::stoll(best->change.substr(std::string("micro_batch ").size()));
    const Failed twice(fmt::format(
        "{{version: 1, model: {{preset: gpt2, layers: 4}}, hardware: a100-sxm-40gb, training: "
        "{{micro_batch: {}, accumulate: 2, sequence: 1024}}}}",
        2 * size));
    CHECK(twice.point.status == PointStatus::kOutOfMemory);
  }

  TEST_CASE("a smaller micro-batch changes what batch norms compute, and says so") {
    const Failed images(
        "{version: 1, model: resnet18, hardware: {gpu: v100-sxm-16gb, hbm: {capacity: 2GiB}}, "
        "training: {micro_batch: 256}}");
    const Failed text(
        "{version: 1, model: gpt2, hardware: {gpu: v100-sxm-16gb, hbm: {capacity: 6GiB}}, "
        "training: {micro_batch: 16}}");
    for (const Failed* failed : {&images, &text}) {
      int batches = 0;
      for (const Suggestion& suggestion : failed->tried) {
        if (!suggestion.change.starts_with("micro_batch ")) continue;
        ++batches;
        CHECK(suggestion.changes_numbers == (failed == &images));
      }
      CHECK(batches > 0);
    }
  }

  TEST_CASE("the lines of other tools are those of the optimizer, or none") {
    const auto settings = [](const std::string& optimizer, const std::string& change) {
      const Failed failed(
          "{version: 1, model: gpt2-xl, hardware: {gpu: a100-sxm-40gb, hbm: "
          "{capacity: 6GiB}}, training: {micro_batch: 1, optimizer: " +
          optimizer + "}}");
      const Suggestion* found = failed.find(change);
      REQUIRE(found != nullptr);
      return *found;
    };
    CHECK(settings("adamw", "offload_optimizer").pytorch ==
          std::vector<std::string>{"optimizer = torchao.optim.CPUOffloadOptimizer("
                                   "model.parameters(), torch.optim.AdamW)"});
    CHECK(settings("momentum", "offload_optimizer").pytorch ==
          std::vector<std::string>{"optimizer = torchao.optim.CPUOffloadOptimizer("
                                   "model.parameters(), torch.optim.SGD)"});
    CHECK(settings("lion", "offload_optimizer").pytorch.empty());
    // One configuration of DeepSpeed has both entries; PyTorch alone has no line for parameters.
    const Suggestion both = settings("adamw", "offload_optimizer + offload_parameters");
    CHECK(both.pytorch.empty());
    CHECK(
        both.hugging_face ==
        std::vector<std::string>{
            "deepspeed={\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": "
            "\"cpu\", \"pin_memory\": True}, \"offload_param\": {\"device\": \"cpu\", "
            "\"pin_memory\": True}}}"});
  }

  TEST_CASE("a model in fp32 is offered the types that its device has tensor cores for") {
    const auto precisions_on = [](const std::string& gpu) {
      std::vector<std::string> changes;
      const Failed failed("{version: 1, model: gpt2-xl, hardware: {gpu: " + gpu +
                          ", hbm: {capacity: 16GiB}}, training: {micro_batch: 8, sequence: 1024, "
                          "precision: fp32}}");
      for (const Suggestion& suggestion : failed.tried) {
        if (suggestion.change.find("precision") != std::string::npos)
          changes.push_back(suggestion.change.substr(suggestion.change.find("precision")));
      }
      std::sort(changes.begin(), changes.end());
      changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
      return changes;
    };
    CHECK(precisions_on("a100-sxm-40gb") ==
          std::vector<std::string>{"precision bf16", "precision bf16_autocast"});
    CHECK(precisions_on("v100-sxm-32gb") == std::vector<std::string>{"precision fp16_autocast"});
  }

  TEST_CASE("where several ranks hold the whole model, sharding is tried") {
    const Failed failed(
        "{version: 1, model: llama-3-8b, hardware: {gpu: rtx-4090, count: 4}, training: "
        "{micro_batch: 1, sequence: 2048}}");
    const Suggestion* sharded =
        failed.find("checkpoint_every(period 1) + fsdp + offload_optimizer");
    REQUIRE(sharded != nullptr);
    CHECK(sharded->fits);
    CHECK(failed.follow(*sharded).status == PointStatus::kFits);
    // The Trainer would have to offload by DeepSpeed, which does not go with its FSDP.
    CHECK(sharded->hugging_face.empty());
    // With FSDP in the scenario DeepSpeed's settings would be those of another step.
    const Failed with(
        "{version: 1, model: llama-3-8b, hardware: {gpu: rtx-4090, count: 4}, training: "
        "{micro_batch: 1, sequence: 2048}, policies: [fsdp]}");
    for (const Suggestion& suggestion : with.tried) {
      CAPTURE(suggestion.change);
      for (const std::string& line : suggestion.hugging_face)
        CHECK(line.find("deepspeed") == std::string::npos);
    }
  }

  TEST_CASE("recomputation with a part of the states moved may be faster than moving them alone") {
    const Failed failed(
        "{version: 1, model: llama-2-70b, hardware: {gpu: h100-sxm-80gb, count: 16}, training: "
        "{micro_batch: 1, sequence: 4096, accumulate: 4}, policies: [{tensor_parallel: {size: 4}}, "
        "{pipeline: {size: 4, schedule: zb-h1}}]}");
    const Suggestion* alone = nullptr;
    const Suggestion* both = nullptr;
    for (const Suggestion& suggestion : failed.tried) {
      if (!suggestion.fits) continue;
      if (suggestion.change.starts_with("offload_optimizer(")) alone = &suggestion;
      if (suggestion.change.starts_with("checkpoint_every(period 1) + offload_optimizer("))
        both = &suggestion;
    }
    REQUIRE(alone != nullptr);
    REQUIRE(both != nullptr);
    CHECK(both->tokens_per_second > 1.2 * alone->tokens_per_second);
    CHECK(failed.follow(*both).status == PointStatus::kFits);
    CHECK(best_that_fits(failed.tried)->change == both->change);
  }

  TEST_CASE("a parameter that finds no room when it is fetched is missed in that step") {
    const auto reason_with = [](const char* capacity, const char* policies) {
      const Failed failed(fmt::format(
          "{{version: 1, model: gpt2, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}}}}}, "
          "training: {{sequence: 256, precision: fp32}}, policies: [{}]}}",
          capacity, policies));
      REQUIRE(failed.point.failure);
      return failed.point.failure->reason;
    };
    const std::string fetched = reason_with(
        "1200MiB", "offload_optimizer, offload_parameters, checkpoint_every: {period: 1}");
    CHECK(fetched.find("in step 1, forward") != std::string::npos);
    CHECK(fetched.find("are live") != std::string::npos);
    const std::string placed = reason_with("800MiB", "");
    CHECK(placed.find("before the first step") != std::string::npos);
    CHECK(placed.find("are placed") != std::string::npos);
  }

  TEST_CASE("checkpoints that are advised beside adapters are not reentrant") {
    const Failed failed(
        "{version: 1, model: llama-3-8b, hardware: rtx-4090, training: {micro_batch: 1, sequence: "
        "2048, precision: bf16}, policies: [lora: {rank: 16}]}");
    REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
    int recomputing = 0;
    for (const Suggestion& suggestion : failed.tried) {
      if (suggestion.change.find("checkpoint") == std::string::npos) continue;
      ++recomputing;
      CAPTURE(suggestion.change);
      for (const std::string& warning : failed.follow(suggestion).warnings)
        CHECK(warning.find("reentrant") == std::string::npos);
    }
    CHECK(recomputing > 1);
  }

  TEST_CASE("what is said of a pipeline from one stage holds for all of them") {
    int failing = 0;
    for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1", "zbv"}) {
      CAPTURE(schedule);
      const Failed failed(pipeline_of(schedule, 4, ""));
      REQUIRE(failed.point.status == PointStatus::kOutOfMemory);
      REQUIRE_FALSE(failed.tried.empty());
      for (const Suggestion& suggestion : failed.tried) {
        CAPTURE(suggestion.change);
        const PointResult point = failed.follow(suggestion);
        CHECK((point.status == PointStatus::kFits) == suggestion.fits);
        if (!suggestion.fits) ++failing;
      }
    }
    CHECK(failing >= 10);
  }

  TEST_CASE("what a stage holds at its peak follows from its program") {
    for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb-h1", "zbv"}) {
      for (const char* more :
           {"", ", {checkpoint_every: {period: 1}}", ", {offload_activations: {}}",
            ", {offload_optimizer: {}}", ", {offload_parameters: {}}",
            ", {offload_activations: {}}, {offload_optimizer: {}}"}) {
        const std::string text = pipeline_of(schedule, 8, more);
        CAPTURE(text);
        const Scenario scenario = decode_scenario(parse_document(text, "s.yaml"), environment());
        const TrainedModel model = build_training(scenario);
        const Compiled compiled = compile(scenario, model);
        std::vector<Scratch> scratch(compiled.stages.size());
        const std::vector<RunResult> together =
            run_stages(scenario, compiled.stages, scratch, kUnlimited);
        for (std::size_t s = 0; s < together.size(); ++s) {
          CHECK(live_peak(compiled.stages[s].program) == together[s].most_live);
        }
      }
    }
  }

  TEST_CASE("advice about a step of very many operators ends with the first that will do") {
    if (!test::runs_long_tests()) {
      MESSAGE("skipped: simulates 512 micro-batches many times; set TIDEMARK_LONG_TESTS=1");
      return;
    }
    const Failed few(pipeline_of("1f1b", 8, ""));
    const Failed many(pipeline_of("1f1b", 512, ""));
    const auto fitting = [](const Failed& failed) {
      return std::count_if(failed.tried.begin(), failed.tried.end(),
                           [](const Suggestion& suggestion) { return suggestion.fits; });
    };
    CHECK(fitting(few) > 1);
    REQUIRE(fitting(many) == 1);
    CHECK_FALSE(many.tried.front().changes_numbers);
  }
}

}  // namespace tidemark::suggestions_test
