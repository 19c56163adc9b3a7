#include "policies/kernels/kernel_sites.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/node_view.hpp"
#include "graph/rewrite/partition/partition_sites.hpp"

namespace tidemark {
namespace kernel_sites_detail {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const FrameworkRules& rules);
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
    const NodeId made_by = tensor.valid() ? sites_.maker[tensor] : NodeId();
    return made_by.valid() && node(made_by).family == &family ? made_by : NodeId();
  }
  [[nodiscard]] bool is_read_by(const OperatorFamily& family, TensorId tensor) const;
  // Whether only `reader` needs what is in the memory of a tensor, so that it may be overwritten
  // then: no other node reads it but to make a view of it, and the one that makes it keeps nothing
  // of it.
  [[nodiscard]] bool may_overwrite(TensorId tensor, NodeId reader) const;
  [[nodiscard]] bool keeps_output(NodeId id) const;
  // Whether the tensor is a weight with one element for each feature of x.
  [[nodiscard]] bool is_weight_of(TensorId weight, TensorId x) const;
  // Whether nothing but these nodes reads what those inside make.
  [[nodiscard]] bool is_closed(const KernelSite& site) const;

  [[nodiscard]] std::optional<Normalised> normalised(TensorId result) const;
  [[nodiscard]] std::optional<KernelSite> weight_times_norm(NodeId last) const;
  [[nodiscard]] std::optional<KernelSite> norm_times_one_and_weight(NodeId last) const;
  [[nodiscard]] std::optional<KernelSite> one_norm(NodeId last) const;
  [[nodiscard]] NodeId gate_activation(TensorId tensor) const;
  [[nodiscard]] std::optional<KernelSite> gated(NodeId last) const;
  [[nodiscard]] bool goes_into_cat(TensorId tensor) const;
  [[nodiscard]] std::optional<KernelSite> rotated(NodeId last) const;

  const Graph& graph_;
  const FrameworkRules& rules_;
  const PartitionSites sites_;
  IdVector<StorageId, std::vector<NodeId>> touching_;  // nodes that read or make what is in it
  IdVector<TensorId, char> leaves_;                    // the model returns the tensor
};

Finder::Finder(const Graph& graph, const FrameworkRules& rules)
    : graph_(graph),
      rules_(rules),
      sites_(find_sites(graph)),
      touching_(graph.storages.size()),
      leaves_(graph.tensors.size(), 0) {
  for (const NodeId id : ids_of(graph.nodes)) {
    const auto touches = [&](TensorId tensor) {
      if (!tensor.valid()) return;
      std::vector<NodeId>& nodes = touching_[graph.tensors[tensor].storage];
      if (nodes.empty() || nodes.back() != id) nodes.push_back(id);
    };
    std::for_each(graph.nodes[id].outputs.begin(), graph.nodes[id].outputs.end(), touches);
    std::for_each(graph.nodes[id].inputs.begin(), graph.nodes[id].inputs.end(), touches);
  }
  for (const TensorId output : graph.other_outputs)
    leaves_[output] = 1;
  for (const TensorId output : {graph.logits, graph.loss}) {
    if (output.valid()) leaves_[output] = 1;
  }
}

bool Finder::is_read_by(const OperatorFamily& family, TensorId tensor) const {
  return std::any_of(sites_.readers[tensor].begin(), sites_.readers[tensor].end(),
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
             std::all_of(sites_.readers[made].begin(), sites_.readers[made].end(), belongs);
    });
  });
}

bool Finder::keeps_output(NodeId id) const {
  if (!id.valid() || node(id).family->save == nullptr) return false;
  const NodeView view(graph_, id, rules_);
  SavedSet saved(view);
  node(id).family->save(saved);
  return !saved.outputs().empty();
}

bool Finder::may_overwrite(TensorId tensor, NodeId reader) const {
  const StorageId storage = graph_.tensors[tensor].storage;
  const auto shares = [&](TensorId id) {
    return id.valid() && graph_.tensors[id].storage == storage;
  };
  return std::all_of(touching_[storage].begin(), touching_[storage].end(), [&](NodeId id) {
    if (id == reader) return true;
    const std::vector<TensorId>& outputs = node(id).outputs;
    const bool makes = std::any_of(outputs.begin(), outputs.end(), shares);
    return makes && !keeps_output(id) &&
           std::none_of(outputs.begin(), outputs.end(),
                        [&](TensorId made) { return leaves_[made] != 0; });
  });
}

