#include "policies/adapt/quantise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/adapters/quantised_linear.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/pointwise/fake_quantise.hpp"
#include "graph/operators/registry.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/maker_of.hpp"
#include "graph/rewrite/packed_weights.hpp"

namespace tidemark {
namespace quantise_detail {
namespace {

constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

bool is_linear(const Node& node) {
  return node.family == &linear_family() && node.inputs[kWeight].valid();
}

// Returns the parameters that only linear layers read, as their weights.
std::set<TensorId> weights_of_linears(const Graph& graph) {
  std::set<TensorId> weights;
  std::set<TensorId> others;
  for (const Node& node : graph.nodes) {
    if (node.family == &adapted_weight_norm_family()) continue;  // dequantises by itself
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool as_weight = i == kWeight && is_linear(node);
      if (node.inputs[i].valid()) (as_weight ? weights : others).insert(node.inputs[i]);
    }
  }
  for (TensorId other : others)
    weights.erase(other);
  return weights;
}

class Quantised {
 public:
  Quantised(const Graph& graph, const QuantiseOptions& options) : options_(options) {
    const std::set<TensorId> weights = weights_of_linears(graph);
    const NodeId head = options.keeps_head ? head_of(graph) : NodeId();
    for (ParameterId id : ids_of(graph.parameters)) {
      const Parameter& parameter = graph.parameters[id];
      const bool is_adapter = graph.storages[parameter.storage].role == Role::kAdapter;
      if (is_adapter || !weights.contains(parameter.tensor)) continue;
      if (head.valid() && graph.nodes[head].inputs[kWeight] == parameter.tensor) continue;
      if (options.patterns.matches(parameter.name)) chosen_.emplace(parameter.tensor, id);
    }
  }

  [[nodiscard]] bool is_empty() const { return chosen_.empty(); }

  void retype_roots(GraphCopy& copy) const {
    for (const Parameter& parameter : copy.source().parameters) {
      const Role role = copy.source().storages[parameter.storage].role;
      const bool narrow = is_floating(parameter.dtype) && bits_of(parameter.dtype) == 16;
      if (chosen_.contains(parameter.tensor)) {
        require_allowed(parameter, weight_of(copy.source(), parameter));
        copy.freeze_root(parameter.tensor);
        copy.retype_root(parameter.tensor, options_.format->codes);
      } else if (options_.upcasts_rest && narrow && role != Role::kAdapter) {
        copy.retype_root(parameter.tensor, DType::kFloat32);
      }
    }
  }

  void rewrite(GraphCopy& copy, NodeId id) {
    const Node& node = copy.source().nodes[id];
    if (is_linear(node) && chosen_.contains(node.inputs[kWeight])) return replace(copy, id);
    Attributes attributes = node.attributes;
    if (options_.upcasts_rest && attributes.flag("restores_type"))
      attributes.set("dtype", std::string(name_of(DType::kFloat32)));
    copy.keep(id, copy.inputs_of(id), std::move(attributes));
  }

  void set_roles(Graph& result) const {
    for (const auto& [tensor, id] : chosen_)
      result.storages[result.parameters[id].storage].role = Role::kQuantisedParameter;
  }

 private:
  [[nodiscard]] QuantisedWeight weight_of(const Graph& graph, const Parameter& parameter) const {
    const Shape& shape = graph.tensors[parameter.tensor].shape;
    return {.rows = shape[0],
            .elements = element_count(shape),
            .block = options_.block,
            .model = parameter.dtype};
  }

  void require_allowed(const Parameter& parameter, const QuantisedWeight& weight) const {
    const std::string reason = refuses(*options_.format, weight);
    if (reason.empty()) return;
    throw UserError({}, fmt::format("policies.{}", options_.policy),
                    fmt::format("{}: {}; leave the layer out by `except`, or use implementation: "
                                "bitsandbytes, which pads the last block",
                                parameter.name, reason));
  }

