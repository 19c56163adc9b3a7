#include "scenarios/read/schema.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/models/preset.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/schema_parts.hpp"

namespace tidemark {
namespace schema_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns an object with the noted parameters. `start` is taken off the names; what lies deeper is
// left out.
Json object(const std::vector<ParameterNote>& notes, std::string_view start, bool others) {
  Json properties = Json::object();
  for (const ParameterNote& note : notes) {
    std::string_view name = note.name;
    if (!name.starts_with(start)) continue;
    name.remove_prefix(start.size());
    if (name.find('.') == std::string_view::npos)
      properties[std::string(name)] = parameter_schema(note);
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
  each["memory_elastic"] = object(elastic_parameters(), "", true);
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
  Json properties = Json::object();
  for (const std::string_view key : scenario_keys())
    properties[std::string(key)] = Json::object();
  properties["version"] = Json{{"const", 1}};
  properties["name"] = json_types({"string", "number", "null"});
  properties["extends"] = json_types({"string"});
  properties["model"] = model_schema();
  properties["hardware"] = hardware_schema(environment);
  properties["training"] = schema_detail::training(environment);
  properties["training"]["type"] = Json::array({"object", "null"});
  properties["allocator"] = schema_detail::allocator(environment);
  properties["host_allocator"] = Json{{"enum", {"exact", "pool", "torch", nullptr}}};
  properties["policies"] = schema_detail::policies(environment);
  properties["sweep"] = sweep_schema();
  properties["compare"] = compare_schema();
  properties["goal"] = goal_schema();
  properties["report"] = report_schema();
  properties["published"] = published_schema();
  return {{"$schema", "http://json-schema.org/draft-07/schema#"},
          {"title", "Scenario of Tidemark, version 1"},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

}  // namespace tidemark
