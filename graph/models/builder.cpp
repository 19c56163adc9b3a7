#include "graph/models/builder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace builder_detail {
namespace {

std::vector<std::int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

std::int64_t flag(bool value) {
  return value ? 1 : 0;
}

const OperatorFamily& family_named(std::string_view name) {
  const OperatorFamily* found = find_family(name);
  if (found != nullptr) return *found;
  throw UserError(fmt::format("there is no operator named {}", tidemark::quoted_excerpt(name)));
}

}  // namespace
}  // namespace builder_detail

ModelBuilder::ModelBuilder(std::string model_name, DType dtype) : dtype_(dtype) {
  graph_.name = std::move(model_name);
}

ModelBuilder::Scope::~Scope() {
  builder_.layer_ = outer_;
  if (builder_.graph_.nodes.empty()) return;
  const NodeId last(builder_.graph_.nodes.size() - 1);
  for (LocalVariable& local : locals_) {
    local.until = last;
    builder_.graph_.locals.push_back(local);
  }
}

ModelBuilder::Scope ModelBuilder::scope(std::string_view module) {
  const LayerId outer = layer_;
  layer_ = child_layer(module, kNoBlock);
  return {*this, outer};
}

ModelBuilder::Scope ModelBuilder::block(std::string_view module) {
  const LayerId outer = layer_;
  const bool known = modules_.contains(qualified(module));
  layer_ = child_layer(module, known ? kNoBlock : graph_.blocks++);
  return {*this, outer};
}

LayerId ModelBuilder::add_layer(std::string module, int block) {
  graph_.blocks = std::max(graph_.blocks, block + 1);
  return graph_.add_layer(std::move(module), block);
}

std::string ModelBuilder::qualified(std::string_view tensor_name) const {
  if (!layer_.valid()) return std::string(tensor_name);
  const std::string& module = graph_.layers[layer_].name;
  std::string name;
  name.reserve(module.size() + 1 + tensor_name.size());
  return name.append(module).append(1, '.').append(tensor_name);
}

// A module inside a block belongs to that block.
LayerId ModelBuilder::child_layer(std::string_view module, int block) {
  const auto known = modules_.find(qualified(module));
  if (known != modules_.end()) return known->second;
  if (block == kNoBlock && layer_.valid()) block = graph_.layers[layer_].block;
  return graph_.add_layer(qualified(module), block);
}

TensorId ModelBuilder::parameter(std::string_view tensor_name, Shape shape) {
  const std::string name = qualified(tensor_name);
  if (repeats_ && roots_.contains(name)) return roots_.at(name);
  return roots_[name] = graph_.add_parameter(name, shape, dtype_, layer_);
}

TensorId ModelBuilder::frozen_parameter(std::string_view tensor_name, Shape shape) {
  return graph_.add_parameter(qualified(tensor_name), shape, dtype_, layer_, false);
}

TensorId ModelBuilder::buffer(std::string_view tensor_name, Shape shape, DType dtype) {
  const std::string name = qualified(tensor_name);
  if (repeats_ && roots_.contains(name)) return roots_.at(name);
  return roots_[name] = graph_.add_buffer(name, shape, dtype, layer_);
}

void ModelBuilder::repeat() {
  if (repeats_) return;
  repeats_ = true;
  for (const LayerId id : ids_of(graph_.layers))
    modules_.emplace(graph_.layers[id].name, id);
}

TensorId ModelBuilder::input(std::string_view tensor_name, Shape shape, DType dtype) {
  return graph_.add_input(std::string(tensor_name), shape, dtype);
}

std::vector<TensorId> ModelBuilder::add_many(std::string_view family, std::vector<TensorId> inputs,
                                             Attributes attributes) {
  return add_many(builder_detail::family_named(family), std::move(inputs), std::move(attributes));
}

std::vector<TensorId> ModelBuilder::add_many(const OperatorFamily& family,
                                             std::vector<TensorId> inputs, Attributes attributes) {
  const NodeId node = graph_.add_node(family, std::move(inputs), std::move(attributes), layer_);
  return graph_.nodes[node].outputs;
}

TensorId ModelBuilder::add(std::string_view family, std::vector<TensorId> inputs,
                           Attributes attributes) {
  const NodeId node = graph_.add_node(builder_detail::family_named(family), std::move(inputs),
                                      std::move(attributes), layer_);
  return graph_.output(node);
}