  void replace(GraphCopy& copy, NodeId id) {
    const Node& node = copy.source().nodes[id];
    const Parameter& parameter = copy.source().parameters[chosen_.at(node.inputs[kWeight])];
    std::vector<TensorId> inputs = copy.inputs_of(id);
    inputs.resize(kBias + 1);
    const auto cast = [&](TensorId tensor, DType dtype) {
      const NodeId made = copy.result().add_node(
          *find_family("cast"), {tensor}, {{"dtype", std::string(name_of(dtype))}}, node.layer);
      return copy.result().output(made);
    };
    const DType given = copy.result().tensors[inputs.front()].dtype;
    const DType computes = options_.compute.value_or(given);
    for (const std::size_t operand : {std::size_t{0}, kBias}) {
      TensorId& input = inputs[operand];
      const bool converts = options_.compute && input.valid();
      if (converts && copy.result().tensors[input].dtype != computes) input = cast(input, computes);
    }
    for (TensorId state : states(copy, parameter, node))
      inputs.push_back(state);
    Attributes attributes = node.attributes;
    attributes.set("format", std::string(options_.format->name));
    attributes.set("library", options_.library);
    attributes.set("block", options_.block);
    if (options_.outliers > 0) {
      const std::int64_t width = copy.source().tensors[node.inputs.front()].shape[-1];
      const double columns = options_.outliers * static_cast<double>(width);
      // A share that was computed may make a whole number of columns a little more than it is.
      attributes.set("outlier_columns", std::int64_t(std::ceil(columns * (1 - 1e-12))));
    }
    const NodeId made = copy.result().add_node(quantised_linear_family(), std::move(inputs),
                                               std::move(attributes), node.layer);
    const TensorId result = copy.result().output(made);
    copy.replace(id, std::array{computes == given ? result : cast(result, given)});
  }

  // A weight that several layers share is quantised once.
  const std::vector<TensorId>& states(GraphCopy& copy, const Parameter& parameter,
                                      const Node& node) {
    const auto [known, added] = states_.try_emplace(parameter.tensor);
    if (!added) return known->second;
    QuantisedWeight weight = weight_of(copy.source(), parameter);
    if (node.attributes.flag("transposed_weight")) weight.rows = parameter.shape[1];
    Graph& graph = copy.result();
    for (const QuantisedState& state : states_of(*options_.format, weight)) {
      const TensorId tensor =
          graph.add_buffer(fmt::format("{}.{}", parameter.name, state.name), {state.elements.count},
                           state.dtype, parameter.layer);
      graph.storages[graph.tensors[tensor].storage].role = Role::kQuantisedParameter;
      known->second.push_back(tensor);
    }
    return known->second;
  }

  const QuantiseOptions& options_;
  std::map<TensorId, ParameterId> chosen_;
  std::map<TensorId, std::vector<TensorId>> states_;
};

// Throws UserError where linear layers multiply with something that another policy makes of their
// weights.
void refuse_changed_weights(const Graph& graph, const std::string& policy) {
  for (const Node& node : graph.nodes) {
    if (!is_linear(node)) continue;
    const NodeId maker = maker_of(graph, node.inputs[kWeight]);
    if (!maker.valid()) continue;
    const bool rounds = graph.nodes[maker].family == &fake_quantise_family();
    const bool masks = graph.nodes[maker].family == &mul_family();
    if (!rounds && !masks) continue;
    throw UserError({}, fmt::format("policies.{}", policy),
                    fmt::format("does not go with {0}, which {1} the weights in each forward and "
                                "needs them as numbers; leave {0} out, or keep the weights in "
                                "training.precision",
                                rounds ? "qat" : "prune", rounds ? "rounds" : "masks"));
  }
}

}  // namespace
}  // namespace quantise_detail

