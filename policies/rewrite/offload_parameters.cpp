// Parameters whose home is the host or NVMe and that visit the device.
//
//   compute   [ F0 ][ F1 ][ F2 ]...[ B2 ][ B1 ][ B0 ]
//   h2d    [p0][p1]  [p2]              [p1]  [p0]        prefetch 1: while the layer before runs
//
// A parameter is fetched `prefetch` layers before the one that uses it and its device memory is
// freed when that layer has run, unless it is used again within the same distance (DeepSpeed
// ZeRO-3, partitioned_param_coordinator.py; its offload_param). Parameters of fewer than
// `min_elements` stay (param_persistence_threshold).
//
// With prefetch_bucket_size, max_live_parameters or max_reuse_distance (elements) the limits of
// DeepSpeed's coordinator decide instead: at the entry of each module, once its own parameters are
// there, the next ones are fetched until the bucket is full or as many are live as allowed.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/rewrite/entries.hpp"

namespace tidemark {
namespace offload_parameters_detail {
namespace {

// Limits of how far ahead parameters are fetched, in elements rather than layers: the settings of
// DeepSpeed's PartitionedParameterCoordinator under their names.
struct Coordinator {
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
};

std::optional<Coordinator> decode_coordinator(const Decoder& d) {
  const auto bucket = d.maybe<std::int64_t>("prefetch_bucket_size", at_least(0));
  const auto live = d.maybe<std::int64_t>("max_live_parameters", at_least(0));
  const auto reuse = d.maybe<std::int64_t>("max_reuse_distance", at_least(0));
  if (!bucket && !live && !reuse) return std::nullopt;
  if (d.maybe<int>("prefetch", at_least(0))) {
    d.fail_at("prefetch",
              "counts layers, but prefetch_bucket_size, max_live_parameters and "
              "max_reuse_distance count elements as DeepSpeed does; give one or the others");
  }
  Coordinator coordinator;
  coordinator.prefetch_bucket_size = bucket.value_or(coordinator.prefetch_bucket_size);
  coordinator.max_live_parameters = live.value_or(coordinator.max_live_parameters);
  coordinator.max_reuse_distance = reuse.value_or(coordinator.max_reuse_distance);
  return coordinator;
}

class OffloadParameters final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d) {
    static constexpr std::array<std::string_view, 2> kTierWords{"host", "nvme"};
    auto policy = std::make_unique<OffloadParameters>();
    policy->coordinator_ = decode_coordinator(d);
    policy->prefetch_ = d.optional<int>("prefetch", 1, at_least(0));
    policy->min_elements_ = d.optional<std::int64_t>("min_elements", 100'000, at_least(0));
    const bool nvme = d.optional_word("tier", kTierWords, "host") == "nvme";
    policy->tier_ = nvme ? Tier::kNvme : Tier::kHost;
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "offload_parameters"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  [[nodiscard]] bool moves_parameters() const override { return true; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override;

 private:
  void plan_by_layers(const PolicyContext& context, ResidencyPlan& plan) const;
  void plan_by_elements(const PolicyContext& context, ResidencyPlan& plan) const;

  int prefetch_ = 1;  // layers
  std::optional<Coordinator> coordinator_;
  std::int64_t min_elements_ = 0;
  Tier tier_ = Tier::kHost;
};

void OffloadParameters::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  for (const Parameter& parameter : graph.parameters) {
    Storage& storage = graph.storages[parameter.storage];
    if (storage.home != Tier::kDevice) continue;  // a policy before this one has placed it
    if (parameter.elements.count >= min_elements_) storage.home = tier_;
  }
}

bool visits_device(const PolicyContext& context, const Gap& gap) {
  const Storage& storage = context.graph.storages[gap.storage];
  return gap.open() && is_parameter(storage.role) && storage.home != Tier::kDevice &&
         context.op_at(gap.to).executor == Executor::kDevice;
}

void decide_fetch(const PolicyContext& context, GapId id, Position fetch_at, ResidencyPlan& plan) {
  const Gap& gap = context.live.gaps[id];
  const Storage& storage = context.graph.storages[gap.storage];
  fetch_at = std::max(fetch_at, Position(gap.release.value + 1));
  const Offload offload{.fetch_at = fetch_at, .release_at = {}, .tier = storage.home};
  if (!plan.decide(id, offload)) return;
  if (context.order.at[gap.to].step + 1 == context.order.steps) {
    plan.outcome().offloaded += storage.bytes;
  }
}

// Runs of positions that work on the same block, forward or backward: the layers of "a layer
// ahead".
struct Visits {
  IdVector<Position, std::uint32_t> of;  // by position
  std::vector<Position> first;           // by visit

