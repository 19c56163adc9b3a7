// Optimizer state and update on the host, after ZeRO-Offload, Twin-Flow and Megatron-Core.
//
//   d2h        [g0][g1][g2]                    gradients, while or after backward makes them
//   host           [step 0][step 1][step 2]    at the host's memory bandwidth
//   h2d                    [p0]    [p1]   [p2] overlap: an operator per parameter
//
// The first parameters in the order of model.parameters() are updated on the host, until they make
// `ratio` of all elements (Megatron-Core HybridDeviceOptimizer's first-fit prefix; Twin-Flow,
// deepspeed-offloadpp); the device updates the rest meanwhile. Without overlap one operator updates
// all of them. Gradients are copied when the step begins (Megatron), or as backward produces them:
// then they live on the host, and with gradient accumulation the earlier sum comes back, is added
// to on the device and leaves again, two copies per micro-batch (DeepSpeed, stage_1_and_2.py).
//
// Delayed by one step (ZeRO-Offload, section 5.2) the host updates weights of its own while the
// device runs the next step with the old ones, which are replaced before the next update:
//
//   compute   [forward, backward t][forward, backward t + 1]
//   host      [update t - 1]       [update t]
//   h2d                       [p]                       [p]
//
// With tier nvme the state lives on disk (ZeRO-Infinity, DeepSpeed pipelined_optimizer_swapper.py):
// groups of at most `sub_group` elements are read, updated and written back. With overlap the next
// group is read while one is updated, and a group is written while the next is updated:
//
//   nvme_read   [r0][r1]    [r2]
//   host            [step 0][step 1][step 2]
//   nvme_write              [w0]    [w1]    [w2]
#include "policies/rewrite/offload_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/rewrite/entries.hpp"

namespace tidemark {
namespace offload_optimizer_detail {
namespace {

OffloadOptimizerOptions decode_options(const Decoder& d) {
  static constexpr std::array<std::string_view, 2> kTierWords{"host", "nvme"};
  static constexpr std::array<std::string_view, 2> kWhen{"step", "backward"};
  OffloadOptimizerOptions options;
  options.ratio = d.optional<double>("ratio", 1.0, between(0, 1));
  options.overlap = d.optional<bool>("overlap", true);
  const bool nvme = d.optional_word("tier", kTierWords, "host") == "nvme";
  options.tier = nvme ? Tier::kNvme : Tier::kHost;
  options.streams_gradients = d.optional_word("gradients", kWhen, "step") == "backward";
  options.delayed = d.optional<bool>("delayed", false);
  // DeepSpeed's zero_optimization.sub_group_size, which is its unit of swapping.
  options.sub_group =
      Elements(d.optional<std::int64_t>("sub_group", options.sub_group.count, at_least(1)));
  d.finish();
  return options;
}

class OffloadOptimizer final : public TrainingRewrite {
 public:
  explicit OffloadOptimizer(const OffloadOptimizerOptions& options) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "offload_optimizer"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override;

 private:
  [[nodiscard]] std::size_t first_updates(const TrainingGraph& graph) const;
  void cut_at_ratio(TrainingGraph& graph) const;
  static void keep_incomplete(const PolicyContext& context, ResidencyPlan& plan);
  void double_buffer(const PolicyContext& context, ResidencyPlan& plan) const;
  static void delay(TrainingGraph& graph, UpdatedTensor& trained);