bool Finder::is_weight_of(TensorId weight, TensorId x) const {
  const Shape& shape = graph_.tensors[x].shape;
  return sites_.parameter[weight].valid() && graph_.tensors[weight].shape == Shape{shape[-1]};
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
    const bool of_rows = node(made).attributes.list("axes") == std::vector<std::int64_t>{-1};
    if (family == &mean_family() && !of_rows) return std::nullopt;
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

// Llama: weight * normalised.to(x.dtype). Liger's result has the type of x, also where a wider
// weight makes it wider here.
std::optional<KernelSite> Finder::weight_times_norm(NodeId last) const {
  if (node(last).family != &mul_family()) return std::nullopt;
  std::vector<NodeId> inside;
  TensorId scaled = node(last).inputs[1];
  if (const NodeId cast = maker(scaled, cast_family()); cast.valid()) {
    inside.push_back(cast);
    scaled = node(cast).inputs[0];
  }
  const std::optional<Normalised> found = normalised(scaled);
  if (!found || !is_weight_of(node(last).inputs[0], found->x)) return std::nullopt;
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
  // The norm ends with a cast back to the type of x, where that is narrower than fp32.
  if (graph_.tensors[found->x].dtype != graph_.tensors[node(last).outputs[0]].dtype)
    return std::nullopt;
  inside.insert(inside.end(), found->nodes.begin(), found->nodes.end());
  inside.push_back(sum);
  TensorId weight = node(sum).inputs[0];
  if (const NodeId cast = maker(weight, cast_family()); cast.valid()) {
    inside.push_back(cast);
    weight = node(cast).inputs[0];
  }
  if (!is_weight_of(weight, found->x)) return std::nullopt;
  return KernelSite{.kind = KernelKind::kRmsNorm,
                    .last = last,
                    .inside = std::move(inside),
                    .operands = {found->x, weight}};
}

std::optional<KernelSite> Finder::one_norm(NodeId last) const {
  const Node& norm = node(last);
  if (norm.family != &rms_norm_family() || norm.inputs.size() < 2 || !norm.inputs[1].valid())
    return std::nullopt;
  if (!is_weight_of(norm.inputs[1], norm.inputs[0])) return std::nullopt;
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
  if (!activation.valid()) {  // Phi 3: up * act(gate)
    up = node(last).inputs[0];
    activation = gate_activation(node(last).inputs[1]);
  }
  if (!activation.valid()) return std::nullopt;
  const TensorId gate = node(activation).inputs[0];
  const Tensor& left = graph_.tensors[gate];
  const Tensor& right = graph_.tensors[up];
  // The gradients replace gate and up, or copies of strided ones.
  const bool alone = (!left.is_contiguous() || may_overwrite(gate, activation)) &&
                     (!right.is_contiguous() || may_overwrite(up, last));
  if (node(activation).in_place || node(last).in_place || !alone || left.shape != right.shape ||
      left.dtype != right.dtype)
    return std::nullopt;
  return KernelSite{
      .kind = KernelKind::kGlu, .last = last, .inside = {activation}, .operands = {gate, up}};
}

// Whether a cat reads the tensor or a view of it.
bool Finder::goes_into_cat(TensorId tensor) const {
  return std::any_of(sites_.readers[tensor].begin(), sites_.readers[tensor].end(),
                     [&](NodeId reader) {
                       if (node(reader).family == &cat_family()) return true;
                       const std::vector<TensorId>& made = node(reader).outputs;
                       return std::any_of(made.begin(), made.end(), [&](TensorId view) {
                         return graph_.tensors[view].storage == graph_.tensors[tensor].storage &&
                                goes_into_cat(view);
                       });
                     });
}

// The features of a head that a partial embedding does not rotate are put beside the others by cat.
std::optional<KernelSite> Finder::rotated(NodeId last) const {
  const Node& rotary = node(last);
  if (rotary.family != &rotary_family() || graph_.tensors[rotary.inputs[0]].shape.rank() != 4 ||
      goes_into_cat(rotary.outputs[0]))
    return std::nullopt;
  Tensor rows = graph_.tensors[rotary.inputs[0]];
  std::swap(rows.shape[1], rows.shape[2]);
  std::swap(rows.strides[1], rows.strides[2]);
  if (rows.is_contiguous() && !may_overwrite(rotary.inputs[0], last)) return std::nullopt;
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
    found->is_of_heads = graph_.tensors[found->operands.front()].shape.rank() == 4;
    return found;
  }
  return std::nullopt;
}

}  // namespace
}  // namespace kernel_sites_detail

std::vector<KernelSite> find_kernel_sites(const Graph& graph, const FrameworkRules& rules) {
  const kernel_sites_detail::Finder finder(graph, rules);
  std::vector<KernelSite> sites;
  for (const NodeId id : ids_of(graph.nodes)) {
    if (std::optional<KernelSite> site = finder.at(id)) sites.push_back(std::move(*site));
  }
  return sites;
}

}  // namespace tidemark
