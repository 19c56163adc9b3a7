#include "scenarios/results/read_result.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/results/breakdown_json.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/generation_json.hpp"
#include "scenarios/results/load_json.hpp"
#include "scenarios/results/result_document.hpp"
#include "sim/allocators/registry.hpp"

namespace tidemark {
namespace read_result_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns the index of a word in a list of names.
template <class Names>
std::size_t index_in(const Names& names, const std::string& word) {
  const auto found = std::find(std::begin(names), std::end(names), word);
  if (found == std::end(names)) throw UserError(fmt::format("unknown word '{}'", word));
  return static_cast<std::size_t>(found - std::begin(names));
}

// Returns the member with this name of an enumeration whose members count from 0.
template <class Enum>
Enum member(const std::string& word, int count) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  }
  throw UserError(fmt::format("unknown word '{}'", word));
}

Duration duration(const Json& seconds) {
  return Duration(std::llround(seconds.get<double>() * 1e9));
}

std::vector<Override> overrides_of(const Json& json) {
  if (!json.is_object()) throw UserError("overrides are no object");
  std::vector<Override> overrides;
  for (const auto& [key, value] : json.items())
    overrides.push_back({key, from_json(value)});
  return overrides;
}

Bytes bytes(const Json& json) {
  return Bytes(json.get<std::int64_t>());
}

BytesByRole by_role(const Json& json) {
  BytesByRole held{};
  for (int r = 0; r < kRoles; ++r)
    held[static_cast<std::size_t>(r)] = bytes(json.at(std::string(name_of(static_cast<Role>(r)))));
  return held;
}

Phase phase_of(const Json& json) {
  return member<Phase>(json.get<std::string>(), kPhases);
}

void read_model(const Json& json, PointResult& point) {
  point.parameter_count.count = json.at("parameters");
  point.trainable_parameter_count.count = json.at("trainable_parameters");
  point.operators = json.at("operators");
  point.tensors = json.at("tensors");
  point.forward_flops = Flops(json.at("forward_flops").get<double>());
  point.step_flops = Flops(json.at("step_flops").get<double>());
}

void read_peak(const Json& json, PeakReport& peak) {
  peak.step = json.at("step");
  peak.phase = phase_of(json.at("phase"));
  peak.op = json.at("operator");
  peak.layer = json.at("layer");
  peak.time = duration(json.at("time"));
  peak.by_role = by_role(json.at("by_role"));
  for (const Json& tensor : json.at("largest")) {
    peak.largest.push_back({.tensor = tensor.at("tensor"),
                            .bytes = Bytes(tensor.at("bytes")),
                            .role = member<Role>(tensor.at("role").get<std::string>(), kRoles),
                            .op = tensor.at("operator"),
                            .layer = tensor.at("layer")});
  }
  if (!json.contains("largest_layers")) return;  // documents of earlier versions
  for (const Json& layer : json.at("largest_layers"))
    peak.by_layer.emplace_back(layer.at("layer"), Bytes(layer.at("bytes").get<std::int64_t>()));
}

void read_allocator(const Json& json, PointResult& point) {
  RunResult& run = point.run;
  const auto kind = json.at("kind").get<std::string>();
  const AllocatorRegistry allocators;
  const AllocatorEntry* allocator = allocators.find(kind);
  if (allocator == nullptr) throw UserError(fmt::format("unknown word '{}'", kind));
  point.allocator = allocator->traits;
  run.retries = json.at("retries");
  run.ooms = json.at("ooms");
  run.segments = json.at("segments");
  const Json& fragmentation = json.at("fragmentation");
  run.fragmentation.reserved.count = fragmentation.at("reserved");
  run.fragmentation.live.count = fragmentation.at("live");
  run.fragmentation.rounding.count = fragmentation.at("rounding");
  run.fragmentation.pending_events.count = fragmentation.at("pending_events");
  run.fragmentation.inactive_splits.count = fragmentation.at("inactive_splits");
  run.fragmentation.free_segments.count = fragmentation.at("free_segments");
  const Json& convergence = json.at("convergence");
  if (!convergence.at("step").is_null()) point.convergence.step = convergence.at("step").get<int>();
  if (!convergence.at("fails_in").is_null())
    point.convergence.fails_in = convergence.at("fails_in").get<int>();
  for (const Json& peak : convergence.at("peak_reserved")) {
    StepReserved step;
    step.peak.count = peak;
    point.convergence.steps.push_back(step);
  }
}