TensorId ModelBuilder::linear(std::string_view module, TensorId x, std::int64_t out_features,
                              bool bias) {
  const Scope layer = scope(module);
  const TensorId weight = parameter("weight", {out_features, shape(x)[-1]});
  return linear_with(x, weight, bias ? parameter("bias", {out_features}) : TensorId());
}

TensorId ModelBuilder::conv1d_linear(std::string_view module, TensorId x,
                                     std::int64_t out_features) {
  const Scope layer = scope(module);
  const std::int64_t in_features = shape(x)[-1];
  const TensorId weight = parameter("weight", {in_features, out_features});
  const TensorId bias = parameter("bias", {out_features});
  return add("linear", {x, weight, bias}, {{"transposed_weight", std::int64_t{1}}});
}

// Rows that are not contiguous are copied first, as torch.matmul folds its operand, unless it may
// multiply them in batches instead (operators/products/linear.cpp).
TensorId ModelBuilder::linear_with(TensorId x, TensorId weight, TensorId bias) {
  const Tensor& input = tensor(x);
  if (input.shape.rank() > 2) {
    const Shape rows{input.elements().count / input.shape[-1], input.shape[-1]};
    Strides strides;
    if (!view_strides(input.shape, input.strides, rows, strides) && !has_transposed_rows(input)) {
      return add("linear", {contiguous(x), weight, bias}, {{"copied_rows", std::int64_t{1}}});
    }
  }
  return add("linear", {x, weight, bias});
}

TensorId ModelBuilder::embedding(std::string_view module, TensorId indices, std::int64_t rows,
                                 std::int64_t width, TensorId* weight) {
  const Scope layer = scope(module);
  const TensorId table = parameter("weight", {rows, width});
  if (weight != nullptr) *weight = table;
  return add("embedding", {indices, table});
}

TensorId ModelBuilder::layer_norm(std::string_view module, TensorId x, bool bias) {
  const Scope layer = scope(module);
  const Shape width{shape(x)[-1]};
  const TensorId weight = parameter("weight", width);
  return add("layer_norm", {x, weight, bias ? parameter("bias", width) : TensorId()});
}

// Hugging Face's LlamaRMSNorm.forward:
//   hidden = x.to(float32)
//   hidden = hidden * rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps)
//   return weight * hidden.to(x.dtype)
TensorId ModelBuilder::rms_norm(std::string_view module, TensorId x, bool eager) {
  const Scope layer = scope(module);
  const TensorId weight = parameter("weight", {shape(x)[-1]});
  if (!eager) return add("rms_norm", {x, weight});
  const DType dtype = tensor(x).dtype;
  const TensorId hidden = cast(x, DType::kFloat32);
  const TensorId squares = add("pow", {hidden}, {{"exponent", 2.0}});
  const TensorId variance =
      add("mean", {squares},
          {{"axes", std::vector<std::int64_t>{-1}}, {"keepdim", builder_detail::flag(true)}});
  const TensorId rstd = add("rsqrt", {add("add_scalar", {variance})});
  return multiply(weight, cast(multiply(hidden, rstd), dtype));
}

TensorId ModelBuilder::batch_norm(std::string_view module, TensorId x) {
  const Scope layer = scope(module);
  const Shape channels{shape(x)[1]};
  const TensorId weight = parameter("weight", channels);
  const TensorId bias = parameter("bias", channels);
  const TensorId mean = buffer("running_mean", channels, dtype_);
  const TensorId variance = buffer("running_var", channels, dtype_);
  const TensorId batches = buffer("num_batches_tracked", {}, DType::kInt64);
  const TensorId result = add("batch_norm", {x, weight, bias});
  add_many("update_running_stats", {mean, variance, batches},
           {{"in_place", builder_detail::flag(true)}});
  return result;
}

