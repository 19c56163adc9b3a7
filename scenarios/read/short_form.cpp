#include "scenarios/read/short_form.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/models/preset.hpp"
#include "scenarios/read/other_names.hpp"

namespace tidemark {
namespace short_form_detail {
namespace {

constexpr std::array<std::string_view, 5> kModelKinds{"preset", "hf", "graph", "onnx", "layers"};

struct ShortForm {
  std::string_view path;
  std::string_view key;  // key that the word stands for
};
constexpr std::array<ShortForm, 4> kShortForms{{{"model", "preset"},
                                                {"hardware", "gpu"},
                                                {"allocator", "kind"},
                                                {"training.optimizer", "name"}}};

// Returns the kind of a model from its file.
std::string_view kind_of_file(const Value& word) {
  const std::string& path = word.scalar;
  if (is_onnx_file(path)) return "onnx";
  // Files of weights and snapshots are not read: they may be large, and hold no text.
  if (const std::string advice = advice_for_weights(path); !advice.empty() && path_exists(path))
    throw UserError(word.location, "model", fmt::format("{} is no model{}", excerpt(path), advice));
  Value document;
  try {
    document = read_document(path);
  } catch (const UserError& error) {
    if (error.location().line > 0) throw;
    throw UserError(word.location, "model", error.what());
  }
  if (const std::string_view kind = kind_of_model_document(document); !kind.empty()) return kind;
  throw UserError(word.location, "model",
                  excerpt(path) +
                      " is neither a Hugging Face config (it has no model_type) nor a "
                      "cost graph (it has no fixed_bytes and nodes) nor a model by layers (it has "
                      "no inputs and layers)");
}

}  // namespace
}  // namespace short_form_detail

std::span<const std::string_view> model_kinds() {
  return short_form_detail::kModelKinds;
}

std::string_view model_kind_of(const Value& model) {
  for (const std::string_view kind : short_form_detail::kModelKinds) {
    const Value* value = model.find(kind);
    if (value != nullptr && (kind != "layers" || is_layers_of_model(*value))) return kind;
  }
  return {};
}

std::string_view kind_of_model_document(const Value& document) {
  if (is_cost_graph(document)) return "graph";
  if (is_hf_config(document)) return "hf";
  if (is_layer_model(document)) return "layers";
  return {};
}

bool is_layers_of_model(const Value& layers) {
  return layers.is_mapping() || (layers.is_scalar() && is_layers_path(layers.scalar));
}

bool is_layers_path(std::string_view text) {
  return is_yaml_name(text) || is_open_file_of_process(text);
}

bool is_onnx_file(const std::string& path) {
  constexpr int kIrVersion = 0x08;  // tag of a model's first field; no text begins with it
  if (path.ends_with(".onnx")) return true;
  if (!is_file(path)) return false;  // a named pipe gives its bytes only once
  keep_piped(path);
  return std::ifstream(path, std::ios::binary).get() == kIrVersion;
}

bool has_long_form(std::string_view path) {
  return std::any_of(short_form_detail::kShortForms.begin(), short_form_detail::kShortForms.end(),
                     [&](const short_form_detail::ShortForm& form) { return form.path == path; });
}

Value long_form(std::string_view path, const Value& word) {
  const auto* form =
      std::find_if(short_form_detail::kShortForms.begin(), short_form_detail::kShortForms.end(),
                   [&](const short_form_detail::ShortForm& known) { return known.path == path; });
  std::string_view key = form->key;
  if (path == "model" && is_model_path(word.scalar)) key = short_form_detail::kind_of_file(word);
  Value mapping = mapping_value(word.location);
  set_entry(mapping, std::string(key), word.location, word);
  return mapping;
}

bool is_model_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json") ||
         text.ends_with(".onnx") || is_layers_path(text);
}

Value text_value(std::string text, const Location& location) {
  Value value;
  value.kind = Value::Kind::kScalar;
  value.scalar = std::move(text);
  value.location = location;
  return value;
}

Value mapping_value(const Location& location) {
  Value value;
  value.kind = Value::Kind::kMapping;
  value.location = location;
  return value;
}

void set_entry(Value& mapping, const std::string& key, const Location& key_location, Value value) {
  for (Value::Entry& entry : mapping.entries) {
    if (entry.key != key) continue;
    entry.location = key_location;
    entry.value = std::move(value);
    return;
  }
  mapping.entries.push_back({.key = key, .location = key_location, .value = std::move(value)});
}

Location location_of_key(const Value& mapping, std::string_view key) {
  for (const Value::Entry& entry : mapping.entries) {
    if (entry.key == key) return entry.location;
  }
  return mapping.location;
}

}  // namespace tidemark