void read_memory(const Json& json, PointResult& point) {
  RunResult& run = point.run;
  point.capacity = bytes(json.at("capacity"));
  point.context = bytes(json.at("context"));
  for (const Json& entry : json.at("communicators")) {
    point.communicators.push_back({member<MeshDimension>(entry.at("group").get<std::string>(),
                                                         static_cast<int>(kMeshDimensions)),
                                   bytes(entry.at("bytes")), entry.value("ranks", 0)});
  }
  point.parameters = bytes(json.at("parameters"));
  point.gradients = bytes(json.at("gradients"));
  point.optimizer_state = bytes(json.at("optimizer_state"));
  point.buffers = bytes(json.at("buffers"));
  point.inputs = bytes(json.at("inputs"));
  point.saved_activations = bytes(json.at("saved_activations"));
  point.smallest_capacity.count = json.at("smallest_capacity");
  run.live.bytes.count = json.at("peak_live");
  run.allocated.bytes.count = json.at("peak_allocated");
  run.active.bytes.count = json.at("peak_active");
  run.reserved.bytes.count = json.at("peak_reserved");
  run.between_steps.count = json.at("between_steps");
  run.live_without_workspace.bytes.count = json.at("peak_without_workspace");
  read_peak(json.at("peak"), point.peak);
  point.phase_without_workspace = phase_of(json.at("phase_of_peak_without_workspace"));
  for (std::size_t p = 0; p < kPhases; ++p) {
    const std::string phase(name_of(static_cast<Phase>(p)));
    run.phase_live_without_workspace[p].bytes.count = json.at("phase_peaks").at(phase);
    run.phase_live[p].bytes.count = json.at("phase_peaks_live").at(phase);
  }
  read_allocator(json.at("allocator"), point);
  const Json& host = json.at("host");
  run.host.bytes.count = host.at("peak");
  run.host_taken.bytes.count = host.at("taken");
  point.host_capacity = bytes(host.at("capacity"));
  point.host_by_role = by_role(host.at("by_role"));
  run.nvme.bytes.count = json.at("nvme").at("peak");
  point.nvme_capacity = Bytes(json.at("nvme").at("capacity").get<std::int64_t>());
}

void read_time(const Json& json, PointResult& point) {
  RunResult& run = point.run;
  run.step = duration(json.at("step"));
  for (std::size_t p = 0; p < kPhases; ++p)
    run.phase[p] = duration(json.at(std::string(name_of(static_cast<Phase>(p)))));
  run.recompute = duration(json.at("recompute"));
  point.dequantise = duration(json.at("dequantise"));
  run.exposed_transfer = duration(json.at("exposed_transfer"));
  run.exposed_communication = duration(json.at("exposed_communication"));
  run.host_bound = duration(json.at("host_bound"));
  point.loader_stall = duration(json.at("loader_stall"));
  read_breakdown(json.at("breakdown"), point);
  for (std::size_t s = 0; s < kStreams; ++s) {
    const auto found = json.at("streams").find(std::string(name_of(static_cast<Stream>(s))));
    if (found == json.at("streams").end()) continue;
    const Json& stream = *found;
    run.busy[s] = duration(stream.at("busy"));
    run.exposed[s] = duration(stream.at("exposed"));
  }
}

LoaderFigures read_loader(const Json& json) {
  return {.batch = bytes(json.at("batch_bytes")),
          .outstanding = json.at("outstanding_batches"),
          .shared_memory = bytes(json.at("shared_memory")),
          .page_locked = bytes(json.at("pinned_memory")),
          .workers = bytes(json.at("worker_memory")),
          .device_inputs = bytes(json.at("device_inputs")),
          .interval = duration(json.at("seconds_per_batch")),
          .copy = duration(json.at("copy_seconds"))};
}

