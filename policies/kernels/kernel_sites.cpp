#include "policies/kernels/kernel_sites.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"

namespace tidemark {
namespace kernel_sites_detail {
namespace {

class Finder {
 public:
  explicit Finder(const Graph& graph);
  [[nodiscard]] std::optional<KernelSite> at(NodeId last) const;

 private:
  // The product of x and the inverse root of its mean square, in fp32.
  struct Normalised {
    TensorId x;
    std::vector<NodeId> nodes;
  };

  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  // Returns the node that makes the tensor if it is of this family; else an invalid one.
  [[nodiscard]] NodeId maker(TensorId tensor, const OperatorFamily& family) const {
    if (!tensor.valid() || !maker_[tensor].valid()) return {};
    return node(maker_[tensor]).family == &family ? maker_[tensor] : NodeId();
  }
  [[nodiscard]] bool is_parameter(TensorId tensor) const { return parameters_[tensor] != 0; }
  [[nodiscard]] bool is_read_by(const OperatorFamily& family, TensorId tensor) const;
  // Whether nothing but these nodes reads what those inside make.
  [[nodiscard]] bool is_closed(const KernelSite& site) const;

  [[nodiscard]] std::optional<Normalised> normalised(TensorId result) const;
  [[nodiscard]] std::optional<KernelSite> weight_times_norm(NodeId last) const;
  [[nodiscard]] std::optional<KernelSite> norm_times_one_and_weight(NodeId last) const;
  [[nodiscard]] std::optional<KernelSite> one_norm(NodeId last) const;
  [[nodiscard]] NodeId gate_activation(TensorId tensor) const;
  [[nodiscard]] std::optional<KernelSite> gated(NodeId last) const;
  [[nodiscard]] std::optional<KernelSite> rotated(NodeId last) const;

