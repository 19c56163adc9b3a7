// Decodes `model`: what is trained.
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/scalars.hpp"
#include "graph/models/preset.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/other_names.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace decode_model_detail {
namespace {

// Returns the mapping that `model` is or is short for.
Value model_mapping(const Decoder& scenario) {
  const Value* given = scenario.value().find("model");
  if (given == nullptr || given->is_null()) {
    scenario.fail_at("model",
                     "required key is missing; expected a preset such as gpt2, {hf: config.json}, "
                     "{onnx: file.onnx}, {graph: file.json} or {layers: file.yaml}");
  }
  if (given->is_mapping()) return *given;
  if (!given->is_scalar() || given->scalar.empty()) {
    scenario.fail_at(
        "model", fmt::format("expected a preset, a path or a mapping, found {}", found(*given)));
  }
  return long_form("model", *given);
}

// Returns the one key that names the kind of the model.
std::string_view decode_kind(const Decoder& model) {
  std::string_view kind;
  for (const std::string_view candidate : model_kinds()) {
    // Next to a preset `layers` is a number of layers.
    if (candidate == "layers" && !kind.empty()) continue;
    if (!model.has(candidate)) continue;
    if (!kind.empty()) {
      throw UserError(location_of_key(model.value(), candidate), fmt::format("model.{}", candidate),
                      fmt::format("'{}' is given already; a model is one of them", kind));
    }
    kind = candidate;
  }
  if (!kind.empty()) return kind;
  model.finish();  // a key in its place may be a misspelt one
  model.fail("expected one of the keys preset, hf, onnx, graph, layers");
}

void require_file(const Decoder& model, std::string_view key, const std::string& path) {
  if (path.empty()) model.fail_at(key, "expected a path, found an empty text");
  if (is_file(path)) return;
  try {
    static_cast<void>(read_text_file(path));  // reports what is wrong with the path
  } catch (const UserError& problem) {
    model.fail_at(key, problem.what());
  }
}

ModelReference decode_preset(const Decoder& model, const Location& location, bool is_word) {
  ModelReference reference{.kind = ModelKind::kPreset,
                           .name = model.required<std::string>("preset"),
                           .overrides = model.value(),
                           .location = location};
  const Location& where = model.value().find("preset")->location;
  const char* path = is_word ? "model" : "model.preset";
  if (const std::string advice = advice_for_weights(reference.name); !advice.empty()) {
    throw UserError(where, path,
                    fmt::format("{} is no model{}", quoted_excerpt(reference.name), advice));
  }
  const ModelPreset& preset = find_preset(reference.name, where, path);
  std::erase_if(reference.overrides.entries,
                [](const Value::Entry& entry) { return entry.key == "preset"; });
  preset.decode(Decoder(reference.overrides, "model"));
  return reference;
}

// Decodes a file of layers, or inline layers; `sizes` changes sizes that they name.
ModelReference decode_layers(const Decoder& model, const Location& location) {
  ModelReference reference{.kind = ModelKind::kLayers, .location = location};
  const Value& layers = *model.value().find("layers");
  if (!is_layers_of_model(layers)) {
    model.fail_at("layers", fmt::format("expected a file.yaml or a mapping of layers, found {}; a "
                                        "number of layers belongs to a preset: {{preset: gpt2, "
                                        "layers: 24}}",
                                        found(layers)));
  }
  if (model.has("sizes")) reference.overrides = model.optional_child("sizes").value();
  model.finish();
  if (layers.is_mapping()) {
    reference.inline_layers = layers;
    return reference;
  }
  reference.name = layers.scalar;
  require_file(model, "layers", reference.name);
  return reference;
}

ModelReference decode_onnx(const Decoder& model, const Decoder& scenario,
                           const Location& location) {
  ModelReference reference{.kind = ModelKind::kOnnx,
                           .name = model.required<std::string>("onnx"),
                           .onnx = decode_onnx_options(model),
                           .location = location};
  model.finish();
  require_file(model, "onnx", reference.name);
  const Value* training = scenario.value().find("training");
  const Value* batch = training == nullptr ? nullptr : training->find("micro_batch");
  reference.onnx.batch_is_stated = batch != nullptr && !batch->is_null();
  return reference;
}

}  // namespace
}  // namespace decode_model_detail

ModelReference decode_model(const Decoder& scenario) {
  const Value mapping = decode_model_detail::model_mapping(scenario);
  const Decoder model(mapping, "model");
  const std::string_view kind = decode_model_detail::decode_kind(model);
  const bool is_word = scenario.value().find("model")->is_scalar();
  if (kind == "preset") return decode_model_detail::decode_preset(model, mapping.location, is_word);
  if (kind == "onnx") return decode_model_detail::decode_onnx(model, scenario, mapping.location);
  if (kind == "layers") return decode_model_detail::decode_layers(model, mapping.location);
  const auto path = model.required<std::string>(kind);
  model.finish();
  decode_model_detail::require_file(model, kind, path);
  return {.kind = kind == "hf" ? ModelKind::kHuggingFace : ModelKind::kCostGraph,
          .name = path,
          .overrides = {},
          .location = mapping.location};
}

std::string model_title(const ModelReference& model) {
  if (model.kind == ModelKind::kPreset) return model.name;
  if (model.name.empty()) return "layers";
  return title_of_file(model.name);
}

}  // namespace tidemark
