#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "plots/report/html_report.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::decode_scenario_test {
namespace {

// Returns the policies as an error lists them.
std::string available_policies() {
  std::string names;
  for (const std::string& name : PolicyRegistry().names())
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

const std::string kConfig = test::source_path("scenarios/models/llama-3.2-1b.json");

std::string parse_refusal(const std::string& text) {
  return error_of([&] { static_cast<void>(parse_document(text, "s.yaml")); });
}

TEST_SUITE("unit") {
  TEST_CASE("a scenario of a model and a GPU takes every default") {
    const Scenario s = decode("model: gpt2\nhardware: h100-sxm-80gb\n");
    CHECK(s.name == "s");  // from the file's name
    CHECK(s.model.kind == ModelKind::kPreset);
    CHECK(s.model.name == "gpt2");
    CHECK(s.device.name == "h100-sxm-80gb");
    CHECK(s.mesh.ranks() == 1);
    CHECK(s.training.model.micro_batch == 1);
    CHECK_FALSE(s.training.model.sequence.has_value());
    CHECK_FALSE(s.training.model.image.has_value());
    CHECK_FALSE(s.training.model.dropout.has_value());
    CHECK(s.training.model.dtype == DType::kBFloat16);
    CHECK(s.training.model.attention == AttentionKind::kFlash);
    CHECK(s.training.model.loss == LossKind::kCrossEntropy);
    CHECK(s.training.accumulate == 1);
    CHECK(s.training.steps == 2);
    CHECK(s.training.precision == Precision::kBf16Mixed);
    CHECK(s.training.optimizer.kind == find_optimizer("adamw"));
    CHECK(s.training.framework->name == "torch-2.4-cuda");
    CHECK_FALSE(s.training.gradient_dtype.has_value());
    CHECK(s.training.zero_grad == ZeroGrad::kNone);
    CHECK(s.training.hold_output == HoldOutput::kNothing);
    CHECK(s.training.autocast_cache);
    CHECK(s.allocator->traits().name == "torch");
    CHECK(s.policies.empty());
    CHECK(s.report.directory.empty());
    CHECK(s.report.formats == std::vector<std::string>{"csv", "json"});
  }

  TEST_CASE("every key of a scenario is read") {
    const Scenario s = decode(R"(
version: 1
name: everything
model: {preset: gpt2, layers: 2}
hardware: {gpu: a100-sxm-80gb, count: 8, hbm: {capacity: 40GiB}}
training:
  micro_batch: 4
  accumulate: 3
  sequence: 128
  precision: bf16_autocast
  optimizer: {name: adam, implementation: fused}
  attention: math
  steps: 3
  framework: ideal
  loss: none
  dropout: 0.1
  zero_grad: zero
  gradient_dtype: fp32
  hold_output: true
  autocast_cache: false
allocator: {kind: ideal}
policies:
  - checkpoint_every: {period: 2}
  - revolve
  - eviction:
report: {dir: out, formats: [json]}
)");
    CHECK(s.name == "everything");
    CHECK(s.model.overrides.find("layers")->scalar == "2");
    CHECK(s.model.overrides.find("preset") == nullptr);
    CHECK(s.device.hbm.capacity == 40 * kGiB);
    CHECK(s.mesh.ranks() == 8);
    CHECK(s.training.model.micro_batch == 4);
    CHECK(s.training.accumulate == 3);
    CHECK(s.training.model.sequence == 128);
    CHECK(s.training.precision == Precision::kBf16Autocast);
    CHECK(s.training.model.dtype == DType::kFloat32);
    CHECK(s.training.optimizer.kind == find_optimizer("adam"));
    CHECK(s.training.optimizer.implementation == OptimizerImplementation::kFused);
    CHECK(s.training.model.attention == AttentionKind::kMath);
    CHECK(s.training.steps == 3);
    CHECK(s.training.framework->name == "ideal");
    CHECK(s.training.model.loss == LossKind::kNone);
    CHECK(s.training.model.dropout == 0.1);
    CHECK(s.training.zero_grad == ZeroGrad::kZero);
    CHECK(s.training.gradient_dtype == DType::kFloat32);
    CHECK(s.training.hold_output == HoldOutput::kLogits);
    CHECK_FALSE(s.training.autocast_cache);
    CHECK(s.allocator->traits().name == "ideal");
    CHECK(s.policy_names == std::vector<std::string>{"checkpoint_every", "revolve", "eviction"});
    CHECK(s.policies.size() == 3);
    CHECK(s.report.directory == "out");
    CHECK(s.report.formats == std::vector<std::string>{"json"});
  }

  TEST_CASE("PyTorch 1.13 has no fused attention and fills gradients with zeros") {
    const Scenario s = decode(scenario_text("training: {framework: torch-1.13-cpu}\n"));
    CHECK(s.training.model.attention == AttentionKind::kMath);
    CHECK(s.training.zero_grad == ZeroGrad::kZero);
    CHECK(refusal_with("training: {framework: torch-1.13-cpu, attention: flash}\n") ==
          "s.yaml:3:50: training.attention: torch-1.13-cpu has no fused attention; write math");
  }

  TEST_CASE("a model is a preset, a Hugging Face config or a cost graph") {
    const Scenario hf = decode("model: {hf: " + kConfig + "}\nhardware: h100-sxm-80gb\n");
    CHECK(hf.model.kind == ModelKind::kHuggingFace);
    CHECK(hf.model.name == kConfig);
    const Scenario word = decode("model: " + kConfig + "\nhardware: h100-sxm-80gb\n");
    CHECK(word.model.kind == ModelKind::kHuggingFace);
    const std::string graph = test::data_path("rematerialization/chain_n4.json");
    CHECK(decode("model: " + graph + "\nhardware: h100-sxm-80gb\n").model.kind ==
          ModelKind::kCostGraph);
    CHECK(decode("model: {graph: " + graph + "}\nhardware: h100-sxm-80gb\n").model.kind ==
          ModelKind::kCostGraph);
  }

  TEST_CASE("a model that does not say what it is, or says it twice, is an error") {
    const std::string gpu = "hardware: h100-sxm-80gb\n";
    CHECK(refusal(gpu) ==
          "s.yaml:1:1: model: required key is missing; expected a preset such as gpt2, {hf: "
          "config.json}, {onnx: file.onnx}, {graph: file.json} or {layers: file.yaml}");
    CHECK(refusal(gpu + "model: gpt22\n") ==
          "s.yaml:2:8: model: no model is called 'gpt22'; did you mean 'gpt2'?");
    CHECK(refusal(gpu + "model: {preset: gpt22}\n") ==
          "s.yaml:2:17: model.preset: no model is called 'gpt22'; did you mean 'gpt2'?");
    CHECK(refusal(gpu + "model: weights.pt\n")
              .find("s.yaml:2:8: model: 'weights.pt' is no model; weights do not say") == 0);
    CHECK(refusal(gpu + "model: [gpt2]\n") ==
          "s.yaml:2:8: model: expected a preset, a path or a mapping, found a list");
    CHECK(refusal(gpu + "model: ''\n") ==
          "s.yaml:2:8: model: expected a preset, a path or a mapping, found ''");
    CHECK(refusal(gpu + "model: {prest: gpt2}\n") ==
          "s.yaml:2:9: model.prest: unknown key; did you mean 'preset'?");
    CHECK(refusal(gpu + "model: {}\n") ==
          "s.yaml:2:8: model: expected one of the keys preset, hf, onnx, graph, layers");
    CHECK(refusal(gpu + "model: {preset: gpt2, hf: a.json}\n") ==
          "s.yaml:2:23: model.hf: 'preset' is given already; a model is one of them");
    CHECK(refusal(gpu + "model: {preset: gpt2, layer: 3}\n") ==
          "s.yaml:2:23: model.layer: unknown key; did you mean 'layers'?");
    CHECK(refusal(gpu + "model: {onnx: a.onnx, batch_axis: 0}\n") ==
          "s.yaml:2:15: model.onnx: a.onnx: no such file");
    CHECK(refusal(gpu + "model: ./a.onnx\n") == "s.yaml:2:8: model.onnx: ./a.onnx: no such file");
    CHECK(refusal(gpu + "model: {hf: " + kConfig + ", layers: 3}\n")
              .find("model.layers: unknown key; known keys: preset, hf, graph, onnx") !=
          std::string::npos);
  }

  TEST_CASE("a model's file that is missing or something else is reported at its name") {
    const std::string gpu = "hardware: h100-sxm-80gb\n";
    CHECK(refusal(gpu + "model: {hf: /nowhere/config.json}\n") ==
          "s.yaml:2:13: model.hf: /nowhere/config.json: no such file");
    CHECK(refusal(gpu + "model: /nowhere/config.json\n") ==
          "s.yaml:2:8: model: /nowhere/config.json: no such file");
    CHECK(refusal(gpu + "model: {graph: /}\n") ==
          "s.yaml:2:16: model.graph: /: this is a folder, not a file");
    CHECK(refusal(gpu + "model: {hf: ''}\n") ==
          "s.yaml:2:13: model.hf: expected a path, found an empty text");
    const ScenarioFolder folder("kind");
    const std::string other = folder.write("other.json", "{\"a\": 1}");
    CHECK(refusal(gpu + "model: " + other + "\n")
              .find("other.json is neither a Hugging Face config (it has no model_type) nor a cost "
                    "graph "
                    "(it has no fixed_bytes and nodes)") != std::string::npos);
  }

  TEST_CASE("a GPU is named, and any figure of its profile can be overridden") {
    const std::string model = "model: gpt2\n";
    const std::string missing = refusal(model);
    CHECK(missing.starts_with("s.yaml:1:1: hardware: required key is missing; expected a GPU: "));
    CHECK(missing.find("h100-sxm-80gb") != std::string::npos);
    CHECK(refusal(model + "hardware: h100-sxm-80g\n")
              .starts_with("s.yaml:2:11: hardware: unknown GPU 'h100-sxm-80g'; did you mean "
                           "'h100-sxm-80gb'?"));
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80g}\n")
              .starts_with("s.yaml:2:17: hardware.gpu: unknown GPU 'h100-sxm-80g'"));
    CHECK(refusal(model + "hardware: [h100-sxm-80gb]\n") ==
          "s.yaml:2:11: hardware: expected a GPU or a mapping, found a list");
    CHECK(refusal(model + "hardware: {count: 8}\n") ==
          "s.yaml:2:11: hardware.gpu: required key is missing; expected a text");
    CHECK(refusal(model + "hardware: {gpu: l40s, peer_to_peer: true}\n") ==
          "s.yaml:2:23: hardware.peer_to_peer: unknown key; write hardware.links.peer_to_peer: "
          "true");
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80gb, count: 0}\n") ==
          "s.yaml:2:39: hardware.count: expected an integer from 1 to 1048576, found 0");
    CHECK(refusal(fmt::format("model: {{graph: {}}}\nhardware: {{gpu: h100-sxm-80gb, count: 2}}\n",
                              test::source_path("scenarios/models/unet_d2_n10.json"))) ==
          "s.yaml:2:39: hardware.count: a cost graph does not say which gradients several GPUs "
          "would reduce; leave count out");
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80gb, hbm: {capacity: 80G}}\n")
              .starts_with("s.yaml:2:48: hardware.hbm.capacity: "));
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80gb, hbm: {capacity: 80ms}}\n")
              .starts_with("s.yaml:2:48: hardware.hbm.capacity: "));
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80gb, hbm: {capacty: 80GiB}}\n") ==
          "s.yaml:2:38: hardware.hbm.capacty: unknown key; did you mean 'capacity'?");
    CHECK(refusal(model + "hardware: {gpu: h100-sxm-80gb, cuont: 8}\n") ==
          "s.yaml:2:32: hardware.cuont: unknown key; did you mean 'count'?");
    CHECK(refusal(model + "hardware: {gpu: /nowhere/x.yaml}\n") ==
          "s.yaml:2:17: hardware.gpu: /nowhere/x.yaml: no such file");
  }

  TEST_CASE("unknown keys are errors that name the nearest known one") {
    CHECK(refusal_with("trainin: {}\n") ==
          "s.yaml:3:1: trainin: unknown key; did you mean 'training'?");
    CHECK(refusal("modell: gpt2\n") == "s.yaml:1:1: modell: unknown key; did you mean 'model'?");
    CHECK(refusal_with("training: {micro_bacth: 4}\n") ==
          "s.yaml:3:12: training.micro_bacth: unknown key; did you mean 'micro_batch'?");
    CHECK(refusal_with("report: {directory: a}\n") ==
          "s.yaml:3:10: report.directory: unknown key; known keys: dir, formats");
    CHECK(refusal_with("training: {micro_batch: 4, micro_batch: 5}\n").empty() == false);
  }

  TEST_CASE("a key that stands twice is an error") {
    CHECK(parse_refusal("training: {micro_batch: 4, micro_batch: 5}\n") ==
          "s.yaml:1:28: training.micro_batch: duplicate key; first given on line 1");
  }

  TEST_CASE("only version 1 is read") {
    CHECK(decode(scenario_text("version: 1\n")).name == "s");
    CHECK(refusal_with("version: 2\n") ==
          "s.yaml:3:10: version: expected 1, the version of the format that this Tidemark reads, "
          "found 2");
    CHECK(refusal_with("version: '1'\n") ==
          "s.yaml:3:10: version: expected an integer, found '1' in quotes; leave the quotes out");
  }

  TEST_CASE("numbers out of range are errors that say the range") {
    CHECK(refusal_with("training: {steps: 17}\n") ==
          "s.yaml:3:19: training.steps: expected an integer from 1 to 16, found 17");
    CHECK(refusal_with("training: {steps: 0}\n") ==
          "s.yaml:3:19: training.steps: expected an integer from 1 to 16, found 0");
    CHECK(refusal_with("training: {micro_batch: -1}\n") ==
          "s.yaml:3:25: training.micro_batch: expected an integer from 1 to 16777216, found -1");
    CHECK(refusal_with("training: {micro_batch: 99999999999999999999}\n") ==
          "s.yaml:3:25: training.micro_batch: 99999999999999999999 is too large; integers here go "
          "from -9223372036854775808 to 9223372036854775807");
    CHECK(refusal_with("training: {micro_batch: 1.5}\n") ==
          "s.yaml:3:25: training.micro_batch: expected an integer from 1 to 16777216, found '1.5'");
    CHECK(refusal_with("training: {micro_batch: many}\n") ==
          "s.yaml:3:25: training.micro_batch: expected an integer from 1 to 16777216, found "
          "'many'");
    CHECK(refusal_with("training: {sequence: 0}\n") ==
          "s.yaml:3:22: training.sequence: expected an integer from 1 to 134217728, found 0");
    CHECK(refusal_with("training: {accumulate: 4097}\n") ==
          "s.yaml:3:24: training.accumulate: expected an integer from 1 to 4096, found 4097");
    CHECK(refusal_with("training: {accumulate: 4096, steps: 3}\n") ==
          "s.yaml:3:24: training.accumulate: 4096 micro-batches in each of 3 steps are 12288; at "
          "most 8192 are simulated in all");
    CHECK(refusal_with("training: {dropout: 1.5}\n") ==
          "s.yaml:3:21: training.dropout: expected a number from 0 to 1, found 1.5");
    CHECK(
        refusal_with("training: {dropout: .nan}\n").starts_with("s.yaml:3:21: training.dropout: "));
  }

  TEST_CASE("words that are not known are errors that list them") {
    CHECK(
        refusal_with("training: {attention: flsh}\n") ==
        "s.yaml:3:23: training.attention: expected one of math, flash, found 'flsh'; did you mean "
        "'flash'?");
    CHECK(refusal_with("training: {framework: torch-2.5-cuda}\n") ==
          "s.yaml:3:23: training.framework: expected one of torch-2.4-cuda, torch-2.1-cuda, "
          "torch-1.13-cuda, torch-1.9-cuda, torch-1.13-cpu, ideal, found 'torch-2.5-cuda'; did you "
          "mean 'torch-2.4-cuda'?");
    CHECK(refusal_with("training: {loss: l2}\n") ==
          "s.yaml:3:18: training.loss: expected one of cross_entropy, mse, none, "
          "smoothed_cross_entropy, "
          "soft_cross_entropy, nll, l1, smooth_l1, huber, bce, bce_with_logits, kl_div, "
          "cosine_embedding, triplet, ctc, megatron_cross_entropy, found "
          "'l2'; did you mean 'l1'?");
    CHECK(
        refusal_with("training: {zero_grad: zeros}\n") ==
        "s.yaml:3:23: training.zero_grad: expected one of none, zero, found 'zeros'; did you mean "
        "'zero'?");
    CHECK(refusal_with("training: {precision: bf61}\n")
              .starts_with("s.yaml:3:23: training.precision: expected one of fp32, "));
    CHECK(refusal_with("training: {optimizer: adamm}\n")
              .starts_with("s.yaml:3:23: training.optimizer: "));
    CHECK(refusal_with("training: {hold_output: yes}\n") ==
          "s.yaml:3:25: training.hold_output: expected one of false, true, fp32, found 'yes'; "
          "write true");
    CHECK(refusal_with("training: {hold_output: Off}\n") ==
          "s.yaml:3:25: training.hold_output: expected one of false, true, fp32, found 'Off'; "
          "write false");
    CHECK(refusal_with("training: 4\n") == "s.yaml:3:11: training: expected a mapping, found '4'");
  }

  TEST_CASE("gradients are kept as they are or wider") {
    CHECK(
        refusal_with("training: {gradient_dtype: fp16}\n") ==
        "s.yaml:3:28: training.gradient_dtype: gradients of bf16_mixed are bf16; they can only be "
        "kept wider, as fp32");
  }

  TEST_CASE("options that would be ignored are errors") {
    CHECK(refusal_with("training: {image: 224}\n") ==
          "s.yaml:3:12: training.image: gpt2 reads no images");
    const std::string resnet = "model: resnet50\nhardware: h100-sxm-80gb\n";
    CHECK(refusal(resnet + "training: {sequence: 128}\n") ==
          "s.yaml:3:12: training.sequence: resnet50 reads no sequences");
    CHECK(refusal(resnet + "training: {attention: math}\n") ==
          "s.yaml:3:12: training.attention: resnet50 has no attention");
    CHECK(decode(resnet + "training: {image: 64}\n").training.model.image == 64);
    const std::string graph = "model: " + test::data_path("rematerialization/chain_n4.json") +
                              "\nhardware: h100-sxm-80gb\n";
    CHECK(refusal(graph + "training: {steps: 1, micro_batch: 4}\n") ==
          "s.yaml:3:22: training.micro_batch: a cost graph says itself what a step computes; of "
          "'training' only 'steps' applies");
    CHECK(decode(graph + "training: {steps: 1}\n").training.steps == 1);
  }

  TEST_CASE("what only files take is an error that says so") {
    CHECK(refusal_with("extends: base.yaml\n") ==
          "s.yaml:3:1: extends: 'extends' works in a scenario file only");
  }

  TEST_CASE("an HTML report takes a tidemark that was built with npm") {
    const std::string listed = scenario_text("report: {formats: [csv, html]}\n");
    CHECK(refusal(listed) == "accepted");
    Environment without = default_environment();
    without.missing_formats["html"] = "built without npm";
    const std::string said = error_of(
        [&] { static_cast<void>(decode_scenario(parse_document(listed, "s.yaml"), without)); });
    CHECK(said == "s.yaml:3:25: report.formats[1]: built without npm");
  }

  TEST_CASE("allocators and formats that do not exist are errors") {
    CHECK(
        refusal_with("allocator: caching\n") ==
        "s.yaml:3:12: allocator.kind: expected one of torch, bfc, packed, ideal, found 'caching'");
    CHECK(refusal_with("allocator: {kind: torch, max_split: 128MiB}\n")
              .starts_with("s.yaml:3:26: allocator.max_split: unknown key"));
    CHECK(refusal_with("report: {formats: [csvs]}\n") ==
          "s.yaml:3:20: report.formats[0]: there is no format 'csvs'; did you mean 'csv'?");
    CHECK(refusal_with("report: {formats: [pdf]}\n")
              .ends_with("there is no format 'pdf'; svg writes each picture as PDF, too"));
    CHECK(refusal_with("report: {formats: [movie]}\n")
              .ends_with(
                  "formats: csv, json, html, chrome_trace, torch_snapshot, svg, perfetto, sqlite"));
    // A bare name of a GPU has no count: the place is that of the name.
    CHECK(refusal_with("policies: [tensor_parallel: {size: 7}]\n")
              .find("hardware.count: 1 GPU cannot be divided into tensor 7") != std::string::npos);
    CHECK(refusal_with("policies: [tensor_parallel: {size: 7}]\n").starts_with("s.yaml:2:"));
    CHECK(refusal_with("report: {formats: csv}\n") ==
          "s.yaml:3:19: report.formats: expected a list, found 'csv'; write [csv]");
  }

  TEST_CASE("policies are names or mappings of one name") {
    CHECK(refusal_with("policies: [checkpoint_evry]\n") ==
          "s.yaml:3:12: policies[0]: there is no policy 'checkpoint_evry'; did you mean "
          "'checkpoint_every'?");
    CHECK(refusal_with("policies: [magic]\n") ==
          "s.yaml:3:12: policies[0]: there is no policy 'magic'; available: " +
              available_policies());
    CHECK(refusal_with("policies: revolve\n") ==
          "s.yaml:3:11: policies: expected a list of policies, found 'revolve'; write "
          "policies: [revolve]");
    CHECK(refusal_with("policies: [[revolve]]\n") ==
          "s.yaml:3:12: policies[0]: expected the name of a policy or {name: {...}}, found a list");
    CHECK(refusal_with("policies:\n  - checkpoint_every:\n    period: 2\n") ==
          "s.yaml:4:5: policies[0]: expected one policy, found a mapping of 2 keys; begin each "
          "policy with '- ' and indent its parameters");
    CHECK(refusal_with("policies:\n  - checkpoint_every: {priod: 2}\n") ==
          "s.yaml:4:24: policies.checkpoint_every.priod: unknown key; did you mean 'period'?");
    CHECK(refusal_with("policies: [checkpoint_every: {period: 0}]\n") ==
          "s.yaml:3:39: policies.checkpoint_every.period: expected an integer of at least 1, found "
          "0");
    CHECK(refusal_with("policies: [checkpoint_every: 2]\n") ==
          "s.yaml:3:30: policies.checkpoint_every: expected a mapping, found '2'; write "
          "checkpoint_every: {period: 2}");
    CHECK(refusal_with("policies:\n  - revolve\n  - revolve: {checkpoints: 2}\n") ==
          "s.yaml:5:5: policies.revolve: 'revolve' decides the order of the operators already, and "
          "only one policy can");
    CHECK(refusal_with("policies: [data_parallel, {data_parallel: {bucket: 1MiB}}]\n") ==
          "s.yaml:3:28: policies.data_parallel: 'data_parallel' reduces the gradients already, and "
          "only one policy can");
  }
}

}  // namespace
}  // namespace tidemark::decode_scenario_test
