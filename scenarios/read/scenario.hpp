// A scenario: what to simulate, as one YAML file says it (format: README, "Scenario files").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff/framework.hpp"
#include "graph/core/decoder.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "graph/models/model_options.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"
#include "policies/plan/rewrite_context.hpp"
#include "policies/registry.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "policies/rewrite/precision.hpp"
#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/pinned_memory.hpp"
#include "sim/memory/torch/torch_options.hpp"

namespace tidemark {

class PlanCache;  // policies/solver/plan_cache.hpp

enum class ModelKind { kPreset, kHuggingFace, kCostGraph, kLayers, kOnnx };

struct ModelReference {
  ModelKind kind = ModelKind::kPreset;
  std::string name;  // preset, or absolute path of the file; empty for layers that stand inline
  Value overrides;   // keys beside the name: {layers: 24}; of layers: the value of `sizes`
  Value inline_layers;
  OnnxOptions onnx;  // keys beside `onnx`
  Location location;
};

struct TrainingOptions {
  ModelOptions model;  // micro_batch, sequence, image, dtype, attention, dropout, loss
  std::int64_t accumulate = 1;
  int steps = 2;
  Precision precision = Precision::kBf16Mixed;
  OptimizerSpec optimizer;
  const FrameworkRules* framework = nullptr;
  std::optional<DType> gradient_dtype;
  ZeroGrad zero_grad = ZeroGrad::kNone;
  bool hold_output = false;
  bool autocast_cache = true;
};

enum class AllocatorKind { kIdeal, kTorch, kBfc, kPacked };
inline constexpr int kAllocatorKinds = 4;
[[nodiscard]] constexpr std::string_view name_of(AllocatorKind kind) {
  constexpr std::string_view kNames[] = {"ideal", "torch", "bfc", "packed"};
  return kNames[static_cast<int>(kind)];
}
// Keys beside `kind`; those of other kinds keep their defaults.
struct AllocatorOptions {
  TorchAllocatorOptions torch;
  BfcOptions bfc;
};

struct ReportOptions {
  std::string directory;  // empty: nothing is written
  std::vector<std::string> formats;
};

// Everything of one point; policies are in the order of the file.
struct Scenario {
  std::string name;
  ModelReference model;
  DeviceProfile device;
  int count = 1;  // data-parallel ranks; each is equal, so one is simulated
  Mesh mesh;      // of those ranks
  TrainingOptions training;
  AllocatorKind allocator = AllocatorKind::kTorch;
  AllocatorOptions allocator_options;
  PinnedMemory pinned = PinnedMemory::kExact;  // key host_allocator
  std::vector<AnyPolicy> policies;
  std::vector<std::string> policy_names;
  ReportOptions report;
};

// What policies may look at; refers to the scenario.
[[nodiscard]] RewriteContext rewrite_context(const Scenario& scenario);

// Where names are looked up.
struct Environment {
  Environment();
  ~Environment();
  Environment(Environment&&) noexcept;
  Environment& operator=(Environment&&) noexcept;

  std::vector<std::string> profile_folders;  // hwprofiles/*.yaml
  PolicyRegistry policies;
  // Of all scenarios that are read here.
  std::unique_ptr<PlanCache> plans;
};

// One point of a sweep: the keys it changes, in the order of the matrix.
struct Override {
  std::string key;  // "training.micro_batch", "policies.zero.stage"
  Value value;
};

// Reads a file and what it extends: key by key, mappings merged, everything else replaced. Paths in
// `model` become absolute, from the folder of the file that names them. Throws UserError: cyclic or
// missing extends.
[[nodiscard]] Value load_scenario(const std::string& path);

// A scenario document for `tidemark run MODEL --gpu NAME`.
[[nodiscard]] Value scenario_of_model(const std::string& model, const std::string& gpu);

// "training.micro_batch=4": the value is YAML. `policies.NAME.key` reaches into the listed policy
// of that name. Throws UserError: no '=', unknown or ambiguous path.
[[nodiscard]] Override parse_override(std::string_view text);
void apply_override(Value& document, const Override& change);

// Reads and checks a whole document, `sweep` excepted. Throws UserError.
[[nodiscard]] Scenario decode_scenario(const Value& document, const Environment& environment);

// The points of `sweep`: the product of the matrix (first key slowest) without what `exclude`
// matches, then `include`. One point without overrides when there is no sweep. Keys that reach
// nothing, empty lists and values that are no scalars or flow collections are errors.
[[nodiscard]] std::vector<std::vector<Override>> sweep_points(const Value& document);

}  // namespace tidemark
