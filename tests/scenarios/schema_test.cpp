// The JSON Schema of scenarios, against the scenarios that are shipped.
#include "scenarios/read/schema.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/import/layer_model.hpp"
#include "scenarios/results/document_json.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::schema_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// Returns the first place where a value breaks a schema; empty where it keeps to it. Knows the
// keywords that scenario_schema() uses.
std::string mistake(const Json& value, const Json& schema, const std::string& path) {
  const auto said = [&](const std::string& what) { return fmt::format("{}: {}", path, what); };
  if (schema.contains("type")) {
    const Json& types = schema["type"];
    const bool fits = types.is_array()
                          ? std::any_of(types.begin(), types.end(),
                                        [&](const Json& type) { return is_of_type(value, type); })
                          : is_of_type(value, types);
    if (!fits) return said("is of another type");
  }
  if (schema.contains("const") && value != schema["const"]) return said("is another constant");
  if (schema.contains("enum")) {
    const Json& words = schema["enum"];
    if (std::find(words.begin(), words.end(), value) == words.end()) return said("is another word");
  }
  if (schema.contains("anyOf")) {
    const Json& choices = schema["anyOf"];
    const bool fits = std::any_of(choices.begin(), choices.end(), [&](const Json& choice) {
      return mistake(value, choice, path).empty();
    });
    if (!fits) return said("keeps to none of several schemas");
  }
  if (value.is_number()) {
    const auto limit = [&](const char* name, double otherwise) {
      return schema.contains(name) ? schema[name].get<double>() : otherwise;
    };
    const double number = value.get<double>();
    const double infinity = std::numeric_limits<double>::infinity();
    if (number < limit("minimum", -infinity) || number <= limit("exclusiveMinimum", -infinity) ||
        number > limit("maximum", infinity))
      return said("is beyond its limits");
  }
  if (value.is_object()) {
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return said("lacks " + key.get<std::string>());
    }
    const Json known = schema.value("properties", Json::object());
    const Json others = schema.value("additionalProperties", Json(true));
    for (const auto& [key, entry] : value.items()) {
      if (!known.contains(key) && others == false) return said("has " + key);
      if (!known.contains(key) && !others.is_object()) continue;
      const std::string below =
          mistake(entry, known.contains(key) ? known[key] : others, path + '.' + key);
      if (!below.empty()) return below;
    }
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"])
      return said("has too many keys");
  }
  if (value.is_array() && value.size() < schema.value("minItems", std::size_t{0}))
    return said("is too short");
  if (value.is_array() && schema.contains("items")) {
    for (const Json& item : value) {
      const std::string below = mistake(item, schema["items"], path + "[]");
      if (!below.empty()) return below;
    }
  }
  return {};
}

std::vector<fs::path> shipped_scenarios() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_path("scenarios"))) {
    if (entry.path().extension() != ".yaml") continue;
    if (!is_layer_model(read_document(entry.path().string()))) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the schema that is shipped is the one that the decoders make") {
    const std::string made = scenario_schema(environment()).dump(1) + '\n';
    // Otherwise: tidemark schema > scenarios/scenario.schema.json
    const bool same = text_of(test::source_path("scenarios/scenario.schema.json")) == made;
    CHECK(same);
  }

  TEST_CASE("every shipped scenario names the schema and keeps to it") {
    const Json schema = scenario_schema(environment());
    const fs::path shipped = test::source_path("scenarios/scenario.schema.json");
    const std::vector<fs::path> files = shipped_scenarios();
    CHECK(files.size() > 50);
    for (const fs::path& file : files) {
      CAPTURE(file.string());
      const Json document = Json::parse(as_json(read_document(file.string())));
      CHECK(mistake(document, schema, "scenario") == "");
      const std::string line =
          fmt::format("# yaml-language-server: $schema={}\n",
                      shipped.lexically_relative(file.parent_path()).generic_string());
      CHECK(text_of(file).find(line) != std::string::npos);
    }
  }

  TEST_CASE("the schema finds misspelt keys, words and types") {
    const Json schema = scenario_schema(environment());
    const auto found = [&](const std::string& text) {
      return mistake(Json::parse(as_json(parse_document(text, "s.yaml"))), schema, "scenario");
    };
    CHECK(found("{model: gpt2, hardware: a, training: {micro_batch: 4}}") == "");
    CHECK(found("{model: gpt2, hardware: a, policies: [checkpoint_every: {period: 2}]}") == "");
    CHECK(found("{modle: gpt2}") != "");
    CHECK(found("{training: {microbatch: 4}}") != "");
    CHECK(found("{training: {micro_batch: 0}}") != "");
    CHECK(found("{training: {dropout: 1.5}}") != "");
    CHECK(found("{extends: a.yaml, hardware: {count: 8}}") == "");
    CHECK(found("{hardware: {gpu: a, count: 0}}") != "");
    CHECK(found("{hardware: {gpu: a, hbm: [80GiB]}}") != "");
    CHECK(found("{hardware: {gpu: a, hbm: {capacity: 80GiB}}}") == "");
    CHECK(found("{hardware: {gpu: a, framework: {context: 1GiB}}}") == "");
    CHECK(found("{model: {preset: gpt2, layers: [4]}}") != "");
    CHECK(found("{sweep: {matrix: {training.micro_batch: 4}}}") != "");
    CHECK(found("{sweep: {matrix: {training.micro_batch: {from: 1, to: 4, steps: 2}}}}") != "");
    CHECK(found("{sweep: {matrix: {training.micro_batch: {from: 1, to: 4}}}}") == "");
    CHECK(found("{goal: {minimise: time.step}}") != "");
    CHECK(found("{report: {formats: [pdf]}}") != "");
    CHECK(found("{compare: {policies: [[]], budget: 4}}") != "");
    CHECK(found("{published: [{figure: time.step, value: 1s}]}") != "");
    CHECK(found("{training: {micro_batch: [4]}}") != "");
    CHECK(found("{training: {precision: fp17}}") != "");
    CHECK(found("{policies: [checkpoint_evry]}") != "");
    CHECK(found("{policies: [{checkpoint_every: {}, zero: {}}]}") != "");
    CHECK(found("{allocator: {kind: torch, expandable: true}}") != "");
    CHECK(found("{version: 2}") != "");
  }
}

}  // namespace tidemark::schema_test
