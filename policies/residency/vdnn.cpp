#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "graph/ir/convolutions.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/memory_curve.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace vdnn_detail {
namespace {

enum class VdnnLayers : std::uint8_t { kAll, kConv, kDynamic };

// A forward operator of one micro-batch as vDNN sees it: a layer with an input X.
struct Layer {
  Position backward_begin;  // invalid where nothing is differentiated
  bool convolution = false;
  std::vector<SavedGap> inputs;  // inputs that move
  bool prefetched = false;
};

// The layers of a step. Operators of one autograd node are one layer; cost graphs have no nodes.
class StepLayers {
 public:
  explicit StepLayers(const PolicyContext& context)
      : context_(context),
        micro_batches_(static_cast<std::size_t>(context.order.steps) *
                       static_cast<std::size_t>(context.order.micro_batches)),
        of_node_(micro_batches_.size()),
        layer_at_(context.order.at.size(), kNone),
        convolution_input_(context.graph.storages.size(), kNone) {
    for (Position p : ids_of(context.order.at)) {
      const Occurrence& occurrence = context.order.at[p];
      const Operator& op = context.op_at(p);
      if (occurrence.recompute || op.phase == Phase::kOptimizer) continue;
      const std::size_t micro_batch = micro_batch_index(context, occurrence);
      if (op.phase == Phase::kBackward) {
        add_backward(p, op, micro_batch);
      } else {
        add_forward(p, op, micro_batch);
      }
    }
  }

  // Adds a saved value to the layer that reads it as its input, if there is one.
  void add_input(const SavedGap& gap, bool convolutions_only) {
    bool is_input = false;  // read by the layer, not made by it
    for (const Touch& touch : context_.graph.touches_of(context_.order.at[gap.from].op)) {
      is_input |= touch.storage == gap.storage && touch.access != Access::kCreate;
    }
    const bool convolution = convolution_input_[gap.storage] != kNone;
    if (!is_input || (convolutions_only && !convolution)) return;
    const std::size_t layer =
        convolutions_only ? convolution_input_[gap.storage] : layer_at_[gap.from];
    if (layer == kNone) return;
    Layer& owner = micro_batches_[gap.micro_batch][layer];
    owner.inputs.push_back(gap);
    // A layer whose own backward does not need X still has its turn when X is needed.
    if (!owner.backward_begin.valid()) owner.backward_begin = gap.to;
  }

  [[nodiscard]] std::vector<std::vector<Layer>> by_micro_batch() && {
    return std::move(micro_batches_);
  }

 private:
  static constexpr auto kNone = std::numeric_limits<std::size_t>::max();

  void add_forward(Position p, const Operator& op, std::size_t micro_batch) {
    std::size_t layer = op.node.valid() ? slot(micro_batch, op.node) : kNone;
    if (layer == kNone) {
      layer = micro_batches_[micro_batch].size();
      micro_batches_[micro_batch].emplace_back();
      if (op.node.valid()) slot(micro_batch, op.node) = layer;
    }
    layer_at_[p] = layer;
    if (!is_convolution(op.work.op_class)) return;
    micro_batches_[micro_batch][layer].convolution = true;
    for (const Touch& touch : context_.graph.touches_of(context_.order.at[p].op)) {
      if (touch.access == Access::kRead) convolution_input_[touch.storage] = layer;
    }
  }

  void add_backward(Position p, const Operator& op, std::size_t micro_batch) {
    if (!op.node.valid()) return;
    const std::size_t layer = slot(micro_batch, op.node);
    if (layer != kNone && !micro_batches_[micro_batch][layer].backward_begin.valid()) {
      micro_batches_[micro_batch][layer].backward_begin = p;
    }
  }

  // Returns the place of a node's layer in the list of layers; kNone: the node has none yet.
  std::size_t& slot(std::size_t micro_batch, NodeId node) {
    if (node.index() >= of_node_[micro_batch].size())
      of_node_[micro_batch].resize(node.index() + 1, kNone);
    return of_node_[micro_batch][node.index()];
  }

