#include "policies/data/load.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {
namespace load_detail {
namespace {

constexpr std::array<std::string_view, 2> kFormats{"safetensors", "pickle"};
constexpr std::array<std::string_view, 2> kPlaces{"cuda", "cpu"};
constexpr std::array<std::string_view, 2> kProcesses{"all", "first"};
constexpr std::array<std::string_view, 4> kTypes{"model", "fp32", "bf16", "fp16"};
constexpr Bytes kShard(5'000'000'000);  // save_pretrained's max_shard_size until transformers 5

// The bytes of the files in the order of their weights.
std::vector<Bytes> files_of(Bytes most, std::span<const LoadedWeight> weights) {
  std::vector<Bytes> files;
  for (const LoadedWeight& weight : weights) {
    if (files.empty() || (files.back().count > 0 && files.back() + weight.file > most))
      files.emplace_back();
    files.back() += weight.file;
  }
  return files;
}

Bytes host_peak(const LoadSpec& spec, std::span<const LoadedWeight> weights) {
  Bytes all;
  Bytes largest;
  for (const LoadedWeight& weight : weights) {
    all += weight.model;
    largest = std::max(largest, weight.file);
  }
  const std::vector<Bytes> files = files_of(spec.shard, weights);
  const Bytes read =
      !spec.pickle || files.empty() ? largest : *std::max_element(files.begin(), files.end());
  if (!spec.low_cpu_mem_usage) return all + read;
  if (!spec.through_host) return read;
  // The tensors of a file become the model's weights where their type is the same.
  const bool same = std::all_of(weights.begin(), weights.end(), [](const LoadedWeight& weight) {
    return weight.file == weight.model;
  });
  return same ? all : all + read;
}

bool is_weight(const Parameter& parameter, const TrainingGraph& graph) {
  return graph.storages[parameter.storage].role != Role::kAdapter;
}

}  // namespace
}  // namespace load_detail

LoadSpec decode_load(const Decoder& load) {
  LoadSpec spec;
  spec.pickle = load.optional_word("format", load_detail::kFormats, "safetensors") == "pickle";
  spec.shard = load.optional<Bytes>("shard", load_detail::kShard, at_least(1));
  const std::string type = load.optional_word("dtype", load_detail::kTypes, "model");
  for (const DType known : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name_of(known) == type) spec.checkpoint = known;
  }
  spec.low_cpu_mem_usage = load.optional<bool>("low_cpu_mem_usage", true);
  spec.through_host = load.optional_word("device_map", load_detail::kPlaces, "cuda") == "cpu";
  spec.every_process = load.optional_word("processes", load_detail::kProcesses, "all") == "all";
  if (!spec.low_cpu_mem_usage && load.has("device_map") && !spec.through_host) {
    load.fail_at("low_cpu_mem_usage",
                 "a device_map needs low_cpu_mem_usage: true, as transformers says; write "
                 "device_map: cpu for a model that .to() moves");
  }
  load.finish();
  return spec;
}

LoadFigures load_figures(const LoadSpec& spec, std::span<const LoadedWeight> weights,
                         std::int64_t processes_per_host) {
  LoadFigures figures{.processes = spec.every_process ? processes_per_host : 1};
  for (const LoadedWeight& weight : weights) {
    const Bytes in_full = weight.is_quantised ? weight.model : Bytes(0);
    figures.device_peak =
        std::max(figures.device_peak, figures.device_after + in_full + weight.kept);
    figures.device_after += weight.kept;
  }
  figures.host_peak = figures.processes * load_detail::host_peak(spec, weights);
  return figures;
}

LoadFigures load_figures(const LoadSpec& spec, const TrainingGraph& graph,
                         std::int64_t processes_per_host) {
  // Scales and tables of quantised weights count with each by its elements.
  Bytes states;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kQuantisedParameter) states += storage.bytes;
  }
  std::int64_t quantised = 0;
  for (const Parameter& parameter : graph.parameters) {
    const Storage& storage = graph.storages[parameter.storage];
    if (storage.role != Role::kQuantisedParameter) continue;
    states -= storage.bytes;
    quantised += parameter.elements.count;
  }
  std::vector<LoadedWeight> weights;
  for (const Parameter& parameter : graph.parameters) {
    if (!load_detail::is_weight(parameter, graph)) continue;
    const Storage& storage = graph.storages[parameter.storage];
    const bool codes = storage.role == Role::kQuantisedParameter;
    const DType model = codes ? spec.checkpoint.value_or(DType::kBFloat16) : parameter.dtype;
    LoadedWeight weight{.file = bytes_of(spec.checkpoint.value_or(model), parameter.elements),
                        .model = bytes_of(model, parameter.elements),
                        .kept = storage.bytes,
                        .is_quantised = codes};
    if (codes && quantised > 0) {
      const double share =
          static_cast<double>(parameter.elements.count) / static_cast<double>(quantised);
      weight.kept += Bytes(static_cast<std::int64_t>(share * static_cast<double>(states.count)));
    }
    weights.push_back(weight);
  }
  return load_figures(spec, weights, processes_per_host);
}

}  // namespace tidemark
