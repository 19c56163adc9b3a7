// All residency policies of the registry, in any number and order, on small models.
#include <algorithm>
#include <random>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/listed_policies.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/gradient_fingerprint.hpp"
#include "tests/support/program_fingerprint.hpp"

namespace tidemark::policy_composition_test {
namespace {

// Policies that train another model than the one that is given.
bool adapts_model(std::string_view name) {
  static const std::set<std::string_view> kNames{"freeze",       "layer_precision",
                                                 "lora",         "quantise_weights",
                                                 "chunked_loss", "compress_activations",
                                                 "distill",      "fused_loss",
                                                 "prune",        "qat",
                                                 "liger_kernels"};
  return kNames.contains(name);
}

struct Composed {
  std::uint64_t fingerprint = 0;  // of the gradients
  std::uint64_t program = 0;
  std::int64_t contested = 0;
  std::int64_t refused = 0;
  std::int64_t peak_live = 0;
  std::int64_t peak_active = 0;
  std::int64_t run_again = 0;  // most bytes that one stretch of recomputation makes
  std::int64_t moved = 0;
  std::set<std::string> acted;  // policies that decided something
};

// compile() verifies the program; a wrong one throws.
Composed compose(const std::string& model, const std::string& training,
                 const std::vector<std::string>& policies) {
  const std::string text = fmt::format(
      "{{model: {}, hardware: h100-sxm-80gb, allocator: ideal, training: {{{}, "
      "framework: ideal, {}}}, policies: [{}]}}",
      model, is_language(model) ? "sequence: 32" : "image: 32", training,
      fmt::join(policies, ", "));
  const Scenario scenario = decode(text);
  const TrainedModel trained = build_training(scenario);
  const Compiled compiled = compile(scenario, trained);
  Scratch scratch;
  const RunResult run = run_compiled(scenario, compiled, scratch, kUnlimited, false);
  CHECK(run.status == RunStatus::kCompleted);
  Composed result{.fingerprint = test::gradient_fingerprint(trained.training),
                  .program = test::fingerprint(compiled.program),
                  .peak_live = run.live.bytes.count,
                  .peak_active = run.active.bytes.count};
  std::int64_t stretch = 0;
  for (const Occurrence& occurrence : compiled.order.at) {
    if (!occurrence.recompute) stretch = 0;
    for (const Touch& touch : trained.training.touches_of(occurrence.op)) {
      if (occurrence.recompute && touch.access == Access::kCreate) {
        stretch += trained.training.storages[touch.storage].bytes.count;
      }
    }
    result.run_again = std::max(result.run_again, stretch);
  }
  for (const PolicyOutcome& outcome : compiled.policies) {
    result.moved += outcome.offloaded.count;
    result.contested += outcome.contested;
    result.refused += outcome.refused;
    // Bytes move only by decisions: those that recomputation displaced move none.
    CHECK(outcome.offloaded >= Bytes(0));
    CHECK((outcome.decided > 0 || outcome.offloaded == Bytes(0)));
    if (outcome.decided > 0) result.acted.insert(outcome.name);
  }
  return result;
}

TEST_SUITE("property") {
  TEST_CASE(
      "any two or three policies of the registry, in any order: the same gradients, verified") {
    std::mt19937 rng(11);
    const PolicyRegistry& registry = environment().policies;
    std::set<std::string> listed_once;
    int same_programs = 0;
    for (int trial = 0; trial < 60; ++trial) {
      std::vector<const PolicyEntry*> chosen;
      // Each policy is first once; the others are drawn.
      const std::size_t first = static_cast<std::size_t>(trial) % registry.entries().size();
      const bool is_llama = registry.entries()[first].name == "liger_kernels" || trial % 6 == 4;
      const char* model = is_llama ? kLlama : kModels[trial % 6 == 5 ? 2 : 0];
      const bool accumulates = trial % 2 == 0 && registry.entries()[first].name != kInBackward;
      const char* training = accumulates ? "micro_batch: 1, precision: bf16_mixed, accumulate: 2"
                                         : "micro_batch: 1, precision: fp32";
      if (!may_join(registry.entries()[first], chosen, model, accumulates)) continue;
      chosen.push_back(&registry.entries()[first]);
      const std::size_t count = 2 + rng() % 2;
      while (chosen.size() < count) {
        const PolicyEntry& entry = registry.entries()[rng() % registry.entries().size()];
        if (may_join(entry, chosen, model, accumulates)) chosen.push_back(&entry);
      }
      std::vector<std::string> names;
      std::vector<std::string> adapting;
      for (const PolicyEntry* entry : chosen) {
        if (adapts_model(entry->name)) adapting.push_back(listed(std::string(entry->name)));
        names.push_back(listed(std::string(entry->name)));
        listed_once.insert(std::string(entry->name));
      }
      const std::uint64_t kept = compose(model, training, adapting).fingerprint;
      const Composed first_order = compose(model, training, names);
      std::reverse(names.begin(), names.end());
      const Composed other_order = compose(model, training, names);
      CAPTURE(model);
      CAPTURE(training);
      CAPTURE(fmt::format("{}", fmt::join(names, ", ")));
      CHECK(first_order.fingerprint == kept);
      CHECK(other_order.fingerprint == kept);
      // Order decides only who comes first where two want the same value. Policies with a budget
      // look at the rest of it, and solvers stop when their time is over.
      const bool looks = std::any_of(chosen.begin(), chosen.end(), [](const PolicyEntry* entry) {
        const std::string text = listed(std::string(entry->name));
        return text.find("budget") != std::string::npos ||
               text.find("time_limit") != std::string::npos;
      });
      if (looks || first_order.contested > 0 || other_order.contested > 0) continue;
      CAPTURE(first_order.refused);
      CAPTURE(other_order.refused);
      CHECK(first_order.program == other_order.program);
      ++same_programs;
    }
    CHECK(same_programs > 15);
    CHECK(listed_once.size() == registry.entries().size());
  }

  TEST_CASE("superneurons decides about what the policies listed before it keep") {
    const auto outcomes = [](const char* policies) {
      const Scenario scenario = decode(
          fmt::format("{{model: resnet18, hardware: v100-sxm-16gb, training: {{micro_batch: 2, "
                      "image: 64}}, policies: [{}]}}",
                      policies));
      return compile(scenario, build_training(scenario)).policies;
    };
    const std::int64_t cheap = outcomes("superneurons").front().decided;
    const std::int64_t blocks = outcomes("checkpoint_every").front().decided;
    const std::vector<PolicyOutcome> first = outcomes("superneurons, checkpoint_every");
    CHECK(first[0].decided == cheap);
    CHECK(first[1].decided + first[1].contested == blocks);
    CHECK(first[1].contested > 0);
    const std::vector<PolicyOutcome> later = outcomes("checkpoint_every, superneurons");
    CHECK(later[0].decided == blocks);
    CHECK(later[1].decided > 0);
    CHECK(later[1].decided < cheap);
    // What the blocks recompute is not among its candidates, so that it does not lose it.
    CHECK(later[0].contested + later[1].contested == 0);
  }

  TEST_CASE("residency policies compose in any order: same gradients, verified, no higher peak") {
    std::vector<std::string> residency;
    for (const PolicyEntry& entry : environment().policies.entries()) {
      if (entry.kind == "residency") residency.emplace_back(entry.name);
    }
    REQUIRE(residency.size() >= 16);
    std::mt19937 rng(7);
    std::set<std::string> acted;
    for (const char* model : kModels) {
      for (const char* training :
           {"micro_batch: 2, precision: fp32", "micro_batch: 2, precision: bf16_autocast",
            "micro_batch: 2, precision: bf16_mixed, accumulate: 2"}) {
        const Composed kept = compose(model, training, {});
        for (int trial = 0; trial < 12; ++trial) {
          std::shuffle(residency.begin(), residency.end(), rng);
          std::vector<std::string> chosen;
          const auto count = std::min<std::size_t>(1 + rng() % 6, residency.size());
          for (std::size_t i = 0; i < count; ++i) {
            // It recomputes attention, which the convolutional models do not have.
            if (residency[i] == "megatron_selective" && !is_language(model)) continue;
            chosen.push_back(listed(residency[i]));
          }
          // An explicit order repeats operators before any of the policies decides.
          if (trial % 4 == 3) chosen.insert(chosen.begin(), "revolve: {checkpoints: 2}");
          CAPTURE(model);
          CAPTURE(training);
          CAPTURE(fmt::format("{}", fmt::join(chosen, ", ")));
          const Composed composed = compose(model, training, chosen);
          acted.insert(composed.acted.begin(), composed.acted.end());
          CHECK(composed.fingerprint == kept.fingerprint);
          // More than keeping everything needs are only recomputed values, and copies that have not
          // ended when their memory is given back.
          CHECK(composed.peak_live <= kept.peak_live + composed.run_again);
          CHECK(composed.peak_active <= kept.peak_active + composed.run_again + composed.moved);
        }
      }
    }
    for (const std::string& name : residency) {
      CAPTURE(name);
      CHECK(acted.contains(name));
    }
  }

  TEST_CASE("what only moves values never raises the live peak of what is listed beside it") {
    const std::vector<std::string> movers{"offload_activations", "torchtune_offload",
                                          "te_offload",          "megatron_offload",
                                          "offload_checkpoints", "vdnn",
                                          "stronghold",          "belady",
                                          "flashneuron"};
    for (const char* model : kModels) {
      for (const char* beside : {"", "checkpoint_every", "superneurons"}) {
        std::vector<std::string> base;
        if (*beside != '\0') base.emplace_back(beside);
        const Composed without = compose(model, "micro_batch: 2", base);
        for (const std::string& mover : movers) {
          CAPTURE(model);
          CAPTURE(beside);
          CAPTURE(mover);
          std::vector<std::string> both = base;
          both.push_back(listed(mover));
          CHECK(compose(model, "micro_batch: 2", both).peak_live <= without.peak_live);
        }
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("policies that want the same values are reported as contested") {
    const std::string text =
        "{model: {preset: gpt, layers: 4, width: 64, heads: 4}, hardware: a100-sxm-80gb, "
        "policies: [te_offload: {layers: 3, min_bytes: 1KiB}, torchtune_offload]}";
    const Scenario scenario = decode(text);
    const TrainedModel model = build_training(scenario);
    const PointResult result = simulate(scenario, model, {.smallest_capacity = false});
    REQUIRE(result.policies.size() == 2);
    CHECK(result.policies[0].contested == 0);
    // The first three blocks save these, in each of two steps.
    CHECK(result.policies[1].contested == result.policies[0].decided);
  }
}

}  // namespace
}  // namespace tidemark::policy_composition_test
