#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/rewrite/layer_precision.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {
namespace autocast_detail {
namespace {

// Ways in which autocast treats the inputs of an operator.
enum class CastPolicy : std::uint8_t {
  kAsGiven,        // not listed: the operator promotes by itself
  kLow,            // lower_precision_fp
  kFloat32,        // fp32: inputs are converted
  kFloat32Result,  // fp32_set_opt_dtype: called with dtype=torch.float32
  kRefused,        // at::autocast throws
};

struct CastRule {
  std::string_view family;
  CastPolicy cuda;
  CastPolicy cpu;  // policy of 1.13's CPU list, which is shorter
};

// AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE; KERNEL_CPU for the
// CPU, where cross_entropy_loss is listed and takes its log_softmax along.
constexpr std::array kCastRules = {
    CastRule{"linear", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"bmm", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"addmm", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"baddbmm", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv1d", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv2d", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv3d", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv_transpose1d", CastPolicy::kLow, CastPolicy::kFloat32},
    CastRule{"conv_transpose2d", CastPolicy::kLow, CastPolicy::kFloat32},
    CastRule{"conv_transpose3d", CastPolicy::kLow, CastPolicy::kFloat32},
    CastRule{"attention", CastPolicy::kLow, CastPolicy::kLow},
    // _cudnn_rnn_cast_reflatten; on a CPU the products inside are cast one by one, here all at
    // once.
    CastRule{"lstm", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"gru", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"rnn", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"layer_norm", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"group_norm", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"rms_norm", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"exp", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"pow", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"rsqrt", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"softplus", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"log", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"log2", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"log10", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"log1p", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"expm1", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"reciprocal", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"tan", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"sinh", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"cosh", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"asin", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"acos", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"logsumexp", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"cumsum", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"grid_sample", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"pad", CastPolicy::kAsGiven, CastPolicy::kFloat32},  // reflection_pad, replication_pad
    CastRule{"avg_pool3d", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"max_pool3d", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"adaptive_avg_pool3d", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"adaptive_max_pool3d", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"sum", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"softmax", CastPolicy::kFloat32Result, CastPolicy::kAsGiven},
    CastRule{"log_softmax", CastPolicy::kFloat32Result, CastPolicy::kFloat32},
    CastRule{"prod", CastPolicy::kAsGiven, CastPolicy::kFloat32},
    CastRule{"nll_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"bce_with_logits_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"mse_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"smooth_l1_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"huber_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"bce_loss", CastPolicy::kRefused, CastPolicy::kFloat32},
    CastRule{"ctc_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"cdist", CastPolicy::kFloat32, CastPolicy::kFloat32},
};

CastPolicy policy_of(const OperatorFamily* family, const FrameworkRules& rules) {
  static const std::map<const OperatorFamily*, const CastRule*> by_family = [] {
    std::map<const OperatorFamily*, const CastRule*> found;
    for (const CastRule& rule : kCastRules)
      found.emplace(find_family(rule.family), &rule);
    return found;
  }();
  const auto rule = by_family.find(family);
  if (rule == by_family.end()) return CastPolicy::kAsGiven;
  return rules.cpu_autocast_lists ? rule->second->cpu : rule->second->cuda;
}

// Puts the casts before each node.
class AutocastNodes {
 public:
  AutocastNodes(DType low, bool cache, const FrameworkRules& rules)
      : low_(low), cache_(cache), rules_(rules) {}

  void rewrite(GraphCopy& copy, NodeId id);
  // The cache is emptied when autocast ends, after the loss.
  void hold_cached(Graph& graph) const;

 private:
  [[nodiscard]] TensorId cast(GraphCopy& copy, TensorId tensor, DType dtype, LayerId layer);
  [[nodiscard]] CastPolicy policy_of_call(const Node& node) const;
  void hold_converted_logits(GraphCopy& copy, NodeId id, NodeId kept);
  void begin_call(GraphCopy& copy, NodeId first);
  void end_call(GraphCopy& copy, NodeId last);

  DType low_;
  bool cache_;
  const FrameworkRules& rules_;
  IdVector<TensorId, TensorId> low_precision_of_;  // by parameter of the copy: autocast's cache
  TensorId converted_logits_;
  // Arguments of a call of several operators that is under way, by those of the source.
  std::map<TensorId, TensorId> converted_arguments_;
};

// at::autocast::cached_cast: only leaves that need a gradient are cached, and only in the low type.
TensorId AutocastNodes::cast(GraphCopy& copy, TensorId tensor, DType dtype, LayerId layer) {
  if (!tensor.valid()) return tensor;
  Graph& graph = copy.result();
  const DType from = graph.tensors[tensor].dtype;
  if (!is_floating(from) || from == DType::kFloat64 || from == dtype) return tensor;
  const bool cached = cache_ && dtype == low_ && copy.is_trained(tensor);
  if (cached && low_precision_of_.contains(tensor) && low_precision_of_[tensor].valid()) {
    return low_precision_of_[tensor];
  }
  const NodeId node = graph.add_node(*find_family("cast"), {tensor},
                                     {{"dtype", std::string(name_of(dtype))}}, layer);
  if (cached) {
    if (!low_precision_of_.contains(tensor)) low_precision_of_.resize(tensor.index() + 1);
    low_precision_of_[tensor] = graph.output(node);
  }
  return graph.output(node);
}

// On a CPU cross_entropy_loss itself is listed: its converted argument lives until it returns.
void AutocastNodes::hold_converted_logits(GraphCopy& copy, NodeId id, NodeId kept) {
  if (!rules_.cpu_autocast_lists) return;
  const Node& node = copy.source().nodes[id];
  if (node.family == &log_softmax_family()) {
    const TensorId input = copy.result().nodes[kept].inputs[0];
    converted_logits_ = input == copy.at(node.inputs[0]) ? TensorId() : input;
  }
  if (node.family == &nll_loss_family() && converted_logits_.valid()) {
    copy.result().locals.push_back({converted_logits_, kept});
  }
}

// A listed function may be several operators here (l1_loss, kl_div): its arguments are converted,
// from the last to the first, when it is called.
void AutocastNodes::begin_call(GraphCopy& copy, NodeId first) {
  const IdVector<NodeId, Node>& nodes = copy.source().nodes;
  std::set<TensorId> made_before;
  for (NodeId id(0U); id < first; id = NodeId(id.value + 1))
    made_before.insert(nodes[id].outputs.begin(), nodes[id].outputs.end());
  std::vector<TensorId> arguments;
  for (NodeId id = first; nodes.contains(id); id = NodeId(id.value + 1)) {
    if (nodes[id].attributes.flag("reads_converted")) {
      for (const TensorId in : nodes[id].inputs) {
        const bool known = std::find(arguments.begin(), arguments.end(), in) != arguments.end();
        if (!known && made_before.contains(in)) arguments.push_back(in);
      }
    }
    if (nodes[id].attributes.flag("ends_converted_call")) break;
  }
  for (std::size_t i = arguments.size(); i-- > 0;) {
    converted_arguments_[arguments[i]] =
        cast(copy, copy.at(arguments[i]), DType::kFloat32, nodes[first].layer);
  }
}

// The call holds its converted arguments until it returns.
void AutocastNodes::end_call(GraphCopy& copy, NodeId last) {
  for (const auto& [argument, converted] : converted_arguments_) {
    if (converted != copy.at(argument)) copy.result().locals.push_back({converted, last});
  }
  converted_arguments_.clear();
}

// Returns what is done to one call of an operator, by its family and its attributes.
CastPolicy AutocastNodes::policy_of_call(const Node& node) const {
  const CastPolicy policy = policy_of(node.family, rules_);
  // Of all operators only binary_cross_entropy is refused.
  if (policy == CastPolicy::kRefused) {
    throw UserError({}, "training.loss",
                    "PyTorch refuses binary_cross_entropy under autocast on a GPU, since 16-bit "
                    "probabilities lose too much; write bce_with_logits");
  }
  const Attributes& attributes = node.attributes;
  if (attributes.flag("widens_argument")) return CastPolicy::kLow;  // of torch.matmul
  if (!rules_.cpu_autocast_lists) return policy;
  // adaptive_avg_pool3d, which calls mean.
  if (attributes.flag("pools_volume")) return CastPolicy::kFloat32;
  // Only borders that reflect or replicate are operators that a CPU's list names.
  static const OperatorFamily* const pad = find_family("pad");
  const bool plain_borders =
      node.family == pad && attributes.text("mode", "constant") == "constant";
  // Only as a part of cross_entropy_loss is log_softmax converted on a CPU.
  if (plain_borders || attributes.flag("called_by_itself")) return CastPolicy::kAsGiven;
  return policy;
}

void AutocastNodes::rewrite(GraphCopy& copy, NodeId id) {
  const Node& node = copy.source().nodes[id];
  std::vector<TensorId> inputs = copy.inputs_of(id);
  Attributes attributes = node.attributes;
  CastPolicy policy = policy_of_call(node);
  if (policy == CastPolicy::kFloat32Result) {
    // at::softmax converts inside the kernel from fp16 only; from bf16 it makes a copy first.
    const bool inside = low_ == DType::kFloat16 && copy.result().tensors[inputs[0]].dtype == low_;
    if (inside) attributes.set("dtype", std::string(name_of(DType::kFloat32)));
    policy = inside ? CastPolicy::kAsGiven : CastPolicy::kFloat32;
  }
  if (attributes.flag("reads_converted")) {
    if (converted_arguments_.empty()) begin_call(copy, id);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto converted = converted_arguments_.find(node.inputs[i]);
      if (converted != converted_arguments_.end()) inputs[i] = converted->second;
    }
  }
  if (policy != CastPolicy::kAsGiven) {
    const DType dtype = policy == CastPolicy::kLow ? low_ : DType::kFloat32;
    // WrapFunction_ calls F(cached_cast(args)...), and g++ evaluates arguments from the last to the
    // first. So backward converts the gradient of a weight before that of its bias.
    for (std::size_t i = inputs.size(); i-- > 0;)
      inputs[i] = cast(copy, inputs[i], dtype, node.layer);
  }
  if (attributes.flag("to_low_type")) attributes.set("dtype", std::string(name_of(low_)));
  const bool ends_call = attributes.flag("ends_converted_call");
  const NodeId kept = copy.keep(id, std::move(inputs), std::move(attributes));
  hold_converted_logits(copy, id, kept);
  if (ends_call) end_call(copy, kept);
}

// An operator outside autocast gets the types that it had before.
void keep_types(GraphCopy& copy, NodeId id) {
  const Node& node = copy.source().nodes[id];
  std::vector<TensorId> inputs = copy.inputs_of(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) continue;
    const DType before = copy.source().tensors[node.inputs[i]].dtype;
    Graph& graph = copy.result();
    if (graph.tensors[inputs[i]].dtype == before) continue;
    const NodeId cast = graph.add_node(*find_family("cast"), {inputs[i]},
                                       {{"dtype", std::string(name_of(before))}}, node.layer);
    inputs[i] = graph.output(cast);
  }
  (void)copy.keep(id, std::move(inputs), node.attributes);
}

void AutocastNodes::hold_cached(Graph& graph) const {
  for (TensorId cast : low_precision_of_) {
    if (cast.valid()) graph.locals.push_back({cast, NodeId(graph.nodes.size() - 1)});
  }
}

}  // namespace
}  // namespace autocast_detail

Graph autocast_blocks(const Graph& graph, const std::vector<char>& chosen, DType low,
                      const FrameworkRules& rules) {
  autocast_detail::AutocastNodes casts(low, true, rules);
  Graph result = rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    const LayerId layer = graph.nodes[id].layer;
    const int block = graph.block_of(layer);
    const auto index = static_cast<std::size_t>(block);
    if (block != kNoBlock && index < chosen.size() && chosen[index] != 0) {
      casts.rewrite(copy, id);
    } else {
      autocast_detail::keep_types(copy, id);
    }
  });
  casts.hold_cached(result);
  return result;
}

Graph Autocast::apply(const Graph& graph, const RewriteContext& /*context*/) const {
  autocast_detail::AutocastNodes casts(low_, cache_, rules_);
  Graph result = rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) { casts.rewrite(copy, id); });
  casts.hold_cached(result);
  return result;
}

}  // namespace tidemark