void read_communication(const Json& mesh, const Json& list, PointResult& point) {
  Mesh::Sizes sizes{};
  for (std::size_t d = 0; d < kSizedDimensions; ++d)
    sizes[d] = mesh.at(std::string(name_of(static_cast<MeshDimension>(d))));
  // the links between the ranks are not in the document
  point.mesh = Mesh(sizes, 1, LinkKind::kNvlink);
  point.ranks = point.mesh.ranks();
  for (const Json& entry : list) {
    point.communication.push_back(
        {.group = member<MeshDimension>(entry.at("group").get<std::string>(),
                                        static_cast<int>(kMeshDimensions)),
         .kind = member<CollectiveKind>(entry.at("kind").get<std::string>(),
                                        static_cast<int>(kCollectiveKinds)),
         .ranks = entry.value("ranks", 0),
         .count = entry.at("count"),
         .bytes = Bytes(entry.at("bytes").get<std::int64_t>()),
         .busy = duration(entry.at("seconds")),
         .shared =
             entry.contains("shared_seconds") ? duration(entry.at("shared_seconds")) : Duration(0),
         .exposed = duration(entry.at("exposed_seconds"))});
  }
}

PlanFigures read_plan(const Json& json) {
  static constexpr std::string_view kClasses[] = {"checkmate", "fixed", "unrestricted"};
  PlanFigures plan;
  plan.status = member<PlanStatus>(json.at("status").get<std::string>(), kPlanStatusCount);
  plan.schedule_class = kClasses[index_in(kClasses, json.at("class").get<std::string>())];
  plan.budget = Bytes(json.at("budget"));
  plan.peak = Bytes(json.at("peak"));
  plan.cost = Duration(json.at("cost").get<std::int64_t>());
  plan.base_cost = Duration(json.at("base_cost").get<std::int64_t>());
  if (!json.at("lower_bound").is_null())
    plan.lower_bound = Duration(json.at("lower_bound").get<std::int64_t>());
  plan.infeasible = json.value("reason", "");
  return plan;
}

void read_policies(const Json& json, PointResult& point) {
  for (const Json& policy : json) {
    PolicyOutcome outcome;
    outcome.name = policy.at("name");
    outcome.decided = policy.at("decided");
    outcome.contested = policy.at("contested");
    outcome.refused = policy.at("refused");
    outcome.recomputed_operators = policy.at("recomputed_operators");
    outcome.offloaded = bytes(policy.at("offloaded_bytes"));
    std::optional<Bytes> budget;
    if (policy.contains("status")) {
      outcome.plan = read_plan(policy);
    } else if (policy.contains("budget")) {
      budget = bytes(policy.at("budget"));
    }
    point.policies.push_back(std::move(outcome));
    point.budgets.push_back(budget);
  }
}

StageResult read_stage(const Json& json) {
  constexpr int kStatuses = 4;
  StageResult stage{.stage = json.at("stage"),
                    .chunks = {},
                    .order = json.at("order"),
                    .in_flight = json.at("in_flight"),
                    .bubble = json.at("bubble"),
                    .point = {}};
  const auto blocks = [](const Json& ends) {
    return StageBlocks{.first = ends.at(0),
                       .count = ends.at(1).get<int>() - ends.at(0).get<int>() + 1};
  };
  if (!json.contains("chunks")) stage.chunks.push_back(blocks(json.at("layers")));
  for (const Json& chunk : json.value("chunks", Json::array()))
    stage.chunks.push_back(blocks(chunk));
  stage.point.status = member<PointStatus>(json.at("status").get<std::string>(), kStatuses);
  read_memory(json.at("memory"), stage.point);
  read_time(json.at("time"), stage.point);
  return stage;
}

RunStatus run_status(const std::string& name) {
  return static_cast<RunStatus>(index_in(kRunStatuses, name));
}

void read_suggestions(const Json& json, bool fits, Failure& failure) {
  for (const Json& entry : json) {
    Suggestion suggestion{.change = entry.at("change"),
                          .overrides = overrides_of(entry.at("overrides")),
                          .changes_numbers = entry.at("changes_numbers"),
                          .pytorch = entry.at("pytorch"),
                          .hugging_face = entry.at("hugging_face"),
                          .fits = fits,
                          .device_used = bytes(entry.at("device_used")),
                          .peak_live = bytes(entry.at("peak_live")),
                          .peak_reserved = bytes(entry.at("peak_reserved"))};
    if (!fits) suggestion.status = run_status(entry.at("kind").get<std::string>());
    if (fits) {
      suggestion.step = duration(entry.at("step_time"));
      suggestion.samples_per_second = entry.at("samples_per_second");
      suggestion.tokens_per_second = entry.at("tokens_per_second");
    }
    failure.tried.push_back(std::move(suggestion));
  }
}