  const Graph& graph_;
  IdVector<TensorId, NodeId> maker_;
  IdVector<TensorId, std::vector<NodeId>> readers_;
  IdVector<TensorId, char> leaves_;  // the model returns the tensor
  IdVector<TensorId, char> parameters_;
};

Finder::Finder(const Graph& graph)
    : graph_(graph),
      maker_(graph.tensors.size()),
      readers_(graph.tensors.size()),
      leaves_(graph.tensors.size(), 0),
      parameters_(graph.tensors.size(), 0) {
  for (const Parameter& parameter : graph.parameters)
    parameters_[parameter.tensor] = 1;
  for (const NodeId id : ids_of(graph.nodes)) {
    for (const TensorId made : graph.nodes[id].outputs)
      maker_[made] = id;
    for (const TensorId in : graph.nodes[id].inputs) {
      if (in.valid()) readers_[in].push_back(id);
    }
  }
  for (const TensorId output : graph.other_outputs)
    leaves_[output] = 1;
  for (const TensorId output : {graph.logits, graph.loss}) {
    if (output.valid()) leaves_[output] = 1;
  }
}

bool Finder::is_read_by(const OperatorFamily& family, TensorId tensor) const {
  return std::any_of(readers_[tensor].begin(), readers_[tensor].end(),
                     [&](NodeId reader) { return node(reader).family == &family; });
}

bool Finder::is_closed(const KernelSite& site) const {
  const auto belongs = [&](NodeId reader) {
    return reader == site.last ||
           std::find(site.inside.begin(), site.inside.end(), reader) != site.inside.end();
  };
  return std::all_of(site.inside.begin(), site.inside.end(), [&](NodeId id) {
    return std::all_of(node(id).outputs.begin(), node(id).outputs.end(), [&](TensorId made) {
      return leaves_[made] == 0 &&
             std::all_of(readers_[made].begin(), readers_[made].end(), belongs);
    });
  });
}

// hidden = x.float(); hidden * rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps)
std::optional<Finder::Normalised> Finder::normalised(TensorId result) const {
  static const OperatorFamily* const rsqrt = find_family("rsqrt");
  const NodeId product = maker(result, mul_family());
  if (!product.valid()) return std::nullopt;
  const TensorId hidden = node(product).inputs[0];
  Normalised found{.x = hidden, .nodes = {product}};
  TensorId tensor = node(product).inputs[1];
  for (const OperatorFamily* const family :
       {rsqrt, &add_scalar_family(), &mean_family(), &pow_family()}) {
    const NodeId made = maker(tensor, *family);
    if (!made.valid()) return std::nullopt;
    found.nodes.push_back(made);
    tensor = node(made).inputs[0];
  }
  if (tensor != hidden || node(found.nodes.back()).attributes.number("exponent") != 2)
    return std::nullopt;
  if (const NodeId cast = maker(hidden, cast_family()); cast.valid()) {
    found.nodes.push_back(cast);
    found.x = node(cast).inputs[0];
  }
  return found;
}

// Llama: weight * normalised.to(x.dtype)
std::optional<KernelSite> Finder::weight_times_norm(NodeId last) const {
  if (node(last).family != &mul_family() || !is_parameter(node(last).inputs[0]))
    return std::nullopt;
  std::vector<NodeId> inside;
  TensorId scaled = node(last).inputs[1];
  if (const NodeId cast = maker(scaled, cast_family()); cast.valid()) {
    inside.push_back(cast);
    scaled = node(cast).inputs[0];
  }
  const std::optional<Normalised> found = normalised(scaled);
  if (!found) return std::nullopt;
  inside.insert(inside.end(), found->nodes.begin(), found->nodes.end());
  return KernelSite{.kind = KernelKind::kRmsNorm,
                    .last = last,
                    .inside = std::move(inside),
                    .operands = {found->x, node(last).inputs[0]}};
}

// Gemma: (normalised * (1 + weight.float())).type_as(x)
std::optional<KernelSite> Finder::norm_times_one_and_weight(NodeId last) const {
  std::vector<NodeId> inside;
  NodeId product = last;
  if (node(last).family == &cast_family()) {
    product = maker(node(last).inputs[0], mul_family());
    if (!product.valid()) return std::nullopt;
    inside.push_back(product);
  }
  if (node(product).family != &mul_family()) return std::nullopt;
  const std::optional<Normalised> found = normalised(node(product).inputs[0]);
  const NodeId sum = maker(node(product).inputs[1], add_scalar_family());
  if (!found || !sum.valid()) return std::nullopt;
  // Of a narrow x the cast back belongs to the norm: the product before it is no end.
  if (graph_.tensors[found->x].dtype != graph_.tensors[node(last).outputs[0]].dtype)
    return std::nullopt;
  inside.insert(inside.end(), found->nodes.begin(), found->nodes.end());
  inside.push_back(sum);
  TensorId weight = node(sum).inputs[0];
  if (const NodeId cast = maker(weight, cast_family()); cast.valid()) {
    inside.push_back(cast);
    weight = node(cast).inputs[0];
  }
  if (!is_parameter(weight)) return std::nullopt;
  return KernelSite{.kind = KernelKind::kRmsNorm,
                    .last = last,
                    .inside = std::move(inside),
                    .operands = {found->x, weight}};
}

std::optional<KernelSite> Finder::one_norm(NodeId last) const {
  const Node& norm = node(last);
  if (norm.family != &rms_norm_family() || norm.inputs.size() < 2 || !norm.inputs[1].valid())
    return std::nullopt;
  if (graph_.tensors[norm.inputs[1]].shape.rank() != 1) return std::nullopt;
  return KernelSite{
      .kind = KernelKind::kRmsNorm, .last = last, .operands = {norm.inputs[0], norm.inputs[1]}};
}

// Returns the activation that makes the tensor; invalid if there is no kernel for it.
NodeId Finder::gate_activation(TensorId tensor) const {
  if (const NodeId silu = maker(tensor, silu_family()); silu.valid()) return silu;
  const NodeId gelu = maker(tensor, gelu_family());
  const bool by_tanh = gelu.valid() && node(gelu).attributes.text("approximate", "none") == "tanh";
  return by_tanh ? gelu : NodeId();
}

std::optional<KernelSite> Finder::gated(NodeId last) const {
  if (node(last).family != &mul_family()) return std::nullopt;
  TensorId up = node(last).inputs[1];
  NodeId activation = gate_activation(node(last).inputs[0]);
  if (!activation.valid()) {  // Phi 3 has them the other way round
    up = node(last).inputs[0];
    activation = gate_activation(node(last).inputs[1]);
  }
  if (!activation.valid()) return std::nullopt;
  const TensorId gate = node(activation).inputs[0];
  const Tensor& left = graph_.tensors[gate];
  const Tensor& right = graph_.tensors[up];
  // The gradients replace gate and up: nothing else may read them.
  const bool alone = readers_[gate].size() == 1 && readers_[up].size() == 1;
  if (node(activation).in_place || node(last).in_place || !alone || left.shape != right.shape ||
      left.dtype != right.dtype)
    return std::nullopt;
  return KernelSite{
      .kind = KernelKind::kGlu, .last = last, .inside = {activation}, .operands = {gate, up}};
}

std::optional<KernelSite> Finder::rotated(NodeId last) const {
  const Node& rotary = node(last);
  if (rotary.family != &rotary_family() || graph_.tensors[rotary.inputs[0]].shape.rank() != 4 ||
      is_read_by(cat_family(), rotary.outputs[0]))
    return std::nullopt;
  return KernelSite{.kind = KernelKind::kRope, .last = last, .operands = rotary.inputs};
}

std::optional<KernelSite> Finder::at(NodeId last) const {
  using Rule = std::optional<KernelSite> (Finder::*)(NodeId) const;
  for (const Rule rule :
       std::initializer_list<Rule>{&Finder::weight_times_norm, &Finder::norm_times_one_and_weight,
                                   &Finder::one_norm, &Finder::gated, &Finder::rotated}) {
    std::optional<KernelSite> found = (this->*rule)(last);
    if (!found || !is_closed(*found)) continue;
    found->is_added = is_read_by(add_family(), node(last).outputs[0]);
    return found;
  }
  return std::nullopt;
}

}  // namespace
}  // namespace kernel_sites_detail

std::vector<KernelSite> find_kernel_sites(const Graph& graph) {
  const kernel_sites_detail::Finder finder(graph);
  std::vector<KernelSite> sites;
  for (const NodeId id : ids_of(graph.nodes)) {
    if (std::optional<KernelSite> site = finder.at(id)) sites.push_back(std::move(*site));
  }
  return sites;
}

}  // namespace tidemark
