#include "scenarios/read/schema_parts.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/models/preset.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace schema_parts_detail {
namespace {

using Json = nlohmann::ordered_json;

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

// Limits of numbers; a text, such as 1_000_000, is not held to them.
void add_limits(Json& schema, const Range& limits, bool whole) {
  const auto number = [&](double limit) {
    return whole ? Json(static_cast<std::int64_t>(limit)) : Json(limit);
  };
  if (std::isfinite(limits.low))
    schema[limits.low_excluded ? "exclusiveMinimum" : "minimum"] = number(limits.low);
  if (std::isfinite(limits.high)) schema["maximum"] = number(limits.high);
}

// Returns a mapping with these keys and no others, or nothing.
Json mapping(Json properties) {
  return {{"type", {"object", "null"}},
          {"properties", std::move(properties)},
          {"additionalProperties", false}};
}

// Puts a figure at the end of its path, "hbm.capacity", into the mappings before it. Beside the
// figures of a group stand texts, such as its source. A figure of one profile may be a group of
// figures in another.
void add_figure(Json& properties, std::string_view path, const std::string& description) {
  const std::size_t dot = path.find('.');
  Json& entry = properties[std::string(path.substr(0, dot))];
  if (dot == std::string_view::npos) {
    const Json any = json_types({"number", "string", "boolean", "object", "null"});
    if (entry.is_null()) entry["description"] = description;
    entry["type"] = any["type"];
    return;
  }
  if (entry.is_null()) entry = Json{{"type", {"object", "null"}}, {"properties", Json::object()}};
  add_figure(entry["properties"], path.substr(dot + 1), description);
}

}  // namespace
}  // namespace schema_parts_detail

nlohmann::ordered_json json_types(std::initializer_list<const char*> names) {
  using schema_parts_detail::Json;
  Json list = Json::array();
  for (const char* name : names)
    list.push_back(name);
  return {{"type", std::move(list)}};
}

