// Models and settings that are read, lowered, verified and run: a mistake in a file is found while
// it is read, and what is read runs to its end.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/import/cost_graph.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tidemark::fuzz {
namespace step_targets_detail {
namespace {

// Larger models are built and not run: the time of a step grows with them, which is no fault.
constexpr std::size_t kMostNodes = 400;

void run_step(const Value& document) {
  const SimulateOptions options{.convergence_limit = 4};
  static_cast<void>(simulate_in_detail(document, 0, environment(), options));
}

// Builds the model that a scenario names and runs it, if it is small.
void run_model(const std::string& scenario) {
  const Value document = parse_document(scenario, "fuzz.yaml");
  const Scenario read = decode_scenario(document, environment());
  const std::size_t nodes = read.source.forward
                                ? read.source.forward(read.training.model).nodes.size()
                                : read.source.step().operators.size();
  if (nodes <= kMostNodes) run_step(document);
}

void run_layers(const std::string& bytes) {
  run_model("model: {layers: \"" + file_with(bytes, "layers.yaml") +
            "\"}\nhardware: a100-sxm-40gb\ntraining: {micro_batch: 2}\n");
}
void run_hf_config(const std::string& bytes) {
  run_model("model: {hf: \"" + file_with(bytes, "config.json") +
            "\"}\nhardware: a100-sxm-40gb\ntraining: {micro_batch: 2}\n");
}
void run_onnx(const std::string& bytes) {
  run_model("model: {onnx: \"" + file_with(bytes, "model.onnx") + "\"}\nhardware: a100-sxm-40gb\n");
}
void run_cost_graph(const std::string& bytes) {
  run_model("model: {graph: \"" + file_with(bytes, "graph.json") +
            "\"}\nhardware: a100-sxm-40gb\nallocator: ideal\ntraining: {steps: 1}\n");
}

void set(Value& document, const std::string& key, const Value& value) {
  if (Value* known = document.find(key)) {
    *known = value;
  } else {
    document.entries.push_back({.key = key, .location = {}, .value = value});
  }
}

// Runs the scenario with a small model in place of its own: that of the list whose number the text
// gives as `model`. Steps that are long because they count to a large number are left out.
void run_settings(const std::string& bytes) {
  static const Value models = parse_document(
      "- {preset: gpt, layers: 3, width: 32, heads: 4, vocab: 64, sequence: 16}\n"
      "- {preset: llama-3-8b, layers: 4, width: 32, heads: 4, kv_heads: 2, ffn: 48, vocab: 64}\n"
      "- {preset: mlp, widths: [32, 64, 64, 8]}\n",
      "models.yaml");
  Value document = parse_document(bytes, "fuzz.yaml");
  if (!document.is_mapping()) throw UserError("no mapping");
  std::size_t model = 0;
  if (const Value* given = document.find("model"); given != nullptr && given->is_scalar()) {
    if (given->scalar == "1" || given->scalar == "2") model = given->scalar == "1" ? 1 : 2;
  }
  set(document, "model", models.items[model]);
  if (document.find("hardware") == nullptr)
    set(document, "hardware", parse_document("v100-sxm-16gb", "device.yaml"));
  const Value point = point_document(document, sweep_points(document).front());
  const Scenario read = decode_scenario(point, environment());
  const TrainingOptions& training = read.training;
  if (training.accumulate > 8 || training.steps > 3 || training.model.generation) return;
  run_step(point);
}

}  // namespace
}  // namespace step_targets_detail

std::vector<FuzzTarget> step_targets() {
  using namespace step_targets_detail;
  return {
      {.name = "layers",
       .seeds = {"scenarios/models/*_layers.yaml"},
       .texts = {"inputs: {x: [batch, 3, 8, 8]}\nlayers: [{conv: {channels: 4, kernel: 3}}, "
                 "batch_norm, relu, flatten, {linear: 10}]\n",
                 "sizes: {w: 8}\ninputs: {tokens: {shape: [batch, 4], type: int64}}\nlayers:\n"
                 "- {embedding: {rows: 16, width: w}}\n- {repeat: {times: 2, layers: [{residual: "
                 "[layer_norm, {attention: {heads: 2}}]}]}}\n- {linear: 16}\n"},
       .read = run_layers},
      {.name = "hf_config",
       .seeds = {"scenarios/models/*.json", "tests/data/models/hf/*.json"},
       .texts =
           {"{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 32, \"n_head\": 2, "
            "\"vocab_size\": 64, \"n_positions\": 16}",
            "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 32, "
            "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 48, "
            "\"vocab_size\": 64}",
            "{\"model_type\": \"vit\", \"num_hidden_layers\": 1, \"hidden_size\": 32, "
            "\"num_attention_heads\": 2, \"intermediate_size\": 64, \"image_size\": 32}"},
       .read = run_hf_config},
      {.name = "onnx", .seeds = {"scenarios/models/*.onnx"}, .read = run_onnx},
      {.name = "cost_graph",
       .seeds = {"scenarios/models/unet_d2_n10.json"},
       .texts =
           {"{\"name\": \"g\", \"fixed_bytes\": 8, \"nodes\": [{\"id\": 0, \"name\": \"a\", "
            "\"kind\": \"forward\", \"cost\": 2, \"bytes\": 4, \"workspace\": 1, \"deps\": []}, "
            "{\"id\": 1, \"name\": \"b\", \"kind\": \"backward\", \"cost\": 3, \"bytes\": 2, "
            "\"workspace\": 0, \"deps\": [0]}]}"},
       .read = run_cost_graph},
      {.name = "step",
       .seeds = {"scenarios/basics/*.yaml", "scenarios/parallel/*.yaml",
                 "scenarios/adapters/*.yaml", "scenarios/offload/*.yaml", "scenarios/data/*.yaml"},
       .texts = {"model: 1\ntraining: {micro_batch: 2, accumulate: 2, precision: fp16_mixed, "
                 "optimizer: sgd}\npolicies: [checkpoint_every: {period: 2}, offload_optimizer]\n"
                 "allocator: {kind: torch, expandable_segments: true}\n",
                 "model: 2\nhardware: {gpu: a100-sxm-40gb, count: 4}\npolicies: [zero: {stage: 2}, "
                 "optimal: {budget: 70%}]\nallocator: bfc\n"},
       .read = run_settings},
  };
}

}  // namespace tidemark::fuzz
