#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "graph/core/paths.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::load_scenario_test {
namespace {

const std::string kModels = test::source_path("scenarios/models");

std::string load_refusal(const std::string& path) {
  return error_of([&] { static_cast<void>(load_scenario(path)); });
}

TEST_SUITE("unit") {
  TEST_CASE("extends lays a file over another key by key") {
    const ScenarioFolder folder("extends");
    folder.write("base.yaml",
                 "version: 1\nmodel: gpt2\nhardware: h100-sxm-80gb\n"
                 "training: {micro_batch: 2, sequence: 512}\npolicies: [revolve]\n");
    const std::string file = folder.write(
        "child.yaml",
        "extends: base.yaml\ntraining: {micro_batch: 8}\npolicies: [checkpoint_every]\n");
    const Scenario s = decode_scenario(load_scenario(file), environment());
    CHECK(s.name == "child");
    CHECK(s.training.model.micro_batch == 8);                               // overridden
    CHECK(s.training.model.sequence == 512);                                // kept
    CHECK(s.policy_names == std::vector<std::string>{"checkpoint_every"});  // a list is replaced
  }

  TEST_CASE("a chain of extends ends with the file that was named") {
    const ScenarioFolder folder("chain");
    folder.write("a/first.yaml", "model: gpt2\nhardware: a100-sxm-80gb\ntraining: {steps: 1}\n");
    folder.write("b/second.yaml", "extends: ../a/first.yaml\ntraining: {steps: 3}\n");
    const std::string file = folder.write("third.yaml", "extends: b/second.yaml\nname: third\n");
    const Scenario s = decode_scenario(load_scenario(file), environment());
    CHECK(s.name == "third");
    CHECK(s.training.steps == 3);
    CHECK(s.device.name == "a100-sxm-80gb");
  }

  TEST_CASE("a word is merged as the mapping that it is short for") {
    const ScenarioFolder folder("words");
    folder.write("base.yaml",
                 "model: gpt2\nhardware: h100-sxm-80gb\ntraining: {optimizer: adam}\n");
    const std::string file =
        folder.write("child.yaml",
                     "extends: base.yaml\nmodel: {layers: 2}\nhardware: {count: 8}\n"
                     "training: {optimizer: {implementation: loop}}\n");
    const Scenario s = decode_scenario(load_scenario(file), environment());
    CHECK(s.model.name == "gpt2");
    CHECK(s.model.overrides.find("layers")->scalar == "2");
    CHECK(s.device.name == "h100-sxm-80gb");
    CHECK(s.mesh.ranks() == 8);
    CHECK(s.training.optimizer.kind == find_optimizer("adam"));
    CHECK(s.training.optimizer.implementation == OptimizerImplementation::kLoop);
  }

  TEST_CASE("a model of another kind replaces the whole model") {
    const ScenarioFolder folder("kinds");
    folder.write("base.yaml", "model: {preset: gpt2, layers: 2}\nhardware: h100-sxm-80gb\n");
    const std::string file = folder.write(
        "child.yaml", "extends: base.yaml\nmodel: {hf: " + kModels + "/llama-3.2-1b.json}\n");
    const Scenario s = decode_scenario(load_scenario(file), environment());
    CHECK(s.model.kind == ModelKind::kHuggingFace);
  }

  TEST_CASE("paths are relative to the file that names them") {
    const ScenarioFolder folder("paths");
    const std::string config =
        folder.write("base/models/tiny.json", read_text_file(kModels + "/llama-3.2-1b.json"));
    folder.write("base/gpu.yaml", "extends: a100-sxm-80gb\nname: mine\n");
    folder.write("base/base.yaml",
                 "model: {hf: models/tiny.json}\nhardware: ./gpu.yaml\nreport: {dir: out}\n"
                 "sweep: {matrix: {model: [models/tiny.json, gpt2]}}\n");
    const std::string file = folder.write("child.yaml", "extends: base/base.yaml\n");
    const Value document = load_scenario(file);
    CHECK(document.find("model")->find("hf")->scalar == config);
    CHECK(document.find("report")->find("dir")->scalar == folder.path("base/out"));
    const Scenario s = decode_scenario(document, environment());
    CHECK(s.model.name == config);
    CHECK(s.device.name == "mine");
    const auto points = sweep_points(document);
    REQUIRE(points.size() == 2);
    CHECK(points[0][0].value.scalar == config);
    CHECK(points[1][0].value.scalar == "gpt2");
  }

  TEST_CASE("scenarios that extend each other in a circle are an error that names the circle") {
    const ScenarioFolder folder("circle");
    const std::string a = folder.write("a.yaml", "extends: b.yaml\n");
    const std::string b = folder.write("b.yaml", "name: b\nextends: ./a.yaml\n");
    CHECK(load_refusal(a) == b + ":2:10: extends: a scenario cannot extend itself: " + a +
                                 ":1:10 extends " + b + ":2:10 extends " + a);
    const std::string self = folder.write("self.yaml", "extends: self.yaml\n");
    CHECK(load_refusal(self) == self + ":1:10: extends: a scenario cannot extend itself: " + self +
                                    ":1:10 extends " + self);
    // The circle need not include the file that was named.
    const std::string c = folder.write("c.yaml", "extends: a.yaml\n");
    CHECK(load_refusal(c) == b + ":2:10: extends: a scenario cannot extend itself: " + a +
                                 ":1:10 extends " + b + ":2:10 extends " + a);
  }

  TEST_CASE("a chain of extends has an end") {
    const ScenarioFolder folder("endless");
    for (int i = 0; i < 40; ++i) {
      folder.write(std::to_string(i) + ".yaml", "extends: " + std::to_string(i + 1) + ".yaml\n");
    }
    CHECK(load_refusal(folder.path("0.yaml")) ==
          folder.path("31.yaml") + ":1:10: extends: more than 32 files extend one another");
  }

  TEST_CASE("extends that names no scenario file is an error where it stands") {
    const ScenarioFolder folder("missing");
    folder.write("base.yaml", "model: gpt2\n");
    const std::string file = folder.write("a.yaml", "name: a\nextends: bse.yaml\n");
    CHECK(load_refusal(file) == file + ":2:10: extends: " + folder.path("bse.yaml") +
                                    ": no such file; did you mean 'base.yaml'?");
    const std::string list = folder.write("list.yaml", "extends: [base.yaml]\n");
    CHECK(load_refusal(list) == list + ":1:10: extends: expected the path of one scenario file");
    const std::string broken = folder.write("broken.yaml", "model: [gpt2\n");
    const std::string outer = folder.write("outer.yaml", "extends: broken.yaml\n");
    CHECK(load_refusal(outer).starts_with(broken + ":"));  // where the mistake is
  }

  TEST_CASE("files that are no scenarios are errors") {
    const ScenarioFolder folder("files");
    CHECK(load_refusal(folder.path("none.yaml")) == folder.path("none.yaml") + ": no such file");
    CHECK(load_refusal(folder.path("")) == folder.path("") + ": this is a folder, not a file");
    const std::string empty = folder.write("empty.yaml", "# nothing\n");
    CHECK(load_refusal(empty) ==
          empty + ":1:1: the file is empty; `tidemark init` writes a scenario");
    const std::string list = folder.write("list.yaml", "- model: gpt2\n");
    CHECK(load_refusal(list) == list + ":1:1: expected a scenario: a mapping with a key 'model'");
    const std::string binary = folder.write("binary.yaml", std::string("model\0: gpt2", 12));
    CHECK(load_refusal(binary) == binary + ":1:6: a NUL byte; this is not a text file");
  }

  TEST_CASE("brackets by the hundred thousand are an error, not a crash") {
    const ScenarioFolder folder("brackets");
    for (const std::string& opening : {std::string("["), std::string("{a: "), std::string("- ")}) {
      std::string text = "policies: ";
      if (opening == "- ") text += "\n";
      for (int i = 0; i < 100'000; ++i)
        text += opening;
      const std::string file = folder.write("deep.yaml", text + "\n");
      CHECK(load_refusal(file).find("nested more than 64 levels deep") != std::string::npos);
    }
  }

  TEST_CASE("a model from the command line makes a scenario") {
    const Scenario preset =
        decode_scenario(scenario_of_model("gpt2", "h100-sxm-80gb"), environment());
    CHECK(preset.name == "gpt2");
    CHECK(preset.model.name == "gpt2");
    const Scenario config = decode_scenario(
        scenario_of_model(kModels + "/llama-3.2-1b.json", "h100-sxm-80gb"), environment());
    CHECK(config.name == "llama-3.2-1b");
    CHECK(config.model.kind == ModelKind::kHuggingFace);
    const ScenarioFolder folder("downloaded");
    folder.write("tiny/config.json", read_text_file(kModels + "/llama-3.2-1b.json"));
    CHECK(decode_scenario(scenario_of_model(folder.path("tiny"), "h100-sxm-80gb"), environment())
              .name == "tiny");
  }

  TEST_CASE("models and GPUs of the command line that do not exist are errors") {
    const auto of_model = [](const std::string& model, const std::string& gpu) {
      return error_of([&] {
        static_cast<void>(decode_scenario(scenario_of_model(model, gpu), environment()));
      });
    };
    CHECK(of_model("gtp2", "h100-sxm-80gb") ==
          "model: 'gtp2' is neither a file nor a preset; did you mean 'gpt2'?");
    CHECK(of_model("/nowhere/config.json", "h100-sxm-80gb") ==
          "model: /nowhere/config.json: no such file");
    CHECK(of_model("net.onnx", "h100-sxm-80gb").ends_with("net.onnx: no such file"));
    CHECK(of_model("gpt2", "h10-sxm-80gb")
              .starts_with("--gpu: hardware: unknown GPU 'h10-sxm-80gb'; did you mean "
                           "'h100-sxm-80gb'?"));
    CHECK(of_model("gpt2", "").find("hardware: required key is missing") != std::string::npos);
  }

  TEST_CASE("the models of turns lie next to the scenario, in a sweep, too") {
    const ScenarioFolder folder("turns");
    const std::string turns = "[{train: [a], model: {onnx: a.onnx}}, {train: [b]}]";
    const Value document = load_scenario(folder.write(
        "s.yaml", "model: {onnx: b.onnx}\nhardware: h100-sxm-80gb\ntraining: {turns: " + turns +
                      "}\nsweep: {matrix: {training.turns: [" + turns +
                      ", null]}, include: [{training.turns: " + turns + "}]}\n"));
    const auto first_model = [](const Value& list) {
      return list.items.front().find("model")->find("onnx")->scalar;
    };
    const Value& sweep = *document.find("sweep");
    const Value& matrix = sweep.find("matrix")->entries.front().value;
    const Value& point = sweep.find("include")->items.front();
    for (const Value* list : {document.find("training")->find("turns"), &matrix.items.front(),
                              &point.entries.front().value}) {
      CHECK(first_model(*list) == absolute_path(folder.path("a.onnx")).string());
    }
  }
}

}  // namespace
}  // namespace tidemark::load_scenario_test
