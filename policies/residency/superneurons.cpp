#include <algorithm>

#include "graph/ir/convolutions.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/recipe.hpp"
#include "policies/residency/swap_window.hpp"
#include "policies/residency/within_budget.hpp"

namespace tidemark {
namespace superneurons_detail {
namespace {

// Operators that are too expensive to recompute: convolutions, and the products that SuperNeurons
// calls FC.
bool is_expensive(OperatorClass c) {
  return is_convolution(c) || c == OperatorClass::kMatmul || c == OperatorClass::kAttention;
}

// The output of convolutions moves to the host (unified tensor pool) and comes back during the
// backward of the convolution after it. With the tensor cache it stays on the device while there is
// room: when live bytes would pass the budget the least recently used one leaves, and compute waits
// for its copy. Backward reads the last used ones first, which an LRU cache keeps. Without the
// cache each leaves as soon as forward has done with it.
//
// The results of cheap layers between two expensive ones are recomputed:
//   speed-centric   a segment's values together, before its first backward, and kept: where they
//                   take no more than the largest layer needs anyway (l_peak);
//   memory-centric  each value alone, before its own use: elsewhere.
// The peak goes towards that of the largest layer.
class SuperNeurons final : public PrefetchingPolicy {
 public:
  SuperNeurons(Prefetch prefetch, bool tensor_cache, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), tensor_cache_(tensor_cache), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "superneurons"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    // Segments are numbered by the expensive operators before them.
    IdVector<Position, std::uint32_t> segment_at(context.order.at.size(), 0);
    std::uint32_t segment = 0;
    for (Position p : ids_of(context.order.at)) {
      if (is_expensive(context.op_at(p).work.op_class)) ++segment;
      segment_at[p] = segment;
    }
    std::vector<std::vector<SavedGap>> segments(segment + 1);
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      const Position made = creator_of(context, gap.id);
      if (plan.decided(gap.id) || !made.valid()) continue;
      if (is_expensive(context.op_at(made).work.op_class)) continue;
      segments[segment_at[made]].push_back(gap);
    }
    const std::int64_t largest_layer = largest(context);
    for (const std::vector<SavedGap>& cheap : segments)
      recompute(context, segment_at, cheap, largest_layer, plan);
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const std::vector<Departure> outputs = convolution_outputs(context);
    if (!tensor_cache_) {
      decide(context, fetching(), outputs, plan);
      return;
    }
    arrange_within(context, fetching().budget, plan, [&](Bytes budget, ResidencyPlan& tried) {
      Prefetch prefetch = fetching();
      prefetch.budget = budget;
      decide(context, prefetch, leaving_cache(context, tried, outputs, budget), tried);
    });
  }

 private:
  // Returns the outputs with their fetches: when the backward of the convolution after each begins.
  [[nodiscard]] std::vector<Departure> convolution_outputs(const PolicyContext& context) const {
    std::vector<Departure> outputs;
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      const Position made = creator_of(context, gap.id);
      if (!made.valid() || !is_convolution(context.op_at(made).work.op_class)) continue;
      outputs.push_back({.gap = gap, .release_at = {}, .fetch_at = gap.to});
    }
    // Positions where the backward of convolutions begins, by micro-batch index.
    std::vector<std::vector<Position>> begins(
        static_cast<std::size_t>(context.order.steps) *
        static_cast<std::size_t>(context.order.micro_batches));
    NodeId last;
    for (Position p : ids_of(context.order.at)) {
      const Operator& op = context.op_at(p);
      const bool convolution = op.work.op_class == OperatorClass::kConvolutionBackwardData ||
                               op.work.op_class == OperatorClass::kConvolutionBackwardWeight;
      if (convolution && (!op.node.valid() || op.node != last)) {
        begins[micro_batch_index(context, context.order.at[p])].push_back(p);
      }
      if (convolution) last = op.node;
    }
    for (Departure& d : outputs) {
      const std::vector<Position>& micro_batch = begins[d.gap.micro_batch];
      const auto next = std::lower_bound(micro_batch.begin(), micro_batch.end(), d.gap.to);
      if (next != micro_batch.begin()) d.fetch_at = *(next - 1);
    }
    return outputs;
  }