Failure read_failure(const Json& json) {
  Failure failure{.step = json.at("step"),
                  .phase = phase_of(json.at("phase")),
                  .op = json.at("operator"),
                  .layer = json.at("layer"),
                  .requested = Bytes(json.at("requested")),
                  .message = json.at("message"),
                  .reason = json.at("reason"),
                  .rounded = Bytes(json.at("rounded")),
                  .segment = Bytes(json.at("segment")),
                  .device_free = Bytes(json.at("device_free")),
                  .short_of = Bytes(json.at("short_of")),
                  .largest_free = Bytes(json.at("largest_free_block")),
                  .free_in_segments = Bytes(json.at("free_in_segments"))};
  if (!json.at("allowed").is_null()) failure.allowed = bytes(json.at("allowed"));
  for (const Json& entry : json.at("partly_free_segments")) {
    PartlyFreeSegment segment{.size = Bytes(entry.at("size")),
                              .free = Bytes(entry.at("free")),
                              .largest_free = Bytes(entry.at("largest_free")),
                              .in_use_count = entry.at("pin_count")};
    for (const Json& tensor : entry.at("pins")) {
      segment.in_use.push_back({.tensor = tensor.at("tensor"),
                                .bytes = Bytes(tensor.at("bytes")),
                                .role = member<Role>(tensor.at("role").get<std::string>(), kRoles),
                                .layer = tensor.at("layer")});
    }
    failure.partly_free.push_back(std::move(segment));
  }
  read_suggestions(json.at("suggestions"), true, failure);
  read_suggestions(json.at("tried"), false, failure);
  return failure;
}

}  // namespace
}  // namespace read_result_detail

PointResult read_point(const nlohmann::ordered_json& entry) {
  PointResult point;
  point.name = entry.at("name");
  point.overrides = read_result_detail::overrides_of(entry.at("overrides"));
  constexpr int kStatuses = 4;
  point.status =
      read_result_detail::member<PointStatus>(entry.at("status").get<std::string>(), kStatuses);
  if (point.status == PointStatus::kError) {
    point.error = entry.at("failure").at("message");
    return point;
  }
  if (entry.contains("warnings")) point.warnings = entry.at("warnings");
  read_result_detail::read_model(entry.at("model"), point);
  read_result_detail::read_memory(entry.at("memory"), point);
  static_cast<void>(entry.at("convergence").at("fails_in"));  // the allocator's says it, too
  read_result_detail::read_time(entry.at("time"), point);
  if (entry.contains("generation")) point.generation = generation_from_json(entry.at("generation"));
  if (entry.contains("loader")) point.loader = read_result_detail::read_loader(entry.at("loader"));
  if (entry.contains("load")) point.load = load_from_json(entry.at("load"));
  const read_result_detail::Json& throughput = entry.at("throughput");
  point.samples = throughput.at("samples_per_step");
  point.tokens = throughput.at("tokens_per_step");
  point.samples_per_second = throughput.at("samples_per_second");
  point.tokens_per_second = throughput.at("tokens_per_second");
  point.model_flops_utilization = throughput.at("model_flops_utilization");
  read_cost(entry.at("cost"), point.cost);
  read_result_detail::read_communication(entry.at("mesh"), entry.at("communication"), point);
  if (entry.contains("ranks")) {
    for (const read_result_detail::Json& stage : entry.at("ranks"))
      point.stages.push_back(read_result_detail::read_stage(stage));
  }
  read_result_detail::read_policies(entry.at("policies"), point);
  const read_result_detail::Json& failure = entry.at("failure");
  if (!failure.is_null()) {
    point.failure = read_result_detail::read_failure(failure);
    point.run.status = read_result_detail::run_status(failure.at("kind").get<std::string>());
  }
  return point;
}

}  // namespace tidemark
