// Operators outside of every module have the names that people give them.
#include "graph/analysis/module_names.hpp"

#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::module_names_test {
namespace {

// Names of the operators outside of all layers, by module.
std::map<std::string, std::set<std::string>> outside(const TrainingGraph& graph) {
  const ModuleNames names(graph);
  std::map<std::string, std::set<std::string>> found;
  for (const OperatorId op : ids_of(graph.operators)) {
    CHECK_FALSE(names.of(op).empty());
    if (graph.operators[op].layer.valid()) {
      CHECK(names.of(op) == graph.layer_name(graph.operators[op].layer));
    } else {
      found[std::string(names.of(op))].insert(graph.operators[op].name);
    }
  }
  return found;
}

TEST_SUITE("unit") {
  TEST_CASE(
      "the loss, the optimizer and the inputs of a model have names, and its head is no loss") {
    const Scenario scenario = decode(
        "{version: 1, model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, training: "
        "{micro_batch: 1, sequence: 64, accumulate: 2}}");
    const TrainedModel model = build_training(scenario);
    const auto found = outside(model.training);
    REQUIRE(found.contains("loss"));
    CHECK(found.at("loss").contains("log_softmax"));
    CHECK(found.at("loss").contains("nll_loss"));
    CHECK(found.at("loss").contains("log_softmax.backward"));
    CHECK(found.at("loss").contains("root_gradient"));
    CHECK_FALSE(found.at("loss").contains("linear"));
    // The head shares its weight with the embedding and belongs to no module.
    CHECK(found.at("linear").contains("linear.weight_gradient"));
    CHECK(found.at("optimizer").contains("adamw.fused"));
    CHECK(found.at("optimizer").contains("zero_grad"));

    const ModuleNames names(model.training);
    for (const StorageId storage : ids_of(model.training.storages)) {
      const Storage& of = model.training.storages[storage];
      if (of.name == "tokens" || of.name == "targets") CHECK(names.of(storage) == "inputs");
      if (of.name == "log_softmax") CHECK(names.of(storage) == "loss");
    }
  }

  TEST_CASE("a classifier's loss begins behind its last module") {
    const Scenario scenario = decode(
        "{version: 1, model: resnet18, hardware: v100-sxm-16gb, training: {micro_batch: 1, image: "
        "64}}");
    const auto found = outside(build_training(scenario).training);
    REQUIRE(found.contains("loss"));
    CHECK(found.at("loss").contains("nll_loss"));
    CHECK(found.at("loss").contains("log_softmax"));
  }
}

}  // namespace
}  // namespace tidemark::module_names_test