  // Returns the outputs that an LRU cache of `budget` live bytes does not hold, each from the time
  // when its room is needed. Those that come back wait until there is room, at most until their
  // use.
  static std::vector<Departure> leaving_cache(const PolicyContext& context,
                                              const ResidencyPlan& plan,
                                              std::vector<Departure> cached, Bytes budget) {
    std::erase_if(cached, [&](const Departure& d) { return plan.decided(d.gap.id); });
    std::stable_sort(cached.begin(), cached.end(), [](const Departure& a, const Departure& b) {
      return a.gap.from < b.gap.from;
    });
    MemoryCurve curve(context, plan);
    std::vector<Departure> leaving;
    for (Position p : ids_of(context.order.at)) {
      for (auto d = cached.begin(); curve.at(p) > budget && d != cached.end();) {
        if (d->gap.from >= p) break;
        const bool can_leave = d->gap.release < p && std::max(d->fetch_at, p) < d->gap.to;
        if (!can_leave) {
          ++d;
          continue;
        }
        d->release_at = p;
        d->fetch_at = std::max(d->fetch_at, Position(p.value + 1));
        take_off(*d, curve);
        leaving.push_back(*d);
        d = cached.erase(d);
      }
    }
    for (Departure& d : leaving) {
      const Position room = curve.earliest_fit(d.fetch_at, d.gap.to, Bytes(0), budget);
      curve.add(d.fetch_at, room, -d.gap.bytes);
      d.fetch_at = room;
    }
    return leaving;
  }

  static void decide(const PolicyContext& context, const Prefetch& prefetch,
                     std::vector<Departure> departures, ResidencyPlan& plan) {
    place_fetches(context, plan, prefetch, departures);
    decide_offloads(context, departures, plan);
  }

  // Returns the bytes that the largest layer touches while it runs.
  static std::int64_t largest(const PolicyContext& context) {
    std::int64_t peak = 0;
    for (OperatorId id : ids_of(context.graph.operators)) {
      const Operator& op = context.graph.operators[id];
      if (op.phase == Phase::kOptimizer) continue;
      std::int64_t bytes = op.workspace.count;
      for (const Touch& touch : context.graph.touches_of(id))
        bytes += context.graph.storages[touch.storage].bytes.count;
      peak = std::max(peak, bytes);
    }
    return peak;
  }

  // Whether a value cannot be made from within its segment, so that it stays: a sum over blocks
  // would run the blocks before it again.
  static bool stays_inside(const PolicyContext& context,
                           const IdVector<Position, std::uint32_t>& segment_at,
                           const RecomputeRecipe& recipe) {
    return std::all_of(recipe.positions.begin(), recipe.positions.end(), [&](Position p) {
      return segment_at[p] == segment_at[recipe.positions.back()] &&
             !is_expensive(context.op_at(p).work.op_class);
    });
  }

  static void recompute(const PolicyContext& context,
                        const IdVector<Position, std::uint32_t>& segment_at,
                        const std::vector<SavedGap>& cheap, std::int64_t largest_layer,
                        ResidencyPlan& plan) {
    // Values of the segment may be read by each other's recipes, so all are marked first.
    ResidencyPlan marked = plan;
    std::vector<SavedGap> dropped;
    std::int64_t bytes = 0;
    for (const SavedGap& gap : cheap) {
      const std::optional<RecomputeRecipe> recipe = recipe_of(context, marked, gap);
      if (!recipe || !stays_inside(context, segment_at, *recipe)) continue;
      if (!marked.decide(gap.id, Recompute{.group = marked.add_group({})})) continue;
      dropped.push_back(gap);
      bytes += gap.bytes.count;
    }
    std::vector<RecomputeRecipe> recipes;
    for (const SavedGap& gap : dropped) {
      const std::optional<RecomputeRecipe> recipe = recipe_of(context, marked, gap);
      if (!recipe) return;  // needs more than a recipe may hold: the segment is kept
      recipes.push_back(*recipe);
    }
    if (dropped.empty()) return;
    if (bytes > largest_layer) {
      for (std::size_t i = 0; i < dropped.size(); ++i)
        decide_recompute(dropped[i], recipes[i], plan);
      return;
    }
    std::vector<Position> together;
    for (const RecomputeRecipe& recipe : recipes)
      together.insert(together.end(), recipe.positions.begin(), recipe.positions.end());
    std::sort(together.begin(), together.end());
    together.erase(std::unique(together.begin(), together.end()), together.end());
    const GroupId group = plan.add_group({.recipe = std::move(together), .kept = {}});
    for (const SavedGap& gap : dropped)
      plan.decide(gap.id, Recompute{.group = group});
  }

  bool tensor_cache_;
  Bytes min_bytes_;
};

}  // namespace
}  // namespace superneurons_detail

const PolicyEntry& superneurons_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "superneurons",
      .kind = "residency",
      .summary =
          "recompute what cheap layers between convolutions leave, together where it fits beside "
          "the "
          "largest layer, and copy the outputs of convolutions to page-locked host memory: what a "
          "`tensor_cache` of the `budget`, or of the device, cannot hold, or all without it",
      .source = "Wang et al. 2018, SuperNeurons (arXiv 1801.04380)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d);
        const bool tensor_cache = d.optional<bool>("tensor_cache", true);
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<superneurons_detail::SuperNeurons>(prefetch, tensor_cache,
                                                                   min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