  OffloadOptimizerOptions options_;
};

// Returns how many updated tensors, from the first on, make `ratio` of all elements.
std::size_t OffloadOptimizer::first_updates(const TrainingGraph& graph) const {
  double total = 0;
  for (const UpdatedTensor& tensor : graph.updates)
    total += static_cast<double>(tensor.elements.count);
  std::size_t first = 0;
  std::int64_t taken = 0;
  for (; first < graph.updates.size(); ++first) {
    if (static_cast<double>(taken) >= options_.ratio * total) break;
    taken += graph.updates[first].elements.count;
  }
  return first;
}

// Cuts the last of the first tensors where `ratio` is reached, if it is a rank's flat part of a
// parameter: elements of such a part are updated in any order (deepspeed-offloadpp).
void OffloadOptimizer::cut_at_ratio(TrainingGraph& graph) const {
  const std::size_t first = first_updates(graph);
  if (first == 0) return;
  double total = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < graph.updates.size(); ++i) {
    total += static_cast<double>(graph.updates[i].elements.count);
    if (i + 1 < first) before += graph.updates[i].elements.count;
  }
  UpdatedTensor& last = graph.updates[first - 1];
  const bool is_part =
      last.shape.rank() <= 1 &&
      !(last.parameter.valid() && graph.parameters[last.parameter].elements == last.elements);
  const std::int64_t taken = static_cast<std::int64_t>(std::ceil(options_.ratio * total)) - before;
  if (!is_part || taken <= 0 || taken >= last.elements.count) return;
  UpdatedTensor rest = last;
  rest.elements = Elements(last.elements.count - taken);
  rest.shape = {rest.elements.count};
  last.elements = Elements(taken);
  last.shape = {taken};
  graph.updates.insert(graph.updates.begin() + static_cast<std::ptrdiff_t>(first), std::move(rest));
}

void OffloadOptimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  cut_at_ratio(graph);
  int group = 0;
  for (const UpdatedTensor& trained : graph.updates) {
    if (trained.updated_by == Executor::kHost) group = std::max(group, trained.update_group + 1);
  }
  std::int64_t in_group = 0;
  const std::size_t first = first_updates(graph);
  for (std::size_t i = 0; i < first; ++i) {
    UpdatedTensor& trained = graph.updates[i];
    if (trained.updated_by == Executor::kHost) continue;  // a policy before this one has placed it
    const bool full = options_.tier == Tier::kNvme
                          ? in_group + trained.elements.count > options_.sub_group.count
                          : options_.overlap;
    if (full && in_group > 0) {
      ++group;
      in_group = 0;
    }
    in_group += trained.elements.count;
    trained.updated_by = Executor::kHost;
    trained.update_group = group;
    trained.state_home = options_.tier;
    if (options_.streams_gradients) graph.storages[trained.gradient].home = Tier::kHost;
    if (options_.delayed) delay(graph, trained);
  }
}

// Makes the host update weights of its own. The model's become those of the update before, which
// has run beside forward and backward, just ahead of the next.
void OffloadOptimizer::delay(TrainingGraph& graph, UpdatedTensor& trained) {
  Storage next = graph.storages[trained.weights];
  next.role = Role::kOptimizerState;
  next.layer = trained.layer;
  next.home = Tier::kHost;
  next.name = trained.name + ".next";
  trained.updated = graph.storages.push_back(std::move(next));
  const std::array<Touch, 2> touches{
      {{trained.updated, Access::kRead}, {trained.weights, Access::kOverwrite}}};
  Operator op{.name = "delayed_update",
              .part = OperatorPart::kUpdate,
              .phase = Phase::kOptimizer,
              .executor = Executor::kHost,
              .layer = trained.layer};
  graph.part(PartKind::kOptimizer).push_back(graph.add_operator(std::move(op), touches));
}

void OffloadOptimizer::plan_movement(const PolicyContext& context, ResidencyPlan& plan) const {
  PolicyOutcome& outcome = plan.outcome();
  const std::size_t first = first_updates(context.graph);
  for (std::size_t i = 0; i < first; ++i) {
    const UpdatedTensor& trained = context.graph.updates[i];
    const bool streamed = context.graph.storages[trained.gradient].home == Tier::kHost;
    const bool delayed = trained.updated != trained.weights;
    const bool as_asked = trained.state_home == options_.tier &&
                          streamed == options_.streams_gradients && delayed == options_.delayed;
    ++(as_asked ? outcome.decided : outcome.contested);
  }
  for (const Storage& storage : context.graph.storages) {
    const bool state = storage.role == Role::kOptimizerState && storage.home != Tier::kDevice;
    if (state && outcome.decided > 0) outcome.offloaded += storage.bytes;
  }
  if (options_.streams_gradients) keep_incomplete(context, plan);
  if (options_.tier == Tier::kNvme) double_buffer(context, plan);
}

// Keeps a gradient on the device until backward has completed it: that of a tied weight is added to
// on the way.
void OffloadOptimizer::keep_incomplete(const PolicyContext& context, ResidencyPlan& plan) {
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    const Storage& storage = context.graph.storages[gap.storage];
    if (!gap.open() || storage.role != Role::kGradient || storage.home == Tier::kDevice) continue;
    const Occurrence& from = context.order.at[gap.from];
    const Occurrence& to = context.order.at[gap.to];
    if (from.step != to.step || from.micro_batch != to.micro_batch) continue;
    if (context.op_at(gap.to).phase != Phase::kBackward) continue;
    plan.decide(id, Keep{.reason = "backward has not completed it"});
  }
}

// Reads a group's state when the update of the group before it is issued; the host waits with the
// next one until at most one group is being written.
void OffloadOptimizer::double_buffer(const PolicyContext& context, ResidencyPlan& plan) const {
  IdVector<Position, Position> before(context.order.at.size());  // the host operator before it
  Position last;
  std::map<OperatorId, int> states;  // by host operator: the states of its group that it changes
  for (Position p : ids_of(context.order.at)) {
    const OperatorId op = context.order.at[p].op;
    if (context.graph.operators[op].executor != Executor::kHost) continue;
    before[p] = last;
    last = p;
    int& count = states[op] = 0;
    for (const Touch& touch : context.graph.touches_of(op)) {
      const Storage& storage = context.graph.storages[touch.storage];
      if (touch.access != Access::kRead && storage.home == Tier::kNvme) ++count;
    }
  }
  int largest = 0;
  for (const auto& [op, count] : states)
    largest = std::max(largest, count);
  if (largest == 0) return;
  plan.throttle({.stream = Stream::kNvmeWrite,
                 .in_flight = options_.overlap ? largest : 0,
                 .waits = Throttle::Waits::kHost});
  if (!options_.overlap) return;
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.open() || context.graph.storages[gap.storage].home != Tier::kNvme) continue;
    const Position fetch_at = before[gap.to];
    if (!fetch_at.valid() || fetch_at <= gap.release) continue;
    // The first group of a step is read when the step begins, not a whole step ahead.
    if (context.order.at[fetch_at].step != context.order.at[gap.to].step) continue;
    plan.decide(id, Offload{.fetch_at = fetch_at, .release_at = {}, .tier = Tier::kNvme});
  }
}

}  // namespace
}  // namespace offload_optimizer_detail

std::unique_ptr<TrainingRewrite> make_offload_optimizer(const OffloadOptimizerOptions& options) {
  return std::make_unique<offload_optimizer_detail::OffloadOptimizer>(options);
}

const PolicyEntry& offload_optimizer_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_optimizer",
      .kind = "training rewrite",
      .summary =
          "keep the optimizer state of the first `ratio` of the elements in host memory or on "
          "NVMe and update them on the CPU; `delayed` by a step, beside forward and backward",
      .source =
          "ZeRO-Offload (Ren et al. 2021), DeepSpeed Twin-Flow and pipelined_optimizer_swapper, "
          "Megatron-Core HybridDeviceOptimizer",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return make_offload_optimizer(offload_optimizer_detail::decode_options(d));
      }};
  return kEntry;
}

}  // namespace tidemark
