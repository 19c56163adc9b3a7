// Builds the models of scenarios, and tells when two are the same.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace build_model_detail {
namespace {

Graph build_layers(const ModelReference& model, const ModelOptions& options) {
  const bool is_file = !model.name.empty();
  const Value document = is_file ? read_document(model.name) : model.inline_layers;
  return build_layer_model(Decoder(document, is_file ? "" : "model.layers"),
                           Decoder(model.overrides, "model.sizes"), model_title(model), options);
}

Graph build_forward_graph(const ModelReference& model, const ModelOptions& options) {
  if (model.kind == ModelKind::kHuggingFace) {
    const Value document = read_document(model.name);
    return import_hf_config(Decoder(document), model.name, options);
  }
  if (model.kind == ModelKind::kOnnx) return import_onnx(model.name, model.onnx, options);
  if (model.kind == ModelKind::kLayers) return build_layers(model, options);
  const ModelPreset& preset = find_preset(model.name, model.location, "model");
  return preset.build(Decoder(model.overrides, "model"), options);
}

Value without_capacity(Value hardware) {
  Value* hbm = hardware.find("hbm");
  if (hbm == nullptr) return hardware;
  std::erase_if(hbm->entries, [](const Value::Entry& entry) { return entry.key == "capacity"; });
  if (hbm->entries.empty())
    std::erase_if(hardware.entries, [](const Value::Entry& entry) { return entry.key == "hbm"; });
  return hardware;
}

}  // namespace
}  // namespace build_model_detail

ModelSource model_source(const ModelReference& model) {
  if (model.kind == ModelKind::kCostGraph) {
    return {.step = [path = model.name] { return training_graph(read_cost_graph(path)); }};
  }
  return {.forward = [model](const ModelOptions& options) {
    return build_model_detail::build_forward_graph(model, options);
  }};
}

bool may_detach(const Scenario& scenario) {
  return std::any_of(scenario.policies.begin(), scenario.policies.end(), rewrites_model);
}

std::string training_key(const Value& document, const Scenario& scenario) {
  std::string key;
  for (const char* part : {"model", "training"}) {
    const Value* value = document.find(part);
    if (value != nullptr) key += as_json(*value);
    key += '\n';
  }
  // The default of the precision depends on the device.
  key += std::string(rules_of(scenario.training.precision).name) + '\n';
  key += scenario.mesh.text() + '\n';
  // Policies that change no model may say whose loss it has.
  key += std::to_string(static_cast<int>(training_system(scenario))) + '\n';
  for (const Turn& turn : scenario.turns)
    key += turn.step->training_key;
  bool rewrites = false;
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    if (rewrites_model(scenario.policies[i])) {
      key += as_json(document.find("policies")->items[i]) + '\n';
      rewrites = true;
    }
  }
  for (std::size_t i = 0; i < scenario.policies.size() && scenario.may_detach; ++i) {
    const auto* policy = std::get_if<std::unique_ptr<ResidencyPolicy>>(&scenario.policies[i]);
    if (policy == nullptr || (*policy)->reentrant_segments(kMaxLayers).empty()) continue;
    key += as_json(document.find("policies")->items[i]) + '\n';
  }
  // A rewrite may look at the device.
  if (const Value* hardware = document.find("hardware"); rewrites && hardware != nullptr) {
    const bool by_capacity = std::any_of(
        scenario.policies.begin(), scenario.policies.end(), [](const AnyPolicy& policy) {
          return rewrites_model(policy) && policy_of(policy).looks_at_capacity();
        });
    key += as_json(by_capacity ? *hardware : build_model_detail::without_capacity(*hardware));
  }
  return key;
}

std::string run_key(const Value& document, const Scenario& scenario) {
  // The first two are in training_key, the rest changes no run.
  static constexpr std::array<std::string_view, 7> kOthers{"model", "training",  "name", "report",
                                                           "goal",  "published", "sweep"};
  std::string key = scenario.training_key;
  for (const Value::Entry& entry : document.entries) {
    if (std::find(kOthers.begin(), kOthers.end(), entry.key) != kOthers.end()) continue;
    const Value value =
        entry.key == "hardware" ? build_model_detail::without_capacity(entry.value) : entry.value;
    key += fmt::format("{} {}\n", entry.key, as_json(value));
  }
  return key;
}

}  // namespace tidemark