  explicit Visits(const PolicyContext& context) : of(context.order.at.size()) {
    int block = kNoBlock;
    Phase phase = Phase::kForward;
    for (Position p : ids_of(context.order.at)) {
      const Phase now = context.op_at(p).phase;
      if (first.empty() || context.block_at(p) != block || now != phase) first.push_back(p);
      block = context.block_at(p);
      phase = now;
      of[p] = static_cast<std::uint32_t>(first.size() - 1);
    }
  }
};

void OffloadParameters::plan_by_layers(const PolicyContext& context, ResidencyPlan& plan) const {
  const Visits visits(context);
  const auto ahead = static_cast<std::uint32_t>(prefetch_);
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!visits_device(context, gap)) continue;
    const std::uint32_t visit = visits.of[gap.to];
    const bool updated_on_host = context.op_at(gap.from).executor == Executor::kHost;
    if (!updated_on_host && visit - visits.of[gap.release] <= ahead) {
      plan.decide(id, Keep{.reason = "used again within the prefetch distance"});
      continue;
    }
    const Position fetch_at = ahead == 0 ? gap.to : visits.first[visit - std::min(visit, ahead)];
    decide_fetch(context, id, fetch_at, plan);
  }
}

// One step of DeepSpeed's coordinator. A module is a run of operators of one layer.
//
//   at its entry    missing parameters are fetched and waited for; then parameters are fetched in
//                   the order of the step's trace while those in flight stay below the bucket, and
//                   below what max_live_parameters leaves
//   at its exit     its parameters are freed, unless a module needs them within
//                   max_reuse_distance elements ahead, or the prefetch has skipped them for a
//                   later module
//
// Iteration 0 records the trace and fetches nothing ahead.
class CoordinatedStep {
 public:
  struct Module {
    Position entry;
    std::vector<StorageId> parameters;
  };
  CoordinatedStep(const IdVector<StorageId, std::int64_t>& elements, const Coordinator& limits,
                  const std::vector<Module>& modules, bool traced)
      : elements_(elements), limits_(limits), modules_(modules), traced_(traced) {
    for (std::size_t m = 0; m < modules.size(); ++m) {
      for (StorageId s : modules[m].parameters)
        queue_.push_back({s, m});
    }
  }

  // Returns when each parameter is fetched for each module that needs it; invalid where it is
  // there.
  [[nodiscard]] std::map<std::pair<StorageId, std::size_t>, Position> fetches() {
    std::map<std::pair<StorageId, std::size_t>, Position> found;
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      for (StorageId s : modules_[m].parameters) {
        if (!there_.contains(s)) fetch(s, modules_[m].entry);
        found[{s, m}] = std::exchange(there_[s], Position());
      }
      while (!queue_.empty() && queue_.front().second <= m)
        queue_.pop_front();
      if (traced_) prefetch(modules_[m].entry);
      for (StorageId s : modules_[m].parameters) {
        if (stays(s, m)) continue;
        there_.erase(s);
        live_ -= elements_[s];
      }
    }
    return found;
  }

 private:
  void fetch(StorageId s, Position at) {
    there_[s] = at;
    live_ += elements_[s];
  }
  void prefetch(Position at) {
    const std::int64_t most =
        std::min(limits_.max_live_parameters - live_, limits_.prefetch_bucket_size);
    for (std::int64_t under_way = 0; !queue_.empty() && under_way < most; queue_.pop_front()) {
      const auto [s, module] = queue_.front();
      wanted_by_[s] = module;
      if (there_.contains(s)) continue;
      fetch(s, at);
      under_way += elements_[s];
    }
  }
  [[nodiscard]] bool stays(StorageId s, std::size_t module) const {
    const auto wanted = wanted_by_.find(s);
    if (wanted != wanted_by_.end() && wanted->second > module) return true;
    std::int64_t passed = 0;
    for (std::size_t m = module + 1; m < modules_.size(); ++m) {
      if (passed >= limits_.max_reuse_distance) return false;
      for (StorageId other : modules_[m].parameters) {
        if (other == s) return true;
        passed += elements_[other];
      }
    }
    return false;
  }

