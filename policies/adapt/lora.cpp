// Low-rank adapters beside frozen layers, as Hugging Face's peft adds them.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/autodiff/evaluate.hpp"
#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/adapt/entries.hpp"
#include "policies/adapt/lora_sites.hpp"

namespace tidemark {
namespace lora_detail {
namespace {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

// Returns the last parameter of a layer's own module that its node reads, behind which peft
// registers the adapter's: base_layer comes first in its layers. None where the module reads
// another's, as a tied head does.
ParameterId last_read_of(const GraphCopy& copy, NodeId node, LayerId layer) {
  const Graph& source = copy.source();
  ParameterId last;
  for (const TensorId in : source.nodes[node].inputs) {
    if (!in.valid()) continue;
    const ParameterId id = copy.parameter_of(in);
    if (!id.valid() || source.parameters[id].layer != layer) continue;
    if (!last.valid() || last < id) last = id;
  }
  return last;
}

ParameterId last_of(const Graph& source, LayerId layer) {
  ParameterId last;
  for (const ParameterId id : ids_of(source.parameters)) {
    if (source.parameters[id].layer == layer) last = id;
  }
  return last;
}

// Puts an adapter beside each chosen module:
//
//   x ----------------- W (frozen) ------ + -- y
//     \- dropout -- A -- B -- times s ---/
class AdaptedNodes {
 public:
  AdaptedNodes(const LoraOptions& options, const LoraSites& sites)
      : options_(options), sites_(sites) {}

  void freeze(GraphCopy& copy) const;
  void rewrite(GraphCopy& copy, NodeId id);

 private:
  // A node that is being adapted: its layer, its inputs in the copy, and the result of the base.
  struct Site {
    NodeId id;
    LayerId layer;
    std::string module;
    std::vector<TensorId> inputs;
    TensorId base;
    std::vector<std::int64_t> parts;  // widths of a fused projection's results; empty for others
  };
  struct Adapter {
    TensorId down;
    TensorId up;
    TensorId magnitude;
  };

  TensorId add(GraphCopy& copy, const Site& site, const OperatorFamily& family,
               std::vector<TensorId> inputs, Attributes attributes = {}) const {
    const NodeId node =
        copy.result().add_node(family, std::move(inputs), std::move(attributes), site.layer);
    return copy.result().output(node);
  }
  TensorId add(GraphCopy& copy, const Site& site, std::string_view family,
               std::vector<TensorId> inputs, Attributes attributes = {}) const {
    return add(copy, site, *find_family(family), std::move(inputs), std::move(attributes));
  }
  TensorId cast(GraphCopy& copy, const Site& site, TensorId x, DType dtype,
                bool restores = false) const;
  const Adapter& adapter_of(GraphCopy& copy, const Site& site);
  [[nodiscard]] std::pair<Shape, Shape> shapes_of(const GraphCopy& copy, const Site& site) const;
  TensorId low_rank(GraphCopy& copy, const Site& site, const Adapter& adapter, TensorId x) const;
  TensorId low_rank_of_parts(GraphCopy& copy, const Site& site, const Adapter& adapter,
                             TensorId x) const;
  TensorId decomposed(GraphCopy& copy, const Site& site, const Adapter& adapter, TensorId x,
                      TensorId delta) const;
  [[nodiscard]] std::vector<TensorId> inputs_of(GraphCopy& copy, NodeId id);
  void require_input_gradient(GraphCopy& copy, NodeId id);