  const PolicyContext& context_;
  std::vector<std::vector<Layer>> micro_batches_;
  std::vector<std::vector<std::size_t>> of_node_;
  IdVector<Position, std::size_t> layer_at_;
  IdVector<StorageId, std::size_t> convolution_input_;  // the layer that convolves a storage
};

// The input X of a layer leaves while the layer runs; compute waits for the copy at the layer's end
// and frees. When the backward of a layer begins, one earlier layer's X is fetched: the first with
// an X on the host, searching down to the next convolution; compute waits for it at the layer's
// end.
//
//   compute   F1(X1)     F2(X2)     ...  B3         B2(X2)
//   d2h       <X1> wait  <X2> wait
//   h2d                                  <X2>       <X1>
//
//   all    X of every layer       conv   X of convolutions only
//   dyn    the first of none, conv and all whose peak fits the budget. vDNN's choice of convolution
//          algorithms is not part of it.
class Vdnn final : public PrefetchingPolicy {
 public:
  Vdnn(Prefetch prefetch, VdnnLayers layers, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), layers_(layers), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "vdnn"; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (layers_ != VdnnLayers::kDynamic) {
      decide(context, layers_ == VdnnLayers::kConv, plan);
      return;
    }
    const Bytes budget = fetching().budget.value_or(device_budget(context));
    if (peak_of(context, plan) <= budget) return;
    ResidencyPlan convolutions = plan;
    decide(context, true, convolutions);
    decide(context, peak_of(context, convolutions) <= budget, plan);
  }

 private:
  // Returns the peak of live bytes where a budget is given, of what the allocator reserves where
  // the device is the limit.
  [[nodiscard]] Bytes peak_of(const PolicyContext& context, const ResidencyPlan& plan) const {
    if (context.trial == nullptr) return MemoryCurve(context, plan).peak();
    const TrialFigures figures = context.trial->run(plan);
    return fetching().budget ? figures.peak_live : figures.peak_reserved;
  }

  void decide(const PolicyContext& context, bool convolutions_only, ResidencyPlan& plan) const {
    std::vector<std::vector<Layer>> micro_batches = layers_of(context, convolutions_only);
    std::vector<Departure> departures;
    for (std::vector<Layer>& micro_batch : micro_batches)
      depart(micro_batch, departures);
    if (fetching().rule == PrefetchRule::kOwn) wait_at_layer_ends(micro_batches, plan);
    place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }
  // Makes each layer's end wait until the copies that the layer has fetched are over: at most one
  // layer's X is in flight.
  static void wait_at_layer_ends(const std::vector<std::vector<Layer>>& micro_batches,
                                 ResidencyPlan& plan) {
    std::size_t most = 0;
    for (const std::vector<Layer>& micro_batch : micro_batches) {
      for (const Layer& layer : micro_batch)
        most = std::max(most, layer.inputs.size());
    }
    if (most == 0) return;
    plan.throttle({.stream = Stream::kCopyIn,
                   .in_flight = static_cast<int>(most) - 1,
                   .waits = Throttle::Waits::kCompute});
  }

  [[nodiscard]] std::vector<std::vector<Layer>> layers_of(const PolicyContext& context,
                                                          bool convolutions_only) const;

  static void depart(std::vector<Layer>& layers, std::vector<Departure>& departures) {
    const auto fetch = [&](Layer& layer, Position at) {
      layer.prefetched = true;
      for (const SavedGap& gap : layer.inputs) {
        departures.push_back(
            {.gap = gap, .release_at = Position(gap.release.value + 1), .fetch_at = at});
      }
    };
    for (std::size_t n = layers.size(); n-- > 0;) {
      const Position now = layers[n].backward_begin;
      if (!now.valid()) continue;
      if (!layers[n].prefetched) fetch(layers[n], now);
      for (std::size_t m = n; m-- > 0;) {
        if (!layers[m].inputs.empty() && !layers[m].prefetched) {
          fetch(layers[m], now);
          break;
        }
        if (layers[m].convolution) break;
      }
    }
  }

  VdnnLayers layers_;
  Bytes min_bytes_;
};

std::vector<std::vector<Layer>> Vdnn::layers_of(const PolicyContext& context,
                                                bool convolutions_only) const {
  StepLayers layers(context);
  for (const SavedGap& gap : saved_gaps(context, min_bytes_))
    layers.add_input(gap, convolutions_only);
  return std::move(layers).by_micro_batch();
}

constexpr std::array<std::string_view, 3> kLayers{"all", "conv", "dyn"};

}  // namespace
}  // namespace vdnn_detail

const PolicyEntry& vdnn_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "vdnn",
      .kind = "residency",
      .summary =
          "copy the inputs of all `layers`, or of convolutions (conv), to page-locked host memory "
          "layer by layer; dyn moves as little as fits the budget",
      .source = "Rhu et al. 2016, vDNN (arXiv 1602.08124)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const std::string layers = d.optional_word("layers", vdnn_detail::kLayers, "all");
        const Prefetch prefetch = decode_prefetch(d);
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        const vdnn_detail::VdnnLayers which = layers == "all" ? vdnn_detail::VdnnLayers::kAll
                                              : layers == "conv"
                                                  ? vdnn_detail::VdnnLayers::kConv
                                                  : vdnn_detail::VdnnLayers::kDynamic;
        return std::make_unique<vdnn_detail::Vdnn>(prefetch, which, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
