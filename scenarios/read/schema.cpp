#include "scenarios/read/schema.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/models/preset.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/environment.hpp"

namespace tidemark {
namespace schema_detail {
namespace {

using Json = nlohmann::ordered_json;

Json types(std::initializer_list<const char*> names) {
  Json list = Json::array();
  for (const char* name : names)
    list.push_back(name);
  return {{"type", std::move(list)}};
}

// Returns the words of "math | flash".
Json words_of(std::string_view range) {
  Json words = Json::array();
  while (!range.empty()) {
    const std::size_t end = range.find(" | ");
    words.push_back(std::string(range.substr(0, end)));
    range.remove_prefix(end == std::string_view::npos ? range.size() : end + 3);
  }
  return words;
}

// Returns the schema of one parameter. Words and lists may have long forms, which the note of a
// parameter does not tell; null is the same as leaving a key out.
Json parameter(const ParameterNote& note) {
  Json schema;
  if (note.type == "true or false") {
    schema = types({"boolean", "null"});
  } else if (note.type == "true, false or integer") {
    schema = types({"boolean", "integer", "string", "null"});
  } else if (note.type == "integer") {
    schema = types({"integer", "string", "null"});  // 1_000_000 is a text to JSON
  } else if (note.type == "number") {
    schema = types({"number", "string", "null"});
  } else if (note.type == "word" && !note.range.empty()) {
    schema = {{"anyOf", Json::array({Json{{"enum", words_of(note.range)}},
                                     types({"object", "array", "boolean", "number", "null"})})}};
  } else if (note.type.starts_with("list of")) {
    schema = types({"array", "string", "number", "null"});
  } else {
    schema = types({"string", "number", "object", "array", "null"});  // texts, and units
  }
  std::string hint;
  if (!note.range.empty() && note.type != "word") hint = note.range;
  if (note.default_value.empty()) {
    hint += hint.empty() ? "required" : ", required";
  } else if (note.default_value != "none") {
    hint += fmt::format("{}default {}", hint.empty() ? "" : ", ", note.default_value);
  }
  if (!hint.empty()) schema["description"] = hint;
  return schema;
}

// Returns an object with the noted parameters. `start` is taken off the names; what lies deeper is
// left out.
Json object(const std::vector<ParameterNote>& notes, std::string_view start, bool others) {
  Json properties = Json::object();
  for (const ParameterNote& note : notes) {
    std::string_view name = note.name;
    if (!name.starts_with(start)) continue;
    name.remove_prefix(start.size());
    if (name.find('.') == std::string_view::npos) properties[std::string(name)] = parameter(note);
  }
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", others}};
}

Json training(const Environment& environment) {
  std::vector<ParameterNote> notes;
  const ModelReference model{.kind = ModelKind::kPreset, .name = "gpt2"};
  const DeviceProfile device = load_device_profile("h100-sxm-80gb", environment.profile_folders);
  static_cast<void>(decode_training(Decoder::describing(notes), model, device));
  Json schema = object(notes, "training.", false);
  for (const std::string& key : training_keys()) {
    if (!schema["properties"].contains(key)) schema["properties"][key] = Json::object();
  }
  // Names that have a mapping with more to say, and maps of words.
  for (const char* key : {"optimizer", "precision", "loss", "ema", "loader", "load", "loss_scale"})
    schema["properties"][key].erase("type");
  return schema;
}

Json allocator(const Environment& environment) {
  Json names = Json::array();
  Json all{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  for (const AllocatorEntry& entry : environment.allocators.entries()) {
    names.push_back(std::string(entry.traits.name));
    std::vector<ParameterNote> notes;
    static_cast<void>(entry.decode(Decoder::describing(notes)));
    const Json one = object(notes, "", false);
    for (const auto& [key, value] : one["properties"].items())
      all["properties"][key] = value;
    for (const ParameterForm& form : entry.forms) {
      all["properties"][std::string(form.parameter)] =
          Json{{"description", std::string(form.form)}};
    }
  }
  all["properties"]["kind"] = Json{{"enum", names}};
  return {{"anyOf", Json::array({Json{{"enum", names}}, all, Json{{"type", "null"}}})}};
}

Json policies(const Environment& environment) {
  Json names = Json::array();
  Json each = Json::object();
  for (const PolicyEntry& entry : environment.policies.entries()) {
    const std::string name(entry.name);
    names.push_back(name);
    std::vector<ParameterNote> notes;
    static_cast<void>(entry.decode(Decoder::describing(notes), {}));
    Json schema = object(notes, "", true);
    schema["type"] = Json::array({"object", "null"});
    schema["description"] = std::string(entry.summary);
    each[name] = std::move(schema);
  }
  each["memory_elastic"] = types({"object", "null"});
  const Json listed{{"type", "object"},
                    {"properties", std::move(each)},
                    {"additionalProperties", false},
                    {"maxProperties", 1}};
  return {{"type", Json::array({"array", "null"})},
          {"items", {{"anyOf", Json::array({Json{{"enum", std::move(names)}}, listed})}}}};
}

}  // namespace
}  // namespace schema_detail

nlohmann::ordered_json scenario_schema(const Environment& environment) {
  using schema_detail::Json;
  using schema_detail::types;
  Json presets = Json::array();
  for (const ModelPreset& preset : all_presets())
    presets.push_back(preset.name);
  Json properties = Json::object();
  for (const std::string_view key : scenario_keys())
    properties[std::string(key)] = Json::object();
  properties["version"] = Json{{"const", 1}};
  properties["name"] = types({"string", "number", "null"});
  properties["extends"] = types({"string"});
  properties["model"] = Json{{"description", "a preset, a path, or a mapping"},
                             {"anyOf", Json::array({types({"string", "object"})})},
                             {"examples", std::move(presets)}};
  properties["hardware"] = Json{{"description", "a GPU, or a mapping with gpu, count and figures"},
                                {"anyOf", Json::array({types({"string", "object"})})},
                                {"examples", gpu_names(environment)}};
  properties["training"] = schema_detail::training(environment);
  properties["training"]["type"] = Json::array({"object", "null"});
  properties["allocator"] = schema_detail::allocator(environment);
  properties["host_allocator"] = Json{{"enum", {"exact", "pool", "torch", nullptr}}};
  properties["policies"] = schema_detail::policies(environment);
  properties["sweep"] = Json{{"type", {"object", "null"}},
                             {"properties",
                              {{"matrix", types({"object", "null"})},
                               {"include", types({"array", "null"})},
                               {"exclude", types({"array", "null"})}}},
                             {"additionalProperties", false}};
  for (const char* key : {"compare", "goal", "report"})
    properties[key] = types({"object", "null"});
  properties["published"] = types({"array", "null"});
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "Scenario of Tidemark, version 1"},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

}  // namespace tidemark