TensorId ModelBuilder::conv2d(std::string_view module, TensorId x, std::int64_t out_channels,
                              Conv2dOptions options) {
  const Scope layer = scope(module);
  const std::int64_t groups = std::max<std::int64_t>(options.groups, 1);
  const TensorId weight =
      parameter("weight", {out_channels, shape(x)[1] / groups, options.kernel, options.kernel});
  const TensorId bias = options.bias ? parameter("bias", {out_channels}) : TensorId();
  return add("conv2d", {x, weight, bias},
             {{"stride", options.stride},
              {"padding", options.padding},
              {"dilation", options.dilation},
              {"groups", options.groups}});
}

// The weight is [in, out / groups, kernel, kernel].
TensorId ModelBuilder::conv_transpose2d(std::string_view module, TensorId x,
                                        std::int64_t out_channels, Conv2dOptions options) {
  const Scope layer = scope(module);
  const std::int64_t groups = std::max<std::int64_t>(options.groups, 1);
  const TensorId weight =
      parameter("weight", {shape(x)[1], out_channels / groups, options.kernel, options.kernel});
  const TensorId bias = options.bias ? parameter("bias", {out_channels}) : TensorId();
  return add("conv_transpose2d", {x, weight, bias},
             {{"stride", options.stride},
              {"padding", options.padding},
              {"dilation", options.dilation},
              {"groups", options.groups}});
}

TensorId ModelBuilder::group_norm(std::string_view module, TensorId x, std::int64_t groups) {
  const Scope layer = scope(module);
  const Shape channels{shape(x)[1]};
  const TensorId weight = parameter("weight", channels);
  const TensorId bias = parameter("bias", channels);
  return add("group_norm", {x, weight, bias}, {{"groups", groups}});
}

