// Quantisation-aware training: weights and activations are rounded in forward and trained in full
// precision.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/operators/pointwise/fake_quantise.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/adapt/entries.hpp"
#include "policies/adapt/product_weights.hpp"

namespace tidemark {
namespace qat_detail {
namespace {

struct QatOptions {
  NamePatterns patterns;
  bool weights = true;
  bool activations = true;
  // Activations are rounded where a layer reads them, rather than the model's inputs and what the
  // layers make.
  bool at_inputs = false;
};

// FakeQuantize's buffers: scale, zero point, two switches of a byte, and the observer's minimum,
// maximum and epsilon; one of the first two and of the extremes per channel.
std::int64_t observer_bytes(std::int64_t channels) {
  constexpr std::int64_t kPerChannel = std::int64_t{4} * 4;
  constexpr std::int64_t kOnce = 2 + 4;
  return channels * kPerChannel + kOnce;
}

class FakeQuantisation {
 public:
  FakeQuantisation(const Graph& graph, const QatOptions& options)
      : options_(options), weights_(product_weights(graph, options.patterns, "qat")) {
    rounded_.assign(graph.tensors.size(), TensorId());
  }

  void rewrite(GraphCopy& copy, NodeId id) {
    const Node& node = copy.source().nodes[id];
    std::vector<TensorId> inputs = copy.inputs_of(id);
    const bool chosen = multiplies_weight(node) && weights_[node.inputs[kProductWeight]].valid();
    if (options_.activations && !options_.at_inputs) round_inputs(copy, node, inputs);
    if (chosen) {
      const TensorId weight = inputs[kProductWeight];
      const int out = node.attributes.flag("transposed_weight") ? 1 : 0;
      const std::int64_t channels = copy.result().tensors[weight].shape[out];
      if (options_.activations && options_.at_inputs) {
        inputs[0] = round(copy, node.layer, inputs[0], 1, "activation");
      }
      if (options_.weights) {
        inputs[kProductWeight] = round(copy, node.layer, weight, channels, "weight");
      }
    }
    const NodeId kept = copy.keep(id, std::move(inputs), node.attributes);
    if (chosen && options_.activations && !options_.at_inputs) {
      const TensorId result = copy.result().output(kept);
      copy.replace(id, std::vector<TensorId>{round(copy, node.layer, result, 1, "activation")});
    }
  }

 private:
  // A QuantStub rounds an input of the model once, for all its readers.
  void round_inputs(GraphCopy& copy, const Node& node, std::vector<TensorId>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      const Tensor tensor = copy.result().tensors[inputs[i]];
      const bool is_input = copy.result().storages[tensor.storage].role == Role::kInput;
      if (!is_input || !is_floating(tensor.dtype)) continue;
      TensorId& rounded = rounded_[node.inputs[i]];
      if (!rounded.valid()) rounded = round(copy, LayerId(), inputs[i], 1, "input");
      inputs[i] = rounded;
    }
  }

  TensorId round(GraphCopy& copy, LayerId layer, TensorId x, std::int64_t channels,
                 std::string_view what) {
    Graph& graph = copy.result();
    const std::string owner = layer.valid() ? graph.layers[layer].name + "." : std::string();
    const TensorId state =
        graph.add_buffer(fmt::format("{}{}_fake_quant_{}", owner, what, count_++),
                         {observer_bytes(channels)}, DType::kBool, layer);
    return graph.output(graph.add_node(fake_quantise_family(), {x, state}, {}, layer));
  }

  const QatOptions& options_;
  IdVector<TensorId, ParameterId> weights_;
  IdVector<TensorId, TensorId> rounded_;  // by input of the source
  int count_ = 0;
};

class Qat final : public ForwardRewrite {
 public:
  explicit Qat(QatOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string_view name() const override { return "qat"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kAdapt; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& /*context*/) const override {
    FakeQuantisation rounding(graph, options_);
    return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) { rounding.rewrite(copy, id); });
  }

 private:
  QatOptions options_;
};

}  // namespace
}  // namespace qat_detail

const PolicyEntry& qat_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "qat",
      .kind = "forward rewrite",
      .summary = "rounds weights and activations in forward as quantisation would; adds memory",
      .source = "torch.ao.quantization (FakeQuantize); torchao's QAT linears",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        static constexpr std::array<std::string_view, 3> kTypes = {"int8", "int4", "none"};
        static constexpr std::array<std::string_view, 2> kPlaces = {"outputs", "inputs"};
        qat_detail::QatOptions options{.patterns = decode_patterns(d)};
        options.weights = d.optional_word("weights", kTypes, kTypes[0]) != kTypes[2];
        options.activations = d.optional_word("activations", kTypes, kTypes[0]) != kTypes[2];
        // prepare_qat() of a whole model rounds what modules return; layers that are replaced one
        // by one round what they are given.
        const std::string_view standard = d.has("layers") ? kPlaces[1] : kPlaces[0];
        options.at_inputs = d.optional_word("observe", kPlaces, standard) == kPlaces[1];
        if (!options.weights && !options.activations) {
          d.fail_at("activations", "neither weights nor activations are rounded; leave qat out");
        }
        d.finish();
        return std::make_unique<qat_detail::Qat>(std::move(options));
      }};
  return kEntry;
}

}  // namespace tidemark
