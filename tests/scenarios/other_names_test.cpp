#include "scenarios/read/other_names.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::other_names_test {

namespace {

// Returns the error of a scenario with these keys; empty if there is none.
std::string error_of(const std::string& top, const std::string& training = "micro_batch: 1",
                     const std::string& policies = "[]") {
  const std::string text =
      fmt::format("{{model: gpt2, hardware: a100-sxm-80gb, training: {{{}}}, policies: {}{}}}",
                  training, policies, top);
  try {
    static_cast<void>(decode_scenario(parse_document(text, "s.yaml"), default_environment()));
  } catch (const UserError& error) {
    return error.problem();
  }
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("keys of other tools are errors that name ours, with the value") {
    const std::vector<std::pair<std::string, std::string>> expected{
        {"batch_size: 8", "unknown key; write training.micro_batch: 8"},
        {"per_device_train_batch_size: 3", "unknown key; write training.micro_batch: 3"},
        {"gradient_accumulation_steps: 4", "unknown key; write training.accumulate: 4"},
        {"max_seq_length: 512", "unknown key; write training.sequence: 512"},
        {"gradient_checkpointing: true",
         "unknown key; write policies: [checkpoint_every: {period: 1}]"},
        {"gradient_checkpointing: false",
         "unknown key; what it switches off is off by default, so leave it out"},
        {"fp16: false", "unknown key; what it switches off is off by default, so leave it out"},
        {"optim: sgd", "unknown key; write training.optimizer: sgd"},
        {"optim: adamw_torch", "unknown key; write training.optimizer: adamw"},
        {"learning_rate: 3e-4", "unknown key; no figure depends on it, so leave it out"},
    };
    for (const auto& [key, problem] : expected) {
      CAPTURE(key);
      CHECK(error_of("", key) == problem);
      CHECK(error_of(", " + key) == problem);
    }
    CHECK(error_of(", num_gpus: 8") == "unknown key; write hardware.count: 8");
  }

  TEST_CASE("what the error says to write is accepted") {
    CHECK(error_of("", "micro_batch: 8, accumulate: 4, sequence: 512").empty());
    CHECK(error_of("", "micro_batch: 1", "[checkpoint_every: {period: 1}]").empty());
    CHECK(error_of("", "precision: fp16_autocast, attention: flash").empty());
    CHECK(error_of("", "optimizer: {name: adamw, implementation: fused}").empty());
    CHECK(error_of("", "micro_batch: 1", "[offload_optimizer: {ratio: 0.5}]").empty());
  }

  TEST_CASE("values of other tools name ours") {
    CHECK(error_of("", "precision: amp") ==
          "'amp' is another tool's name; write fp16_autocast or bf16_autocast");
    CHECK(error_of("", "mode: eval") == "'eval' is another tool's name; write forward");
    CHECK(error_of("", "attention: sdpa").find("write flash") != std::string::npos);
    CHECK(error_of("", "optimizer: adamw_bnb_8bit") ==
          "'adamw_bnb_8bit' is another tool's name; write adamw_8bit");
  }

  TEST_CASE("a list where one value belongs is a sweep, a number where parameters belong is one") {
    CHECK(error_of("", "micro_batch: [4, 8]") ==
          "expected one value, found a list; to try each, write sweep: {matrix: "
          "{training.micro_batch: [4, 8]}}");
    CHECK(error_of("", "micro_batch: 1", "[checkpoint_every: 2]") ==
          "expected a mapping, found '2'; write checkpoint_every: {period: 2}");
    CHECK(error_of("", "micro_batch: 1", "none") ==
          "expected a list of policies, found 'none'; write policies: []");
    CHECK(error_of("", "micro_batch: 1", "offload_activations") ==
          "expected a list of policies, found 'offload_activations'; write policies: "
          "[offload_activations]");
  }

  TEST_CASE("policies by another tool's name say what to list") {
    const std::vector<std::pair<std::string, std::string>> expected{
        {"gradient_checkpointing", "policies: [checkpoint_every: {period: 1}]"},
        {"zero3", "policies: [zero: {stage: 3}]"},
        {"FSDP2", "policies: [fsdp]"},
        {"qlora", "policies: [lora: {rank: 16, base: nf4}]"},
        {"sequence_parallel", "policies: [tensor_parallel: {size: 2, sequence: true}]"},
        {"mixed_precision", "training.precision: bf16_autocast or fp16_autocast"}};
    for (const auto& [name, ours] : expected) {
      CAPTURE(name);
      const std::string problem = fmt::format("'{}' is another tool's name; write {}", name, ours);
      CHECK(error_of("", "micro_batch: 1", name) == problem);
      CHECK(error_of("", "micro_batch: 1", "[" + name + "]") == problem);
      CHECK(error_of("", "micro_batch: 1", "[{" + name + ": {}}]") == problem);
    }
    // The words that are proposed are accepted.
    for (const char* list : {"[zero: {stage: 3}]", "[fsdp]", "[lora: {rank: 16, base: nf4}]"})
      CHECK(error_of("", "micro_batch: 1", list).empty());
  }

  TEST_CASE("keys of hardware that people guess name ours, and so does a list of numbers") {
    const auto of_hardware = [](const std::string& key) {
      try {
        static_cast<void>(decode_scenario(
            parse_document("{model: gpt2, hardware: {gpu: a100-sxm-80gb, " + key + "}}", "s.yaml"),
            default_environment()));
      } catch (const UserError& error) {
        return error.problem();
      }
      return std::string();
    };
    CHECK(of_hardware("gpus: 8") == "unknown key; write hardware.count: 8");
    CHECK(of_hardware("vram: 24GiB") == "unknown key; write hardware.hbm.capacity: 24GiB");
    CHECK(of_hardware("hbm: {capacity: 24GiB}").empty());
    CHECK(error_of("", "micro_batch: '4,8'") ==
          "expected one value, found a list; to try each, write sweep: {matrix: "
          "{training.micro_batch: [4, 8]}}");
    // Thousands with commas are such a list.
    CHECK(error_of("", "micro_batch: 1, sequence: '1,024'").find(", write 1024") !=
          std::string::npos);
    CHECK(error_of("", "micro_batch: 1, sequence: [4, 128]").find("commas") == std::string::npos);
    CHECK(error_of("", "micro_batch: 1, sequence: '1,024,12'").find("commas") == std::string::npos);
  }

  TEST_CASE("a budget without its unit is found out, but for cost graphs and shares") {
    CHECK(error_of("", "micro_batch: 1", "[optimal: {budget: 10}]") ==
          "10 bytes hold no step; is 10GiB meant?");
    CHECK(error_of("", "micro_batch: 1", "[optimal: {budget: 10GiB}]").empty());
    CHECK(error_of("", "micro_batch: 1", "[min_cut: {budget: 0.5}]").empty());
  }

  TEST_CASE("models of the hub and files of weights say what to give instead") {
    CHECK(advice_for_model("meta-llama/Llama-3-8B") ==
          "; nothing is downloaded: the nearest preset is llama-3-8b; or save its config.json and "
          "give "
          "the path of that");
    CHECK(advice_for_model("openai-community/gpt2-xl").find("preset is gpt2-xl;") !=
          std::string::npos);
    CHECK(advice_for_model("someone/else") ==
          "; nothing is downloaded: save its config.json and give the path of that");
    for (const std::string name : {"model.pt", "a/b/model.safetensors", "m.PTH"})
      CHECK(advice_for_model(name).find("torch.onnx.export") != std::string::npos);
    for (const std::string name : {"gpt2", "models/config.json", "./gpt2", "/a/b", "a/b.onnx"})
      CHECK(advice_for_model(name).empty());
    CHECK(advice_for_model("run.pickle").find("tidemark diff SCENARIO run.pickle") !=
          std::string::npos);
    // Files that are there get the same answer, and are not read.
    const ScenarioFolder folder("weights");
    for (const char* name : {"model.pt", "model.safetensors", "run.pickle"}) {
      const std::string path = folder.write(name, std::string("\x80\x02\0", 3));
      try {
        static_cast<void>(scenario_of_model(path, "h100"));
        CHECK_MESSAGE(false, name);
      } catch (const UserError& error) {
        CHECK(std::string(error.what()).find("is no model; ") != std::string::npos);
      }
    }
  }
}

}  // namespace tidemark::other_names_test