NodeId head_of(const Graph& graph) {
  std::size_t linears = 0;
  std::map<TensorId, NodeId> maker;
  for (NodeId id : ids_of(graph.nodes)) {
    if (quantise_detail::is_linear(graph.nodes[id])) ++linears;
    for (TensorId out : graph.nodes[id].outputs)
      maker.emplace(out, id);
  }
  TensorId at = graph.logits;
  while (linears > 1 && at.valid() && maker.contains(at)) {
    const NodeId id = maker.at(at);
    const Node& node = graph.nodes[id];
    if (quantise_detail::is_linear(node)) return id;
    const OperatorFamily* family = node.family;
    const bool same = family == &view_family() || family == &reshape_family() ||
                      family == &cast_family() || family == &contiguous_family() ||
                      family == &scale_family();
    if (!same) break;
    at = node.inputs.front();
  }
  return {};
}

QuantiseOptions decode_quantise(const Decoder& d, const std::string& name) {
  static constexpr std::string_view kLibraries[] = {"bitsandbytes", "bitsandbytes-0.42", "torchao"};
  const std::string library = d.optional_word("implementation", kLibraries, "bitsandbytes");
  QuantiseOptions options{.format = find_quantised_format(name, library)};
  options.library = library;
  options.keeps_head = !d.optional<bool>("quantise_head", false);
  options.block = d.optional<std::int64_t>("block", 64, between(32, 4096));
  if (options.format == nullptr) {
    d.fail_at("implementation",
              fmt::format("{} has no {}; it has nf4, and bitsandbytes nf4, nf4_dq, fp4, fp4_dq and "
                          "int8",
                          library, name));
  }
  options.outliers = d.optional<double>("outliers", 0, between(0.0, 1.0));
  if (options.outliers > 0 && options.format->codes != DType::kInt8)
    d.fail_at("outliers",
              fmt::format("is for int8, whose products leave them out; {} has none", name));
  static constexpr std::array<std::string_view, 4> kTypes = {"input", "fp32", "bf16", "fp16"};
  const std::string compute = d.optional_word("compute_dtype", kTypes, kTypes.front());
  if (compute != kTypes.front()) {
    if (options.format->codes == DType::kInt8 || library == "torchao") {
      d.fail_at("compute_dtype", "is of bitsandbytes' layers of 4 bits; " + library + "'s " + name +
                                     " multiplies in a type of its own");
    }
    for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (name_of(type) == compute) options.compute = type;
    }
  }
  if ((options.block & (options.block - 1)) != 0) {
    d.fail_at("block",
              fmt::format("blocks have 32, 64, 128, ... 4096 weights, not {}", options.block));
  }
  return options;
}

Graph QuantiseLinears::apply(const Graph& graph, const RewriteContext& /*context*/) const {
  if (has_packed_weights(graph)) {
    throw UserError(
        {}, fmt::format("policies.{}", options_.policy),
        "does not go with prune's method 2:4, which packs the weights; leave one of the "
        "two out");
  }
  quantise_detail::Quantised quantised(graph, options_);
  const bool done_already =
      std::any_of(graph.storages.begin(), graph.storages.end(),
                  [](const Storage& storage) { return storage.role == Role::kQuantisedParameter; });
  if (quantised.is_empty() && done_already) {
    throw UserError({}, fmt::format("policies.{}", options_.policy),
                    "another policy quantises the weights already: of lora with a base of 4 or 8 "
                    "bits and quantise_weights, list one");
  }
  if (quantised.is_empty()) {
    quantise_detail::refuse_changed_weights(graph, options_.policy);
    throw UserError(
        {}, fmt::format("policies.{}", options_.policy),
        fmt::format("{} has no linear layer whose weight can be quantised: tied weights "
                    "and the head stay as they are",
                    graph.name));
  }
  GraphCopy copy(graph);
  quantised.retype_roots(copy);
  Graph result =
      rewrite_graph(copy, [&](GraphCopy& nodes, NodeId id) { quantised.rewrite(nodes, id); });
  quantised.set_roles(result);
  return result;
}

}  // namespace tidemark