TensorId ModelBuilder::max_pool2d(TensorId x, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding) {
  return add("max_pool2d", {x}, {{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
}

TensorId ModelBuilder::avg_pool2d(TensorId x, std::int64_t kernel, std::int64_t stride,
                                  std::int64_t padding) {
  return add("avg_pool2d", {x}, {{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
}

// adaptive_avg_pool2d(1) is x.mean([-1, -2], keepdim=True).
TensorId ModelBuilder::global_avg_pool2d(TensorId x) {
  return add(
      "mean", {x},
      {{"axes", std::vector<std::int64_t>{-1, -2}}, {"keepdim", builder_detail::flag(true)}});
}

TensorId ModelBuilder::activation(std::string_view kind, TensorId x, bool in_place) {
  if (kind == "gelu_new" || kind == "new_gelu") return gelu_new(x);
  if (kind == "gelu_tanh") return add("gelu", {x}, {{"approximate", std::string("tanh")}});
  if (in_place) return add(kind, {x}, {{"in_place", builder_detail::flag(true)}});
  return add(kind, {x});
}

// Hugging Face's NewGELUActivation, an eager chain:
//   0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0))))
TensorId ModelBuilder::gelu_new(TensorId x) {
  const TensorId half = scale(x);
  const TensorId cubic = scale(add("pow", {x}, {{"exponent", 3.0}}));
  const TensorId inner = scale(add_tensors(x, cubic));
  return multiply(half, add("add_scalar", {add("tanh", {inner})}));
}

TensorId ModelBuilder::softmax(TensorId x) {
  return add("softmax", {x});
}

TensorId ModelBuilder::dropout(TensorId x, double p, bool in_place) {
  Attributes attributes{{"p", p}};
  if (in_place && p > 0) attributes.set("in_place", builder_detail::flag(true));
  return add("dropout", {x}, std::move(attributes));
}

TensorId ModelBuilder::add_tensors(TensorId a, TensorId b, bool in_place) {
  if (in_place) return add("add", {a, b}, {{"in_place", builder_detail::flag(true)}});
  return add("add", {a, b});
}

TensorId ModelBuilder::multiply(TensorId a, TensorId b) {
  return add("mul", {a, b});
}
TensorId ModelBuilder::scale(TensorId x) {
  return add("scale", {x});
}

// A source made for the longest sequence is cut to the shape of x: mask[:, :, :T, :T].
TensorId ModelBuilder::masked_fill(TensorId x, TensorId mask_source) {
  for (int axis = -1; axis >= -2; --axis) {
    if (shape(mask_source).rank() < -axis || shape(x).rank() < -axis) break;
    const std::int64_t length = shape(x)[axis];
    if (shape(mask_source)[axis] <= length) continue;
    mask_source = add("narrow", {mask_source}, {{"axis", std::int64_t{axis}}, {"length", length}});
  }
  return add("masked_fill", {x, mask_source});
}

TensorId ModelBuilder::cast(TensorId x, DType dtype) {
  return add("cast", {x}, {{"dtype", std::string(name_of(dtype))}});
}

TensorId ModelBuilder::cast_back(TensorId x, DType dtype) {
  return add("cast", {x},
             {{"dtype", std::string(name_of(dtype))}, {"restores_type", std::int64_t{1}}});
}

TensorId ModelBuilder::view(TensorId x, Shape shape) {
  return add("view", {x}, {{"shape", builder_detail::list_of(shape)}});
}

TensorId ModelBuilder::reshape(TensorId x, Shape shape) {
  return add("reshape", {x}, {{"shape", builder_detail::list_of(shape)}});
}

TensorId ModelBuilder::transpose(TensorId x, int axis_a, int axis_b) {
  return add("transpose", {x},
             {{"axis_a", std::int64_t{axis_a}}, {"axis_b", std::int64_t{axis_b}}});
}

TensorId ModelBuilder::contiguous(TensorId x) {
  return add("contiguous", {x});
}

TensorId ModelBuilder::expand(TensorId x, Shape shape) {
  return add("expand", {x}, {{"shape", builder_detail::list_of(shape)}});
}

TensorId ModelBuilder::flatten(TensorId x, int from_axis) {
  Shape flat;
  for (int axis = 0; axis < from_axis; ++axis)
    flat.push_back(shape(x)[axis]);
  flat.push_back(-1);
  return reshape(x, flat);
}

std::vector<TensorId> ModelBuilder::split(TensorId x, std::int64_t size, int axis) {
  return add_many("split", {x}, {{"size", size}, {"axis", std::int64_t{axis}}});
}

TensorId ModelBuilder::cat(std::vector<TensorId> parts, int axis) {
  return add("cat", std::move(parts), {{"axis", std::int64_t{axis}}});
}

TensorId ModelBuilder::rotary(TensorId x, TensorId cos, TensorId sin) {
  return add("rotary", {x, cos, sin});
}

TensorId ModelBuilder::attention(TensorId q, TensorId k, TensorId v, AttentionKind kind,
                                 bool causal, double dropout_p, TensorId mask) {
  if (kind == AttentionKind::kFlash) {
    return add("attention", {q, k, v},
               {{"causal", builder_detail::flag(causal)}, {"dropout_p", dropout_p}});
  }
  TensorId scores = scale(matmul(q, transpose(k, -2, -1)));
  if (causal && mask.valid()) scores = masked_fill(scores, mask);
  return matmul(dropout(softmax(scores), dropout_p), v);
}

// F.cross_entropy is log_softmax and nll_loss; narrower logits are converted to fp32 before, as
// autocast and Hugging Face's models do.
void ModelBuilder::cross_entropy_loss(TensorId logits, bool narrow) {
  if (!graph_.logits.valid()) graph_.logits = logits;
  TensorId scores = logits;
  if (shape(scores).rank() == 3) scores = view(scores, {-1, shape(scores)[-1]});
  Shape target_shape;
  for (int axis = 0; axis < shape(scores).rank(); ++axis) {
    if (axis != 1) target_shape.push_back(shape(scores)[axis]);
  }
  const TensorId target = input("targets", target_shape, DType::kInt64);
  if (!narrow && bits_of(tensor(scores).dtype) < bits_of(DType::kFloat32)) {
    scores = cast(scores, DType::kFloat32);
  }
  const TensorId log_probabilities = add("log_softmax", {scores}, {{"axis", std::int64_t{1}}});
  graph_.loss = add("nll_loss", {log_probabilities, target});
}

void ModelBuilder::mse_loss(TensorId prediction) {
  if (!graph_.logits.valid()) graph_.logits = prediction;
  const TensorId target = input("targets", shape(prediction), tensor(prediction).dtype);
  graph_.loss = add("mse_loss", {prediction, target});
}

void ModelBuilder::set_samples(std::int64_t samples, std::int64_t tokens) {
  graph_.samples = samples;
  graph_.tokens = tokens;
}

Graph ModelBuilder::finish() {
  return std::move(graph_);
}

}  // namespace tidemark
