// A scenario: the description of a simulation in one YAML file (format: README, "Scenario files").
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "policies/registry.hpp"
#include "sim/allocators/registry.hpp"
#include "sim/step/override.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

class PlanCache;     // policies/solver/plan_cache.hpp
class ProfileCache;  // hwprofiles/device_profile.hpp

enum class ModelKind { kPreset, kHuggingFace, kCostGraph, kLayers, kOnnx };

struct ModelReference {
  ModelKind kind = ModelKind::kPreset;
  std::string name;  // preset, or absolute path of the file; empty for inline layers
  Value overrides;   // keys next to the name: {layers: 24}; for layers: the value of `sizes`
  Value inline_layers;
  OnnxOptions onnx;  // keys next to `onnx`
  Location location;
};

struct ReportOptions {
  std::string directory;  // empty: nothing is written
  std::vector<std::string> formats;
};

// The description of one point: the step to simulate, and the file's other keys.
struct Scenario : StepSpec {
  ModelReference model;
  ReportOptions report;
  // Scenarios with equal keys differ at most in their names, in what is reported about them, and in
  // the capacity of their device.
  std::string run_key;
  // Location of `memory_elastic`, which is a study of several steps and decides nothing in one.
  std::optional<Location> elastic;
};

// The places where names are looked up.
struct Environment {
  Environment();
  ~Environment();
  Environment(Environment&&) noexcept;
  Environment& operator=(Environment&&) noexcept;

  std::vector<std::string> profile_folders;  // hwprofiles/*.yaml
  PolicyRegistry policies;
  AllocatorRegistry allocators;
  // Formats of reports that this build cannot write, each with the reason.
  std::map<std::string, std::string> missing_formats;
  // Plans shared by all scenarios that are read here.
  std::unique_ptr<PlanCache> plans;
  // Hardware profiles that they share.
  std::unique_ptr<ProfileCache> profiles;
};

// Reads a file and what it extends: key by key, mappings merged, everything else replaced. Paths in
// `model` become absolute, from the folder of the file that names them. Throws UserError: cyclic or
// missing extends.
[[nodiscard]] Value load_scenario(const std::string& path);

// Returns a scenario document for `tidemark run MODEL --gpu NAME`.
[[nodiscard]] Value scenario_of_model(const std::string& model, const std::string& gpu);

// Parses "training.micro_batch=4": the value is YAML. `policies.NAME.key` names a key of the listed
// policy of that name. Throws UserError: no '=', unknown or ambiguous path.
[[nodiscard]] Override parse_override(std::string_view text);
void apply_override(Value& document, const Override& change);

// Reads and checks a whole document, `sweep` excepted. Throws UserError.
[[nodiscard]] Scenario decode_scenario(const Value& document, const Environment& environment);
// Reads and checks the document of a scenario that is one of many which are tried: its policies
// search no longer than kTrialSearch, unless their parameters say so.
[[nodiscard]] Scenario trial_scenario(const Value& document, const Environment& environment);

// Returns the document without its sweep.
[[nodiscard]] Value without_sweep(Value document);
// Returns the document of one point: without the sweep, with these changes. Throws UserError.
[[nodiscard]] Value point_document(const Value& document, std::span<const Override> changes);

// Returns the points of `sweep`: the product of the matrix (first key slowest) without what
// `exclude` matches, then `include`. One point without overrides when there is no sweep. Keys that
// no point reads, empty lists and values that are no scalars or flow collections are errors.
[[nodiscard]] std::vector<std::vector<Override>> sweep_points(const Value& document);

}  // namespace tidemark