  const LoraOptions& options_;
  const LoraSites& sites_;
  std::map<TensorId, Adapter> adapters_;       // by weight of the source
  std::map<TensorId, TensorId> saved_copies_;  // parameters of the source and their trained copies
};

void AdaptedNodes::freeze(GraphCopy& copy) const {
  for (ParameterId id : ids_of(copy.source().parameters)) {
    if (!sites_.biases.contains(id)) copy.freeze_root(copy.source().parameters[id].tensor);
  }
}

TensorId AdaptedNodes::cast(GraphCopy& copy, const Site& site, TensorId x, DType dtype,
                            bool restores) const {
  if (copy.result().tensors[x].dtype == dtype) return x;
  Attributes attributes{{"dtype", std::string(name_of(dtype))}};
  if (restores) attributes.set("restores_type", std::int64_t{1});
  return add(copy, site, "cast", {x}, std::move(attributes));
}

// Returns the shapes of A and B. A convolution is adapted by one with its kernel and one of 1 x 1.
std::pair<Shape, Shape> AdaptedNodes::shapes_of(const GraphCopy& copy, const Site& site) const {
  const Node& node = copy.source().nodes[site.id];
  const Shape& weight = copy.source().tensors[node.inputs[kWeight]].shape;
  if (node.family == &embedding_family())
    return {{options_.rank, weight[0]}, {weight[1], options_.rank}};
  if (node.family == &linear_family()) {
    const bool transposed = node.attributes.flag("transposed_weight");
    const std::int64_t in = weight[transposed ? 0 : 1];
    if (site.parts.empty())
      return {{options_.rank, in}, {weight[transposed ? 1 : 0], options_.rank}};
    std::int64_t rows = 0;
    for (const std::size_t part : options_.parts)
      rows += site.parts[part];
    return {{options_.rank * static_cast<std::int64_t>(options_.parts.size()), in},
            {rows, options_.rank}};
  }
  Shape down = weight;
  down[0] = options_.rank;
  Shape up = weight;
  up[1] = options_.rank;
  for (int axis = 2; axis < up.rank(); ++axis)
    up[axis] = 1;
  return {down, up};
}

const AdaptedNodes::Adapter& AdaptedNodes::adapter_of(GraphCopy& copy, const Site& site) {
  const auto [known, added] = adapters_.try_emplace(copy.source().nodes[site.id].inputs[kWeight]);
  if (!added) return known->second;
  const auto [down, up] = shapes_of(copy, site);
  Adapter& adapter = known->second;
  const auto weight = [&](std::string_view part, const Shape& shape) {
    return copy.add_adapter(fmt::format("{}.{}", site.module, part), shape, options_.dtype,
                            site.layer, last_read_of(copy, site.id, site.layer));
  };
  adapter.down = weight("lora_A.default.weight", down);
  adapter.up = weight("lora_B.default.weight", up);
  if (options_.dora) adapter.magnitude = weight("lora_magnitude_vector.default.weight", {up[0]});
  return adapter;
}

// Returns B(A(x)), which has not been scaled.
TensorId AdaptedNodes::low_rank(GraphCopy& copy, const Site& site, const Adapter& adapter,
                                TensorId x) const {
  const Node& node = copy.source().nodes[site.id];
  const Attributes up{{"adapter", std::string("up")}};
  if (!site.parts.empty()) return low_rank_of_parts(copy, site, adapter, x);
  if (node.family == &embedding_family()) {
    const TensorId rows = add(copy, site, "transpose", {adapter.down});
    return add(copy, site, "linear", {add(copy, site, "embedding", {x, rows}), adapter.up}, up);
  }
  if (node.family == &linear_family()) {
    const TensorId narrow =
        add(copy, site, "linear", {x, adapter.down}, {{"adapter", std::string("down")}});
    return add(copy, site, "linear", {narrow, adapter.up}, up);
  }
  return add(copy, site, *node.family,
             {add(copy, site, *node.family, {x, adapter.down}, node.attributes), adapter.up});
}

// litgpt's LoRAQKVLinear (loralib's MergedLinear): a product with A for all parts, one with B for
// each, and index_copy into zeros where a part has none.
TensorId AdaptedNodes::low_rank_of_parts(GraphCopy& copy, const Site& site, const Adapter& adapter,
                                         TensorId x) const {
  Graph& graph = copy.result();
  const auto split = [&](TensorId whole, const std::vector<std::int64_t>& sizes, int axis) {
    return graph
        .nodes[graph.add_node(split_family(), {whole},
                              {{"sizes", sizes}, {"axis", std::int64_t{axis}}}, site.layer)]
        .outputs;
  };
  const TensorId narrow =
      add(copy, site, "linear", {x, adapter.down}, {{"adapter", std::string("down")}});
  const int last = graph.tensors[narrow].shape.rank() - 1;
  std::vector<std::int64_t> widths;
  for (const std::size_t part : options_.parts)
    widths.push_back(site.parts[part]);
  const std::vector<TensorId> inputs =
      split(narrow, std::vector<std::int64_t>(widths.size(), options_.rank), last);
  const std::vector<TensorId> ups = split(adapter.up, widths, 0);
  std::vector<TensorId> deltas;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    deltas.push_back(
        add(copy, site, "linear", {inputs[i], ups[i]}, {{"adapter", std::string("up")}}));
  }
  const TensorId delta = deltas.size() == 1 ? deltas.front()
                                            : add(copy, site, "cat", deltas,
                                                  {{"axis", static_cast<std::int64_t>(last)}});
  if (widths.size() == site.parts.size()) return delta;
  const Shape shape = graph.tensors[site.base].shape;
  const std::vector<std::int64_t> extents(shape.begin(), shape.end());
  const TensorId zeros = add(copy, site, "zeros", {},
                             {{"shape", extents}, {"dtype", std::string(name_of(options_.dtype))}});
  const TensorId places =
      add(copy, site, "arange", {}, {{"length", graph.tensors[delta].shape[last]}});
  return add(copy, site, "index_copy", {zeros, places, delta},
             {{"axis", static_cast<std::int64_t>(last)}});
}

// peft's dora.py: (m / norm - 1) base + (m / norm) delta s, of the base's result without its bias.
TensorId AdaptedNodes::decomposed(GraphCopy& copy, const Site& site, const Adapter& adapter,
                                  TensorId x, TensorId delta) const {
  const Node& node = copy.source().nodes[site.id];
  Graph& graph = copy.result();
  const TensorId norm =
      add(copy, site, "adapted_weight_norm", {site.inputs[kWeight], adapter.down, adapter.up});
  const TensorId ratio = add(copy, site, "div", {adapter.magnitude, norm});
  const std::int64_t out = graph.tensors[ratio].shape[0];
  const TensorId row =
      add(copy, site, "view", {ratio}, {{"shape", std::vector<std::int64_t>{1, out}}});
  TensorId base = site.base;
  if (options_.dropout > 0) {  // of the dropped input, by a second product
    std::vector<TensorId> inputs{x, site.inputs[kWeight]};
    inputs[kX] = cast(copy, site, x, graph.tensors[site.inputs[kX]].dtype);
    base = add(copy, site, "linear", std::move(inputs), node.attributes);
  } else if (site.inputs.size() > kBias && site.inputs[kBias].valid()) {
    base = add(copy, site, "sub", {base, site.inputs[kBias]});
  }
  const TensorId rest = add(copy, site, "mul", {add(copy, site, "add_scalar", {row}), base});
  const TensorId scaled = add(copy, site, "scale", {add(copy, site, "mul", {row, delta})});
  return add(copy, site, "add", {rest, scaled});
}

// Nodes of modules_to_save read the trained copies of their parameters.
std::vector<TensorId> AdaptedNodes::inputs_of(GraphCopy& copy, NodeId id) {
  const Graph& source = copy.source();
  std::vector<TensorId> inputs = copy.inputs_of(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorId in = source.nodes[id].inputs[i];
    for (ParameterId saved : sites_.saved) {
      const Parameter& parameter = source.parameters[saved];
      if (parameter.tensor != in || source.nodes[id].layer != parameter.layer) continue;
      const auto [known, added] = saved_copies_.try_emplace(in);
      if (added) {
        // The copy of a module is registered behind all of the original, as a module of its own.
        const std::size_t word = parameter.name.rfind('.') + 1;
        known->second = copy.add_adapter(
            fmt::format("{}modules_to_save.default.{}", parameter.name.substr(0, word),
                        parameter.name.substr(word)),
            parameter.shape, parameter.dtype, parameter.layer, last_of(source, parameter.layer));
      }
      inputs[i] = known->second;
    }
  }
  return inputs;
}

// The embedding of the model's input becomes a leaf, unless it has a gradient already.
void AdaptedNodes::require_input_gradient(GraphCopy& copy, NodeId id) {
  const Graph& source = copy.source();
  const Node& node = source.nodes[id];
  if (node.family != &embedding_family()) return;
  const StorageId indices = source.tensors[node.inputs[kX]].storage;
  if (source.storages[indices].role != Role::kInput) return;
  const TensorId made = copy.at(node.outputs[0]);
  if (copy.result().tensors[made].requires_grad) return;
  const Site site{
      .id = id, .layer = node.layer, .module = {}, .inputs = {}, .base = made, .parts = {}};
  const TensorId leaf = add(copy, site, "require_gradient", {made});
  copy.result().locals.push_back({.tensor = leaf, .until = {}, .leaf = true});
  copy.replace(id, std::array{leaf});
}

void AdaptedNodes::rewrite(GraphCopy& copy, NodeId id) {
  const Node& node = copy.source().nodes[id];
  const auto chosen = sites_.modules.find(id);
  Site site{.id = id,
            .layer = node.layer,
            .module = {},
            .inputs = inputs_of(copy, id),
            .base = {},
            .parts = {}};
  const NodeId kept = copy.keep(id, site.inputs, node.attributes);
  site.base = copy.result().output(kept);
  if (chosen != sites_.modules.end()) {
    site.module = chosen->second;
    if (const auto fused = sites_.fused.find(id); fused != sites_.fused.end())
      site.parts = fused->second;
    const Adapter adapter = adapter_of(copy, site);
    if (options_.merged) return;
    const DType result_type = copy.result().tensors[site.base].dtype;
    const bool is_embedding = node.family == &embedding_family();
    const bool is_4bit = options_.quantised && options_.quantised->format->codes != DType::kInt8;
    if (is_4bit && node.family == &linear_family())
      site.base = add(copy, site, "clone", {site.base});
    TensorId x = site.inputs[kX];
    if (!is_embedding) {
      const TensorId given = x;
      x = cast(copy, site, x, options_.dtype);
      const TensorId converted = x;
      if (options_.dropout > 0) x = add(copy, site, "dropout", {x}, {{"p", options_.dropout}});
      const TensorId delta = low_rank(copy, site, adapter, x);
      const TensorId change = options_.dora && node.family == &linear_family()
                                  ? decomposed(copy, site, adapter, x, delta)
                                  : add(copy, site, "scale", {delta});
      site.base = add(copy, site, "add", {site.base, change});
      if (converted != given)
        copy.result().locals.push_back({converted, NodeId(copy.result().nodes.size() - 1)});
    } else {
      const TensorId delta = low_rank(copy, site, adapter, x);
      site.base = add(copy, site, "add", {site.base, add(copy, site, "scale", {delta})});
    }
    site.base = cast(copy, site, site.base, result_type, true);
    copy.replace(id, std::array{site.base});
  }
  if (options_.input_gradients) require_input_gradient(copy, id);
}

class Lora final : public ForwardRewrite {
 public:
  explicit Lora(LoraOptions options) : options_(std::move(options)) {
    if (options_.quantised) quantise_.emplace(*options_.quantised);
  }
  [[nodiscard]] std::string_view name() const override { return "lora"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kAdapt; }
  // Layers are quantised from weights of 16 bits, the type of what is left beside them.
  [[nodiscard]] std::optional<DType> model_dtype(DType low) const override {
    if (options_.quantised && !options_.quantised->upcasts_rest) return low;
    return options_.base;
  }
  [[nodiscard]] const ForwardRewrite* next() const override {
    return quantise_ ? &*quantise_ : nullptr;
  }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    require_base(graph);
    if (options_.dora && context.mesh.size(MeshDimension::kTensor) > 1) {
      throw UserError({}, "policies.lora.dora",
                      "dora: true takes norms of whole rows, which tensor_parallel cuts; leave one "
                      "of them out");
    }
    if (!options_.parts.empty() && context.mesh.size(MeshDimension::kTensor) > 1) {
      throw UserError(
          {}, "policies.lora.parts",
          "litgpt has no tensor parallelism, and tensor_parallel cuts the projection that "
          "parts are of; leave one of them out");
    }
    const LoraSites sites = find_lora_sites(graph, options_);
    AdaptedNodes nodes(options_, sites);
    GraphCopy copy(graph);
    nodes.freeze(copy);
    Graph result =
        rewrite_graph(copy, [&](GraphCopy& copied, NodeId id) { nodes.rewrite(copied, id); });
    keep_inputs_of_blocks(result);
    return result;
  }

 private:
  void require_base(const Graph& graph) const {
    if (!options_.base) return;
    for (const Parameter& parameter : graph.parameters) {
      if (!is_floating(parameter.dtype) || parameter.dtype == *options_.base) continue;
      throw UserError({}, "policies.lora.base",
                      fmt::format("base: {} contradicts training.precision, which makes the model "
                                  "in {}; leave one of them out",
                                  name_of(*options_.base), name_of(parameter.dtype)));
    }
  }

  LoraOptions options_;
  std::optional<QuantiseLinears> quantise_;
};

}  // namespace
}  // namespace lora_detail

const PolicyEntry& lora_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "lora",
      .kind = "forward rewrite",
      .summary =
          "freezes the model and trains two thin matrices beside each target: LoRA, rsLoRA, DoRA; "
          "base: nf4 and the like keep the frozen weights as codes (QLoRA)",
      .source = "Hugging Face peft; Hu et al. 2021; Dettmers et al. 2023; Liu et al. 2024",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return std::make_unique<lora_detail::Lora>(decode_lora(d));
      },
      .once = true};
  return kEntry;
}

}  // namespace tidemark