  const IdVector<StorageId, std::int64_t>& elements_;
  const Coordinator& limits_;
  const std::vector<Module>& modules_;
  bool traced_;
  std::deque<std::pair<StorageId, std::size_t>> queue_;
  // Position since which a parameter is on the device; invalid once a module has used it.
  std::map<StorageId, Position> there_;
  std::map<StorageId, std::size_t> wanted_by_;  // the last module that the prefetch has seen
  std::int64_t live_ = 0;                       // elements
};

// Returns the elements of the parameters that visit the device, 0 for other storages.
IdVector<StorageId, std::int64_t> elements_of(const TrainingGraph& graph) {
  IdVector<StorageId, std::int64_t> elements(graph.storages.size(), 0);
  for (const Parameter& parameter : graph.parameters) {
    const bool visits = graph.storages[parameter.storage].home != Tier::kDevice;
    if (visits) elements[parameter.storage] = parameter.elements.count;
  }
  return elements;
}

void OffloadParameters::plan_by_elements(const PolicyContext& context, ResidencyPlan& plan) const {
  const IdVector<StorageId, std::int64_t> elements = elements_of(context.graph);
  constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  // Modules of each step in order, and which of them a position belongs to.
  std::vector<std::vector<CoordinatedStep::Module>> steps(
      static_cast<std::size_t>(context.order.steps));
  IdVector<Position, std::size_t> module_at(context.order.at.size(), kNone);
  const auto place = [&](Position p) {
    const Occurrence& o = context.order.at[p];
    return std::tuple(o.step, o.micro_batch, context.op_at(p).layer, context.op_at(p).phase);
  };
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    if (context.op_at(p).phase == Phase::kOptimizer) continue;
    std::vector<CoordinatedStep::Module>& modules = steps[occurrence.step];
    if (modules.empty() || place(p) != place(Position(p.value - 1))) {
      modules.push_back({.entry = p, .parameters = {}});
    }
    module_at[p] = modules.size() - 1;
    std::vector<StorageId>& parameters = modules.back().parameters;
    for (const Touch& touch : context.graph.touches_of(occurrence.op)) {
      if (elements[touch.storage] == 0) continue;
      if (std::find(parameters.begin(), parameters.end(), touch.storage) == parameters.end()) {
        parameters.push_back(touch.storage);
      }
    }
  }
  std::vector<std::map<std::pair<StorageId, std::size_t>, Position>> fetches;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    fetches.push_back(CoordinatedStep(elements, *coordinator_, steps[step], step > 0).fetches());
  }
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!visits_device(context, gap)) continue;
    const std::size_t module = module_at[gap.to];
    const std::size_t step = context.order.at[gap.to].step;
    if (module == kNone) {  // an update on the device
      decide_fetch(context, id, gap.to, plan);
      continue;
    }
    const Position fetch_at = fetches[step].at({gap.storage, module});
    const bool inside = module_at[gap.from] == module && context.order.at[gap.from].step == step;
    if (inside || !fetch_at.valid()) {
      plan.decide(id, Keep{.reason = "live until it is used again"});
    } else {
      decide_fetch(context, id, std::min(fetch_at, gap.to), plan);
    }
  }
}

void OffloadParameters::plan_movement(const PolicyContext& context, ResidencyPlan& plan) const {
  if (coordinator_) {
    plan_by_elements(context, plan);
  } else {
    plan_by_layers(context, plan);
  }
}

}  // namespace
}  // namespace offload_parameters_detail

const PolicyEntry& offload_parameters_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_parameters",
      .kind = "training rewrite",
      .summary =
          "keep parameters in host memory or on NVMe and fetch them `prefetch` layers before "
          "they are used, or by DeepSpeed's limits in elements",
      .source = "DeepSpeed ZeRO-3 offload_param (ZeRO-Infinity, Rajbhandari et al. 2021)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return offload_parameters_detail::OffloadParameters::decode(d);
      }};
  return kEntry;
}

}  // namespace tidemark
