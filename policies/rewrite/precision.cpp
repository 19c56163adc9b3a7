#include "policies/rewrite/precision.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace {

constexpr std::array<PrecisionRules, 9> kPrecisions = {{
    {.name = "fp32",
     .precision = Precision::kFp32,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32},
    {.name = "tf32",
     .precision = Precision::kTf32,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .tf32 = true},
    {.name = "bf16_autocast",
     .precision = Precision::kBf16Autocast,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .autocast = DType::kBFloat16},
    {.name = "fp16_autocast",
     .precision = Precision::kFp16Autocast,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .autocast = DType::kFloat16},
    {.name = "bf16_mixed",
     .precision = Precision::kBf16Mixed,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16,
     .master_weights = true},
    {.name = "fp16_mixed",
     .precision = Precision::kFp16Mixed,
     .model = DType::kFloat16,
     .gradients = DType::kFloat16,
     .master_weights = true},
    {.name = "bf16",
     .precision = Precision::kBf16,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16},
    {.name = "fp16",
     .precision = Precision::kFp16,
     .model = DType::kFloat16,
     .gradients = DType::kFloat16},
    {.name = "fp8_mixed",
     .precision = Precision::kFp8Mixed,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16,
     .master_weights = true},
}};

// What autocast does with the inputs of an operator.
enum class CastPolicy : std::uint8_t {
  kAsGiven,        // not listed: the operator promotes by itself
  kLow,            // lower_precision_fp
  kFloat32,        // fp32: inputs are converted
  kFloat32Result,  // fp32_set_opt_dtype: called with dtype=torch.float32
};

struct CastRule {
  std::string_view family;
  CastPolicy cuda;
  CastPolicy cpu;  // of 1.13, whose list is shorter
};

// AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE; KERNEL_CPU for the
// CPU, where cross_entropy_loss is listed and takes its log_softmax along.
constexpr std::array kCastRules = {
    CastRule{"linear", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"bmm", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv2d", CastPolicy::kLow, CastPolicy::kLow},
    CastRule{"conv_transpose2d", CastPolicy::kLow, CastPolicy::kLow},
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
    CastRule{"sum", CastPolicy::kFloat32, CastPolicy::kAsGiven},
    CastRule{"softmax", CastPolicy::kFloat32Result, CastPolicy::kAsGiven},
    CastRule{"log_softmax", CastPolicy::kFloat32Result, CastPolicy::kFloat32},
    CastRule{"nll_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
    CastRule{"mse_loss", CastPolicy::kFloat32, CastPolicy::kFloat32},
};

CastPolicy policy_of(std::string_view family, const FrameworkRules& rules) {
  for (const CastRule& rule : kCastRules) {
    if (rule.family == family) return rules.cpu_autocast_lists ? rule.cpu : rule.cuda;
  }
  return CastPolicy::kAsGiven;
}

// Builds the graph again, node by node, with casts in between.
class AutocastGraph {
 public:
  AutocastGraph(const Graph& graph, DType low, bool cache, const FrameworkRules& rules)
      : old_(graph),
        low_(low),
        cache_(cache),
        rules_(rules),
        node_(graph.nodes.size()),
        tensor_(graph.tensors.size()) {}
  [[nodiscard]] Graph run();

 private:
  void copy_roots();
  void copy_node(NodeId id);
  [[nodiscard]] TensorId cast(TensorId tensor, DType dtype, LayerId layer);
  void hold_converted_logits(const Node& node, NodeId copy);

  const Graph& old_;
  DType low_;
  bool cache_;
  const FrameworkRules& rules_;
  Graph new_;
  IdVector<NodeId, NodeId> node_;                  // old to new
  IdVector<TensorId, TensorId> tensor_;            // old to new
  IdVector<TensorId, char> is_leaf_;               // of the new graph: a trainable parameter
  IdVector<TensorId, TensorId> low_precision_of_;  // of the new graph: autocast's cache
  TensorId converted_logits_;
};

// Parameters, buffers and inputs, in their order: what no node makes.
void AutocastGraph::copy_roots() {
  IdVector<TensorId, char> is_made(old_.tensors.size(), 0);
  for (const Node& node : old_.nodes) {
    for (TensorId out : node.outputs)
      is_made[out] = 1;
  }
  IdVector<StorageId, StorageId> storage(old_.storages.size());
  for (TensorId id : ids_of(old_.tensors)) {
    if (is_made[id] != 0) continue;
    Tensor root = old_.tensors[id];
    StorageId& copy = storage[root.storage];
    if (!copy.valid()) copy = new_.storages.push_back(old_.storages[root.storage]);
    root.storage = copy;
    tensor_[id] = new_.tensors.push_back(root);
  }
  is_leaf_.assign(new_.tensors.size(), 0);
  low_precision_of_.assign(new_.tensors.size(), TensorId());
  for (TensorId id : old_.parameters) {
    const TensorId parameter = tensor_[id];
    new_.parameters.push_back(parameter);
    is_leaf_[parameter] = new_.tensors[parameter].requires_grad ? 1 : 0;
  }
}

// at::autocast::cached_cast: only leaves that need a gradient are cached, and only in the low type.
TensorId AutocastGraph::cast(TensorId tensor, DType dtype, LayerId layer) {
  if (!tensor.valid()) return tensor;
  const Tensor& from = new_.tensors[tensor];
  if (!is_floating(from.dtype) || from.dtype == DType::kFloat64 || from.dtype == dtype) {
    return tensor;
  }
  const bool cached = cache_ && dtype == low_ && is_leaf_.contains(tensor) && is_leaf_[tensor] != 0;
  if (cached && low_precision_of_[tensor].valid()) return low_precision_of_[tensor];
  const NodeId node = new_.add_node(*find_family("cast"), {tensor},
                                    {{"dtype", std::string(name_of(dtype))}}, layer);
  if (cached) low_precision_of_[tensor] = new_.output(node);
  return new_.output(node);
}

// On a CPU cross_entropy_loss itself is listed: its converted argument lives until it returns.
void AutocastGraph::hold_converted_logits(const Node& node, NodeId copy) {
  if (!rules_.cpu_autocast_lists) return;
  if (node.family->name == "log_softmax") {
    const TensorId input = new_.nodes[copy].inputs[0];
    converted_logits_ = input == tensor_[node.inputs[0]] ? TensorId() : input;
  }
  if (node.family->name == "nll_loss" && converted_logits_.valid()) {
    new_.locals.push_back({converted_logits_, copy});
  }
}

void AutocastGraph::copy_node(NodeId id) {
  const Node& node = old_.nodes[id];
  std::vector<TensorId> inputs;
  for (TensorId in : node.inputs)
    inputs.push_back(in.valid() ? tensor_[in] : in);
  Attributes attributes = node.attributes;
  CastPolicy policy = policy_of(node.family->name, rules_);
  if (policy == CastPolicy::kFloat32Result) {
    // at::softmax converts inside the kernel from fp16 only; from bf16 it makes a copy first.
    const bool inside = low_ == DType::kFloat16 && new_.tensors[inputs[0]].dtype == low_;
    if (inside) attributes.set("dtype", std::string(name_of(DType::kFloat32)));
    policy = inside ? CastPolicy::kAsGiven : CastPolicy::kFloat32;
  }
  if (policy != CastPolicy::kAsGiven) {
    const DType dtype = policy == CastPolicy::kLow ? low_ : DType::kFloat32;
    // WrapFunction_ calls F(cached_cast(args)...), and g++ evaluates arguments from the last to the
    // first. So backward converts the gradient of a weight before that of its bias.
    for (std::size_t i = inputs.size(); i-- > 0;)
      inputs[i] = cast(inputs[i], dtype, node.layer);
  }
  node_[id] = new_.add_node(*node.family, inputs, std::move(attributes), node.layer);
  hold_converted_logits(node, node_[id]);
  const std::vector<TensorId>& outputs = new_.nodes[node_[id]].outputs;
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    tensor_[node.outputs[i]] = outputs[i];
}

Graph AutocastGraph::run() {
  new_.name = old_.name;
  new_.layers = old_.layers;
  new_.samples = old_.samples;
  new_.tokens = old_.tokens;
  new_.blocks = old_.blocks;
  copy_roots();
  for (NodeId id : ids_of(old_.nodes))
    copy_node(id);
  for (const LocalVariable& local : old_.locals) {
    new_.locals.push_back({tensor_[local.tensor], node_[local.until]});
  }
  // The cache is emptied when autocast ends, behind the loss.
  for (TensorId copy : low_precision_of_) {
    if (copy.valid()) new_.locals.push_back({copy, NodeId(new_.nodes.size() - 1)});
  }
  if (old_.logits.valid()) new_.logits = tensor_[old_.logits];
  if (old_.loss.valid()) new_.loss = tensor_[old_.loss];
  for (TensorId output : old_.other_outputs)
    new_.other_outputs.push_back(tensor_[output]);
  return std::move(new_);
}

}  // namespace

std::span<const PrecisionRules> precision_table() {
  return kPrecisions;
}

const PrecisionRules& rules_of(Precision precision) {
  return kPrecisions.at(static_cast<std::size_t>(precision));
}

Precision decode_precision(const Decoder& training) {
  std::array<std::string_view, kPrecisions.size()> names;
  std::transform(kPrecisions.begin(), kPrecisions.end(), names.begin(),
                 [](const PrecisionRules& rules) { return rules.name; });
  const std::string name =
      training.optional_word("precision", names, rules_of(Precision::kBf16Mixed).name);
  for (const PrecisionRules& rules : kPrecisions) {
    if (rules.name != name) continue;
    if (rules.precision == Precision::kFp8Mixed) {
      training.fail_at("precision", "fp8_mixed comes later; use bf16_mixed");
    }
    return rules.precision;
  }
  throw InternalError("precision '" + name + "' is a word without rules");
}

std::optional<DType> decode_gradient_dtype(const Decoder& training) {
  if (!training.has("gradient_dtype")) return std::nullopt;
  constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  std::array<std::string_view, kTypes.size()> names;
  std::transform(kTypes.begin(), kTypes.end(), names.begin(),
                 [](DType type) { return name_of(type); });
  const std::string name = training.required_word("gradient_dtype", names);
  for (DType type : kTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

Graph Autocast::apply(const Graph& graph, const RewriteContext& /*context*/) const {
  return AutocastGraph(graph, low_, cache_, rules_).run();
}

void Tf32::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  for (Operator& op : graph.operators) {
    if (op.work.dtype != DType::kFloat32) continue;
    switch (op.work.op_class) {
      case OperatorClass::kMatmul:
      case OperatorClass::kAttention:
      case OperatorClass::kConvolution:
      case OperatorClass::kConvolutionBackwardData:
      case OperatorClass::kConvolutionBackwardWeight:
        op.work.dtype = DType::kTf32;
        break;
      default:  // depthwise convolutions have no tensor-core kernels
        break;
    }
  }
}

}  // namespace tidemark
