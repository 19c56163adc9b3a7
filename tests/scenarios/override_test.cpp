#include <string>

#include <doctest/doctest.h>

#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::override_test {
namespace {

const std::string kPolicies =
    "policies:\n  - checkpoint_every: {period: 2}\n  - revolve\n  - offload_activations\n"
    "  - offload_activations: {prefetch: 2}\n";

// The scenario with the changes of the command line.
Scenario changed(const std::string& more, std::initializer_list<std::string> changes) {
  Value document = parse_document(scenario_text(more), "s.yaml");
  for (const std::string& change : changes)
    apply_override(document, parse_override(change));
  return decode_scenario(document, environment());
}

std::string refusal_of(const std::string& more, const std::string& change) {
  return error_of([&] { static_cast<void>(changed(more, {change})); });
}

std::string parse_refusal(const std::string& text) {
  return error_of([&] { static_cast<void>(parse_override(text)); });
}

// The parameters of the first policy.
std::string first_period(const std::string& change) {
  Value document = parse_document(scenario_text(kPolicies), "s.yaml");
  apply_override(document, parse_override(change));
  const Value& item = document.find("policies")->items.front();
  const Value* period = item.entries.front().value.find("period");
  return period == nullptr ? "none" : period->scalar;
}

TEST_SUITE("unit") {
  TEST_CASE("a dotted key reaches into the scenario and makes what is missing") {
    CHECK(changed("", {"training.micro_batch=4"}).training.model.micro_batch == 4);
    CHECK(changed("training: {micro_batch: 2}\n", {"training.micro_batch=4"})
              .training.model.micro_batch == 4);
    CHECK(changed("training:\n", {"training.steps=1"}).training.steps == 1);
    CHECK(
        changed("training: {sequence: 64}\n", {"training.sequence=null"}).training.model.sequence ==
        std::nullopt);
    CHECK(changed("", {"name=a = b"}).name == "a = b");
    CHECK(changed("", {"training={steps: 1, accumulate: 2}"}).training.accumulate == 2);
    // The last one wins.
    CHECK(changed("", {"training.steps=1", "training.steps=3"}).training.steps == 3);
  }

  TEST_CASE("a word becomes the mapping that it is short for when a key of it is set") {
    CHECK(changed("", {"hardware.count=8"}).mesh.ranks() == 8);
    CHECK(changed("", {"hardware.hbm.capacity=10GiB"}).device.hbm.capacity == 10 * kGiB);
    CHECK(changed("", {"model.layers=2"}).model.overrides.find("layers")->scalar == "2");
    CHECK(changed("training: {optimizer: adam}\n", {"training.optimizer.implementation=fused"})
              .training.optimizer.implementation == OptimizerImplementation::kFused);
    CHECK(changed("allocator: torch\n", {"allocator.kind=ideal"}).allocator->traits().name ==
          "ideal");
  }

  TEST_CASE("policies.NAME means the listed policy of that name") {
    CHECK(first_period("policies.checkpoint_every.period=3") == "3");
    CHECK(first_period("policies.checkpoint_every={period: 4}") == "4");
    CHECK(first_period("policies.checkpoint_every=null") == "none");
    // A bare name gets parameters.
    CHECK(changed("policies: [revolve]\n", {"policies.revolve.checkpoints=2"}).policies.size() ==
          1);
    CHECK(changed(kPolicies, {"policies=[]"}).policies.empty());
    CHECK(changed("", {"policies=[checkpoint_every: {period: 2}, revolve]"}).policy_names ==
          std::vector<std::string>{"checkpoint_every", "revolve"});
  }

  TEST_CASE("a policy that is absent or listed twice cannot be overridden") {
    CHECK(refusal_of(kPolicies, "policies.checkpoint_evry.period=3") ==
          "-s:1:33: policies.checkpoint_evry.period: policy 'checkpoint_evry' is not listed under "
          "policies; did you mean 'checkpoint_every'?");
    CHECK(refusal_of("", "policies.zero.stage=3") ==
          "-s:1:21: policies.zero.stage: policy 'zero' is not listed under policies; no policies "
          "are listed");
    CHECK(refusal_of("policies: [revolve]\n", "policies.zero.stage=3") ==
          "-s:1:21: policies.zero.stage: policy 'zero' is not listed under policies; listed: "
          "revolve");
    CHECK(refusal_of(kPolicies, "policies.offload_activations.prefetch=3") ==
          "-s:1:39: policies.offload_activations.prefetch: policy 'offload_activations' is listed "
          "twice (lines 6 and 7), so it is not clear which one is meant; override 'policies' as a "
          "whole");
    CHECK(refusal_of("policies: 3\n", "policies.zero.stage=3") ==
          "-s:1:21: policies.zero.stage: 'policies' is not a list, so no policy in it can be "
          "changed");
  }

  TEST_CASE("keys that reach nothing are errors") {
    CHECK(refusal_of("", "trainig.steps=1") ==
          "-s:1:15: trainig: unknown key; did you mean 'training'?");
    CHECK(refusal_of("", "training.stepz=1") ==
          "-s:1:16: training.stepz: unknown key; did you mean 'steps'?");
    CHECK(refusal_of("training: {steps: 1}\n", "training.steps.more=1") ==
          "-s:1:21: training.steps.more: 'training.steps' is a single value and has no key 'more'");
    CHECK(refusal_of("training: [1]\n", "training.steps=1") ==
          "-s:1:16: training.steps: 'training' is a list and has no key 'steps'");
  }

  TEST_CASE("values are checked like those of a file, and errors name the option") {
    CHECK(refusal_of("", "training.micro_batch=many") ==
          "-s:1:22: training.micro_batch: expected an integer from 1 to 16777216, found 'many'");
    CHECK(refusal_of("", "hardware.hbm.capacity=80G")
              .starts_with("-s:1:23: hardware.hbm.capacity: "));
    CHECK(
        refusal_of("", "policies=[zeroo]").starts_with("-s:1:11: policies[0]: there is no policy"));
  }

  TEST_CASE("a text that is no override is an error") {
    CHECK(parse_refusal("training.steps") == "-s:1:1: expected KEY=VALUE, found 'training.steps'");
    CHECK(parse_refusal("") == "-s:1:1: expected KEY=VALUE, found ''");
    for (const std::string key : {"", ".", ".steps", "training.", "training..steps"}) {
      CHECK(parse_refusal(key + "=1") ==
            "-s:1:1: expected a key such as training.micro_batch before '=', found '" + key + "'");
    }
    CHECK(parse_refusal("training.steps=") ==
          "-s:1:16: training.steps: a value is missing after '='; null stands for the default");
    CHECK(parse_refusal("training.steps= # 2") ==
          "-s:1:16: training.steps: a value is missing after '='; null stands for the default");
    CHECK(parse_refusal("policies=- revolve\n- zero") ==
          "-s:1:10: policies: a value must fit on one line; write [a, b] or {key: value}");
    CHECK(parse_refusal("policies=[revolve").starts_with("-s:1:"));
    CHECK(parse_refusal("policies=" + std::string(100'000, '['))
              .find("nested more than 64 levels deep") != std::string::npos);
  }

  TEST_CASE("a key that the sweep sets at every point cannot be overridden alone") {
    const std::string sweep = "sweep: {matrix: {training.steps: [1, 2], model: [gpt2]}}\n";
    CHECK(refusal_of(sweep, "training.steps=3") ==
          "-s:1:16: training.steps: the sweep sets 'training.steps' at every point; change "
          "sweep.matrix.training.steps or leave the sweep out with -s sweep=null");
    CHECK(refusal_of(sweep, "model.layers=3").find("the sweep sets 'model'") != std::string::npos);
    Value document = parse_document(scenario_text(sweep), "s.yaml");
    apply_override(document, parse_override("sweep.matrix.training.steps=[3, 4, 5]"));
    CHECK(sweep_points(document).size() == 3);
    apply_override(document, parse_override("sweep=null"));
    apply_override(document, parse_override("training.steps=3"));
    CHECK(sweep_points(document).size() == 1);
  }
}

}  // namespace
}  // namespace tidemark::override_test
