#include "scenarios/results/result_document.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "scenarios/results/breakdown_json.hpp"
#include "scenarios/results/communication_json.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/generation_json.hpp"
#include "scenarios/results/load_json.hpp"
#include "sim/result/transfers.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace result_document_detail {
namespace {

using Json = nlohmann::ordered_json;

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

std::string_view name_of(RunStatus status) {
  return kRunStatuses[static_cast<std::size_t>(status)];
}

Json json_of(const std::vector<Override>& overrides) {
  Json json = Json::object();
  for (const auto& [key, value] : overrides)
    json[key] = to_json(value);
  return json;
}

Json model_of(const PointResult& point) {
  return {{"parameters", point.parameter_count.count},
          {"trainable_parameters", point.trainable_parameter_count.count},
          {"operators", point.operators},
          {"tensors", point.tensors},
          {"forward_flops", count_json(point.forward_flops.count)},
          {"step_flops", count_json(point.step_flops.count)}};
}

Json by_role_of(const BytesByRole& bytes) {
  Json by_role = Json::object();
  for (std::size_t r = 0; r < kRoles; ++r)
    by_role[std::string(name_of(static_cast<Role>(r)))] = bytes[r].count;
  return by_role;
}

Json peak_of(const PeakReport& peak) {
  Json layers = Json::array();
  for (std::size_t i = 0; i < std::min(peak.by_layer.size(), kLargestLayers); ++i)
    layers.push_back({{"layer", peak.by_layer[i].first}, {"bytes", peak.by_layer[i].second.count}});
  Json largest = Json::array();
  for (const LargestTensor& tensor : peak.largest) {
    largest.push_back({{"tensor", tensor.tensor},
                       {"bytes", tensor.bytes.count},
                       {"role", name_of(tensor.role)},
                       {"operator", tensor.op},
                       {"layer", tensor.layer}});
  }
  return {{"step", peak.step},
          {"phase", name_of(peak.phase)},
          {"operator", peak.op},
          {"layer", peak.layer},
          {"time", seconds(peak.time)},
          {"by_role", by_role_of(peak.by_role)},
          {"largest", std::move(largest)},
          {"largest_layers", std::move(layers)}};
}

// The terms below `live` sum to what is reserved beyond it.
Json fragmentation_of(const RunResult& run) {
  const Fragmentation& f = run.fragmentation;
  return {{"share", fragmentation(run)},
          {"reserved", f.reserved.count},
          {"live", f.live.count},
          {"rounding", f.rounding.count},
          {"pending_events", f.pending_events.count},
          {"inactive_splits", f.inactive_splits.count},
          {"free_segments", f.free_segments.count}};
}

// `step` is null when the reserved bytes still change in the last of the steps that were run.
Json convergence_of(const Convergence& convergence) {
  Json peaks = Json::array();
  for (const StepReserved& step : convergence.steps)
    peaks.push_back(step.peak.count);
  return {{"step", convergence.step ? Json(*convergence.step) : Json(nullptr)},
          {"steps", convergence.steps.size()},
          {"fails_in", convergence.fails_in ? Json(*convergence.fails_in) : Json(nullptr)},
          {"peak_reserved", std::move(peaks)}};
}

Json memory_of(const PointResult& point) {
  const RunResult& run = point.run;
  Json phase_peaks = Json::object();
  Json phase_live = Json::object();
  for (std::size_t p = 0; p < kPhases; ++p) {
    phase_peaks[std::string(name_of(static_cast<Phase>(p)))] =
        run.phase_live_without_workspace[p].bytes.count;
    phase_live[std::string(name_of(static_cast<Phase>(p)))] = run.phase_live[p].bytes.count;
  }
  return {{"capacity", point.capacity.count},
          {"context", point.context.count},
          {"communicators", communicators_json(point)},
          {"parameters", point.parameters.count},
          {"gradients", point.gradients.count},
          {"optimizer_state", point.optimizer_state.count},
          {"buffers", point.buffers.count},
          {"inputs", point.inputs.count},
          {"saved_activations", point.saved_activations.count},
          {"peak_live", run.live.bytes.count},
          {"peak_allocated", run.allocated.bytes.count},
          {"peak_active", run.active.bytes.count},
          {"peak_reserved", run.reserved.bytes.count},
          {"device_used", point.device_used().count},
          {"smallest_capacity", point.smallest_capacity.count},
          {"between_steps", run.between_steps.count},
          {"peak_without_workspace", run.live_without_workspace.bytes.count},
          {"peak", peak_of(point.peak)},
          {"phase_of_peak_without_workspace", name_of(point.phase_without_workspace)},
          {"phase_peaks", std::move(phase_peaks)},
          {"phase_peaks_live", std::move(phase_live)},
          {"allocator",
           {{"kind", point.allocator.name},
            {"retries", run.retries},
            {"ooms", run.ooms},
            {"segments", run.segments},
            {"fragmentation", fragmentation_of(run)},
            {"convergence", convergence_of(point.convergence)}}},
          {"host",
           {{"peak", run.host.bytes.count},
            {"taken", run.host_taken.bytes.count},
            {"capacity", point.host_capacity.count},
            {"by_role", by_role_of(point.host_by_role)}}},
          {"nvme", {{"peak", run.nvme.bytes.count}, {"capacity", point.nvme_capacity.count}}}};
}

Json time_of(const PointResult& point) {
  const RunResult& run = point.run;
  const auto phase = [&](Phase p) { return seconds(run.phase[static_cast<std::size_t>(p)]); };
  Json streams = Json::object();
  for (std::size_t s = 0; s < kStreams; ++s) {
    // Queues of groups other than the data ranks' are there only where something runs on them.
    const bool always = s <= static_cast<std::size_t>(Stream::kNvmeWrite);
    if (!always && run.busy[s].count() == 0 && run.exposed[s].count() == 0) continue;
    streams[std::string(name_of(static_cast<Stream>(s)))] = {{"busy", seconds(run.busy[s])},
                                                             {"exposed", seconds(run.exposed[s])}};
  }
  return {{"step", seconds(run.step)},
          {"forward", phase(Phase::kForward)},
          {"backward", phase(Phase::kBackward)},
          {"optimizer", phase(Phase::kOptimizer)},
          {"recompute", seconds(run.recompute)},
          {"dequantise", seconds(point.dequantise)},
          {"exposed_transfer", seconds(run.exposed_transfer)},
          {"exposed_communication", seconds(run.exposed_communication)},
          {"exposed_host_optimizer",
           seconds(run.exposed[static_cast<std::size_t>(Stream::kHostWorker)])},
          {"hidden_transfer_share", hidden_share(run)},
          {"host_bound", seconds(run.host_bound)},
          {"loader_stall", seconds(point.loader_stall)},
          {"streams", std::move(streams)},
          {"breakdown", breakdown_json(point)}};
}

Json loader_of(const LoaderFigures& loader) {
  return {{"batch_bytes", loader.batch.count},
          {"outstanding_batches", loader.outstanding},
          {"shared_memory", loader.shared_memory.count},
          {"pinned_memory", loader.page_locked.count},
          {"worker_memory", loader.workers.count},
          {"device_inputs", loader.device_inputs.count},
          {"seconds_per_batch", seconds(loader.interval)},
          {"copy_seconds", seconds(loader.copy)}};
}

// Returns a plan in the accounting of cost graphs, next to the simulated figures of the point.
Json plan_of(const PlanFigures& plan, const RunResult& run) {
  Json json = {{"status", name_of(plan.status)},
               {"class", plan.schedule_class},
               {"budget", plan.budget.count},
               {"peak", plan.peak.count},
               {"simulated_peak", run.live.bytes.count},
               {"cost", plan.cost.count()},
               {"base_cost", plan.base_cost.count()},
               {"lower_bound", nullptr},
               {"gap", nullptr}};
  if (plan.lower_bound) {
    json["lower_bound"] = plan.lower_bound->count();
    if (has_schedule(plan.status) && plan.lower_bound->count() > 0) {
      json["gap"] = static_cast<double>((plan.cost - *plan.lower_bound).count()) /
                    static_cast<double>(plan.lower_bound->count());
    }
  }
  if (!plan.infeasible.empty()) json["reason"] = plan.infeasible;
  return json;
}

Json policies_of(const PointResult& point) {
  Json policies = Json::array();
  for (std::size_t i = 0; i < point.policies.size(); ++i) {
    const PolicyOutcome& outcome = point.policies[i];
    Json policy = {{"name", outcome.name},
                   {"decided", outcome.decided},
                   {"contested", outcome.contested},
                   {"refused", outcome.refused},
                   {"recomputed_operators", outcome.recomputed_operators},
                   {"offloaded_bytes", outcome.offloaded.count}};
    if (outcome.plan) {
      policy.update(plan_of(*outcome.plan, point.run));
    } else if (i < point.budgets.size() && point.budgets[i]) {
      policy["budget"] = point.budgets[i]->count;
      policy["simulated_peak"] = point.run.live.bytes.count;
    }
    policies.push_back(std::move(policy));
  }
  return policies;
}

Json segments_of(const Failure& failure) {
  Json segments = Json::array();
  for (const PartlyFreeSegment& segment : failure.partly_free) {
    Json in_use = Json::array();
    for (const TensorInUse& tensor : segment.in_use) {
      in_use.push_back({{"tensor", tensor.tensor},
                        {"bytes", tensor.bytes.count},
                        {"role", name_of(tensor.role)},
                        {"layer", tensor.layer}});
    }
    segments.push_back({{"size", segment.size.count},
                        {"free", segment.free.count},
                        {"largest_free", segment.largest_free.count},
                        {"pin_count", segment.in_use_count},
                        {"pins", std::move(in_use)}});
  }
  return segments;
}

// Returns the changes that fit, or those that do not.
Json suggestions_of(const Failure& failure, bool fit) {
  Json list = Json::array();
  for (const Suggestion& suggestion : failure.tried) {
    if (suggestion.fits != fit) continue;
    Json json = {{"change", suggestion.change},
                 {"overrides", json_of(suggestion.overrides)},
                 {"device_used", suggestion.device_used.count},
                 {"peak_live", suggestion.peak_live.count},
                 {"peak_reserved", suggestion.peak_reserved.count},
                 {"changes_numbers", suggestion.changes_numbers},
                 {"pytorch", suggestion.pytorch},
                 {"hugging_face", suggestion.hugging_face}};
    if (!fit) json["kind"] = name_of(suggestion.status);
    if (fit) {
      json["step_time"] = seconds(suggestion.step);
      json["samples_per_second"] = finite(suggestion.samples_per_second);
      json["tokens_per_second"] = finite(suggestion.tokens_per_second);
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json failure_of(const PointResult& point) {
  if (!point.failure) return nullptr;
  const Failure& failure = *point.failure;
  return {{"kind", name_of(point.run.status)},
          {"step", failure.step},
          {"phase", name_of(failure.phase)},
          {"operator", failure.op},
          {"layer", failure.layer},
          {"requested", failure.requested.count},
          {"retries", point.run.retries},
          {"message", failure.message},
          {"reason", failure.reason},
          {"rounded", failure.rounded.count},
          {"segment", failure.segment.count},
          {"device_free", failure.device_free.count},
          {"short_of", failure.short_of.count},
          {"allowed", failure.allowed ? Json(failure.allowed->count) : Json(nullptr)},
          {"largest_free_block", failure.largest_free.count},
          {"free_in_segments", failure.free_in_segments.count},
          {"partly_free_segments", segments_of(failure)},
          {"suggestions", suggestions_of(failure, true)},
          {"tried", suggestions_of(failure, false)}};
}

// Returns the blocks [first, last] of a stage, and of each chunk where it has several. A chunk
// without blocks ends before it begins.
Json stage_of(const StageResult& stage) {
  const auto last = [](const StageBlocks& chunk) { return chunk.first + chunk.count - 1; };
  Json json = {{"stage", stage.stage},
               {"status", name_of(stage.point.status)},
               {"layers", {stage.chunks.front().first, last(stage.chunks.back())}}};
  if (stage.chunks.size() > 1) {
    Json chunks = Json::array();
    for (const StageBlocks& chunk : stage.chunks)
      chunks.push_back({chunk.first, last(chunk)});
    json["chunks"] = std::move(chunks);
  }
  json["order"] = stage.order;
  json["in_flight"] = stage.in_flight;
  json["bubble"] = finite(stage.bubble);
  json["memory"] = memory_of(stage.point);
  json["time"] = time_of(stage.point);
  return json;
}

Json point_of(const PointResult& point) {
  Json json = {{"name", point.name},
               {"overrides", json_of(point.overrides)},
               {"status", name_of(point.status)}};
  if (point.status == PointStatus::kError) {
    json["failure"] = {{"message", point.error}};
    return json;
  }
  if (!point.warnings.empty()) json["warnings"] = point.warnings;
  json["model"] = model_of(point);
  json["memory"] = memory_of(point);
  json["convergence"] = {
      {"steady_from", point.convergence.step ? Json(*point.convergence.step) : Json(nullptr)},
      {"fails_in", point.convergence.fails_in ? Json(*point.convergence.fails_in) : Json(nullptr)}};
  json["time"] = time_of(point);
  const auto share = [&](double parts) {
    return parts > 0 ? Json(seconds(point.run.step) / parts) : Json(nullptr);
  };
  json["time"]["per_sample"] = share(point.samples);
  json["time"]["per_token"] = share(point.tokens);
  if (point.loader) json["loader"] = loader_of(*point.loader);
  if (point.load) json["load"] = to_json(*point.load);
  if (point.generation) json["generation"] = to_json(*point.generation);
  json["throughput"] = {
      {"samples_per_step", point.samples},
      {"tokens_per_step", point.tokens},
      {"samples_per_second", finite(point.samples_per_second)},
      {"tokens_per_second", finite(point.tokens_per_second)},
      {"samples_per_second_per_gpu", finite(point.samples_per_second / std::max(point.ranks, 1))},
      {"model_flops_utilization", finite(point.model_flops_utilization)},
      {"hardware_flops_utilization", finite(point.hardware_flops_utilization)}};
  json["cost"] = cost_json(point);
  json["mesh"] = mesh_json(point.mesh);
  for (const StageResult& stage : point.stages)
    json["ranks"].push_back(stage_of(stage));
  json["communication"] = communication_json(point);
  json["policies"] = policies_of(point);
  json["failure"] = failure_of(point);
  return json;
}

}  // namespace
}  // namespace result_document_detail

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double fragmentation(const RunResult& run) {
  const Fragmentation& f = run.fragmentation;
  if (f.reserved.count <= 0) return 0;
  return 1 - static_cast<double>(f.live.count + f.rounding.count) /
                 static_cast<double>(f.reserved.count);
}

nlohmann::ordered_json result_entry(const PointResult& point) {
  return result_document_detail::point_of(point);
}

nlohmann::ordered_json result_document(std::span<const PointResult> points) {
  result_document_detail::Json document = {{"tidemark", kVersion},
                                           {"points", result_document_detail::Json::array()}};
  for (const PointResult& point : points)
    document["points"].push_back(result_entry(point));
  return document;
}

}  // namespace tidemark
