#include "sim/step/loader_memory.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/step/failure_report.hpp"

namespace tidemark {
namespace loader_memory_detail {
namespace {

void add_loader(PointResult& point) {
  if (!point.loader) return;
  const Bytes kept = point.loader->host();
  point.host_by_role[static_cast<std::size_t>(Role::kLoader)] += kept;
  point.run.host.bytes += kept;
  point.run.host_taken.bytes += kept;
  const Bytes taken = point.run.host_taken.bytes;
  if (point.status != PointStatus::kFits || taken <= point.host_capacity) return;
  point.status = PointStatus::kOutOfMemory;
  point.run.status = RunStatus::kOutOfHostMemory;
  point.failure = failure_because(fmt::format(
      "the data loader keeps {} of host memory and the step takes {}; there are {}",
      format_bytes(kept), format_bytes(taken - kept), format_bytes(point.host_capacity)));
  point.failure->short_of = taken - point.host_capacity;
}

// A point that fits, and whose weights cannot be loaded, does not fit.
void add_load(PointResult& point, const StepSpec& spec, const TrainingGraph& graph) {
  if (!spec.training.load) return;
  const int processes = spec.mesh.ranks_on_host();
  point.load = load_figures(*spec.training.load, graph, processes);
  const bool shards = std::any_of(
      graph.parameters.begin(), graph.parameters.end(), [&](const Parameter& parameter) {
        return graph.storages[parameter.storage].role == Role::kGatheredParameter;
      });
  // What a rank keeps, without the unit that is being divided.
  if (shards) point.load->device_peak = point.load->device_after = point.parameters;
  if (point.status != PointStatus::kFits) return;
  const LoadFigures& load = *point.load;
  if (load.device_peak > point.usable()) {
    point.status = PointStatus::kOutOfMemory;
    point.run.status = RunStatus::kOutOfMemory;
    point.failure = failure_because(
        fmt::format("the step fits, and loading the weights takes {} of the device's {}",
                    format_bytes(load.device_peak), format_bytes(point.usable())));
    point.failure->short_of = load.device_peak - point.usable();
  } else if (load.host_peak > point.host_capacity) {
    point.status = PointStatus::kOutOfMemory;
    point.run.status = RunStatus::kOutOfHostMemory;
    point.failure = failure_because(fmt::format(
        "the step fits, and {} process{} that load{} the weights take{} {} of the host's {}",
        load.processes, load.processes == 1 ? "" : "es", load.processes == 1 ? "s" : "",
        load.processes == 1 ? "s" : "", format_bytes(load.host_peak),
        format_bytes(point.host_capacity)));
    point.failure->short_of = load.host_peak - point.host_capacity;
  }
}

}  // namespace
}  // namespace loader_memory_detail

void add_memory_beside_step(PointResult& point, const StepSpec& spec, const TrainingGraph& graph) {
  loader_memory_detail::add_loader(point);
  loader_memory_detail::add_load(point, spec, graph);
}

}  // namespace tidemark
