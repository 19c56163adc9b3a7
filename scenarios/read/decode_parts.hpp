// Decoders for the parts of a scenario, one by one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Steps and micro-batches repeat the whole graph; these limits keep a typing error from filling the
// memory. They are far above what is needed: steps after the second one repeat it.
inline constexpr int kMaxSteps = 16;
inline constexpr int kMaxAccumulate = 4096;
inline constexpr int kMaxMicroBatches = 8192;                           // number in all steps
inline constexpr int kMaxCount = 1 << 20;                               // number of GPUs
inline constexpr std::int64_t kMaxGlobalBatch = std::int64_t{1} << 40;  // samples of a step

// Each reads one key of the scenario and throws UserError.
[[nodiscard]] ModelReference decode_model(const Decoder& scenario);
// Returns the value of `model` with `changes` laid over it, as a file that extends another does.
[[nodiscard]] Value extended_model(const Value& base, const Value& changes);
// Returns "llama-3-8b", also for llama-3-8b/config.json.
[[nodiscard]] std::string model_title(const ModelReference& model);
// Returns the source that builds the model later; the reference is copied.
[[nodiscard]] ModelSource model_source(const ModelReference& model);
// `data_ranks`: ranks that each train on samples of their own.
[[nodiscard]] TrainingOptions decode_training(const Decoder& scenario, const ModelReference& model,
                                              const DeviceProfile& device, int data_ranks = 1);
// Returns what the listed policies ask of the mesh.
[[nodiscard]] MeshRequest mesh_request(const Decoder& scenario, const Environment& environment);
// Fills mesh and mesh_request, from hardware.count and the listed policies.
void decode_mesh(const Decoder& scenario, const Environment& environment, Scenario& result);
// Fills policies and policy_names.
void decode_policies(const Decoder& scenario, const Environment& environment, Scenario& result);
// Returns what is wrong with a budget of bytes for a model whose unit was forgotten: "10 bytes hold
// no step; is 10GiB meant?"; empty for others.
[[nodiscard]] std::string forgotten_unit(Bytes budget);
// Returns StepSpec::may_detach of a decoded scenario.
[[nodiscard]] bool may_detach(const Scenario& scenario);
// Returns the text that the model, its training and its rewrites follow from: equal for equal
// models. `scenario` is `document` decoded.
[[nodiscard]] std::string training_key(const Value& document, const Scenario& scenario);
// Returns Scenario::run_key. `scenario` is `document` decoded, with its training_key.
[[nodiscard]] std::string run_key(const Value& document, const Scenario& scenario);

// Returns the keys of a scenario.
[[nodiscard]] std::span<const std::string_view> scenario_keys();
// Returns the formats that `report` may list.
[[nodiscard]] std::span<const std::string_view> report_format_words();
// Returns the keys of `training`, those of later versions included.
[[nodiscard]] std::vector<std::string> training_keys();

}  // namespace tidemark