nlohmann::ordered_json parameter_schema(const ParameterNote& note) {
  using schema_parts_detail::Json;
  Json schema;
  if (note.type == "true or false") {
    schema = json_types({"boolean", "null"});
  } else if (note.type == "true, false or integer") {
    schema = json_types({"boolean", "integer", "string", "null"});
  } else if (note.type == "integer") {
    schema = json_types({"integer", "string", "null"});  // 1_000_000 is a text to JSON
    schema_parts_detail::add_limits(schema, note.limits, true);
  } else if (note.type == "number") {
    schema = json_types({"number", "string", "null"});
    schema_parts_detail::add_limits(schema, note.limits, false);
  } else if (note.type == "word" && !note.range.empty()) {
    schema = {
        {"anyOf", Json::array({Json{{"enum", schema_parts_detail::words_of(note.range)}},
                               json_types({"object", "array", "boolean", "number", "null"})})}};
  } else if (note.type.starts_with("list of")) {
    schema = json_types({"array", "string", "number", "null"});
  } else {
    schema = json_types({"string", "number", "object", "array", "null"});  // texts, and units
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

// Every preset takes its own keys, which have one meaning in all that share them; other kinds of
// models have more.
nlohmann::ordered_json model_schema() {
  using schema_parts_detail::Json;
  Json names = Json::array();
  Json properties = Json::object();
  for (const ModelPreset& preset : all_presets()) {
    names.push_back(preset.name);
    for (const ParameterNote& note : parameters_of(preset)) {
      if (note.name.find('.') != std::string::npos) continue;
      // Their defaults and limits are those of one preset.
      ParameterNote bare{.name = note.name, .type = note.type, .default_value = "none"};
      if (note.type == "word") bare.type = "text";
      const Json schema = parameter_schema(bare);
      Json& known = properties[note.name];
      known = known.is_null() || known == schema ? schema : Json::object();
    }
  }
  for (const std::string_view kind : model_kinds()) {
    Json& entry = properties[std::string(kind)];
    entry = kind == "layers" ? json_types({"integer", "string", "object", "null"})
                             : json_types({"string", "null"});
    if (kind == "preset") entry["examples"] = names;
  }
  return {{"description", "a preset, a path, or a mapping"},
          {"anyOf", Json::array({json_types({"string"}),
                                 Json{{"type", "object"}, {"properties", std::move(properties)}}})},
          {"examples", std::move(names)}};
}

// A scenario that extends another may leave the GPU to it.
nlohmann::ordered_json hardware_schema(const Environment& environment) {
  using schema_parts_detail::Json;
  const std::vector<std::string> names = gpu_names(environment);
  Json properties{
      {"gpu", Json{{"type", {"string"}}, {"examples", names}}},
      {"count", Json{{"type", {"integer", "string", "null"}},
                     {"minimum", 1},
                     {"description", "GPUs that the step runs on, default 1"}}},
      {"node", Json{{"type", {"integer", "string", "null"}},
                    {"minimum", 1},
                    {"description", "GPUs of a host, default that of the profile"}}},
      {"network", Json{{"type", {"string", "object", "null"}},
                       {"description", "network between hosts: a name, or its figures"}}}};
  for (const std::string& name : names) {
    const DeviceProfile profile = load_device_profile(name, environment.profile_folders);
    for (const Figure& figure : profile.figures) {
      schema_parts_detail::add_figure(properties, figure.path,
                                      fmt::format("{} in {}", figure.value, name));
    }
  }
  return {{"description", "a GPU, or a mapping with gpu, count and figures"},
          {"anyOf", Json::array({json_types({"string"}),
                                 Json{{"type", "object"}, {"properties", properties}}})},
          {"examples", names}};
}

nlohmann::ordered_json sweep_schema() {
  using schema_parts_detail::Json;
  const Json number = json_types({"number", "string"});
  const Json range{
      {"type", "object"},
      {"required", {"from", "to"}},
      {"properties", {{"from", number}, {"to", number}, {"step", number}, {"times", number}}},
      {"additionalProperties", false}};
  const Json values{{"anyOf", Json::array({Json{{"type", "array"}, {"minItems", 1}}, range})}};
  const Json rows{{"type", {"array", "null"}}, {"items", Json{{"type", "object"}}}};
  return schema_parts_detail::mapping(
      {{"matrix", Json{{"type", {"object", "null"}},
                       {"description", "keys of the scenario, each with its values"},
                       {"additionalProperties", values}}},
       {"include", rows},
       {"exclude", rows}});
}

nlohmann::ordered_json compare_schema() {
  using schema_parts_detail::Json;
  return schema_parts_detail::mapping(
      {{"policies", Json{{"type", "array"}, {"items", Json{{"type", "array"}}}}},
       {"budgets", Json{{"type", {"array", "null"}}, {"items", json_types({"string", "number"})}}},
       {"iterations", Json{{"type", {"integer", "string", "null"}}, {"minimum", 1}}},
       {"time_limit", json_types({"string", "number", "null"})}});
}

nlohmann::ordered_json goal_schema() {
  using schema_parts_detail::Json;
  Json schema = schema_parts_detail::mapping(
      {{"minimize", json_types({"string", "array"})},
       {"maximize", json_types({"string", "array"})},
       {"subject_to",
        Json{{"type", {"array", "null"}},
             {"items", json_types({"string"})},
             {"description", "conditions, such as \"memory.device_used <= 72GiB\""}}}});
  schema["maxProperties"] = 2;
  return schema;
}

nlohmann::ordered_json published_schema() {
  using schema_parts_detail::Json;
  const Json value = json_types({"string", "number", "null"});
  return {{"type", {"array", "null"}},
          {"items", Json{{"type", {"object", "string", "number"}},
                         {"required", {"figure", "source"}},
                         {"properties",
                          {{"figure", json_types({"string"})},
                           {"source", json_types({"string"})},
                           {"value", value},
                           {"values", Json{{"type", "array"}, {"items", value}}}}},
                         {"additionalProperties", false}}}};
}

nlohmann::ordered_json report_schema() {
  using schema_parts_detail::Json;
  Json formats = Json::array();
  for (const std::string_view format : report_format_words())
    formats.push_back(std::string(format));
  return schema_parts_detail::mapping(
      {{"dir", json_types({"string", "null"})},
       {"formats",
        Json{{"type", {"array", "null"}}, {"items", Json{{"enum", std::move(formats)}}}}}});
}

}  // namespace tidemark
