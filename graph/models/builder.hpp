// Writes forward graphs the way PyTorch modules are written: one function per torch function,
// layers as scopes. Presets, importers and YAML layer lists all build through it, so a composite
// such as matmul of head-split views makes the same copies everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

enum class AttentionKind { kMath, kFlash };

struct Conv2dOptions {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

class ModelBuilder {
 public:
  // Makes parameters, buffers and activations in `dtype`.
  ModelBuilder(std::string model_name, DType dtype);

  // Modules. A Scope names what is added while it exists: nested scopes are joined by dots.
  //   auto block = builder.block("h.3");   // a repeated block, numbered in order
  //   auto attn = builder.scope("attn");   // layer "h.3.attn"
  class Scope {
   public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();
    // Adds a Python variable of this module's forward(): `tensor` lives until the scope ends.
    void local(TensorId tensor) { locals_.push_back({tensor, {}}); }
    // Adds a Python variable of a tensor that autograd saves anyway: nothing changes while
    // training.
    void local_in_evaluation(TensorId tensor) { locals_.push_back({tensor, {}, true}); }

   private:
    friend class ModelBuilder;
    Scope(ModelBuilder& builder, LayerId outer) : builder_(builder), outer_(outer) {}
    ModelBuilder& builder_;
    LayerId outer_;
    std::vector<LocalVariable> locals_;
  };
  [[nodiscard]] Scope scope(std::string_view module);
  // Opens a function frame that is no module of its own: it only holds variables.
  [[nodiscard]] Scope frame() { return {*this, layer_}; }
  [[nodiscard]] Scope block(std::string_view module);
  // Makes a layer, for importers whose nodes carry the full names of their modules. Everything
  // added from now on belongs to it (to none when invalid). `block` may be kNoBlock.
  LayerId add_layer(std::string module, int block);
  void enter(LayerId layer) { layer_ = layer; }

  // Roots. Names are prefixed by the scope: "h.3.attn.c_attn.weight".
  TensorId parameter(std::string_view tensor_name, Shape shape);
  // Adds a parameter with requires_grad = False.
  TensorId frozen_parameter(std::string_view tensor_name, Shape shape);
  TensorId buffer(std::string_view tensor_name, Shape shape, DType dtype);
  TensorId input(std::string_view tensor_name, Shape shape, DType dtype);

  // Begins another forward pass: from now on modules, parameters and buffers that exist are used
  // again by their names.
  void repeat();

  // Adds any node; the functions below are shorthands and composites.
  TensorId add(std::string_view family, std::vector<TensorId> inputs, Attributes attributes = {});
  std::vector<TensorId> add_many(std::string_view family, std::vector<TensorId> inputs,
                                 Attributes attributes);
  std::vector<TensorId> add_many(const OperatorFamily& family, std::vector<TensorId> inputs,
                                 Attributes attributes);

  // Adds a function that works in place on `x` and returns what `x` is afterwards. On a view,
  // autograd changes the tensor that it is of; a root is not changed, the function makes a copy.
  TensorId add_in_place(std::string_view family, TensorId x, Attributes attributes = {});
  // Adds an attribute of a module: `tensor` lives until the step ends.
  void keep_in_module(TensorId tensor) { graph_.locals.push_back({tensor, {}}); }
  // Adds a variable of a function that returns behind the node `until`.
  void hold_until(TensorId tensor, NodeId until) { graph_.locals.push_back({tensor, until}); }
  // Returns the node that was added last; invalid before the first.
  [[nodiscard]] NodeId last_node() const {
    return graph_.nodes.empty() ? NodeId() : NodeId(graph_.nodes.size() - 1);
  }
  // Turns of a step share the tensor under this name.
  void share_as(TensorId tensor, std::string name) {
    graph_.locals.push_back({tensor, {}, false, std::move(name)});
  }

  // torch.nn.functional. linear's weight is [out, in]; `module` names its parameters.
  TensorId linear(std::string_view module, TensorId x, std::int64_t out_features, bool bias = true);
  // transformers' Conv1D, of GPT-2: torch.addmm(bias, x.view(-1, in), weight), weight [in, out].
  TensorId conv1d_linear(std::string_view module, TensorId x, std::int64_t out_features);
  TensorId linear_with(TensorId x, TensorId weight, TensorId bias = {});  // tied weights
  TensorId embedding(std::string_view module, TensorId indices, std::int64_t rows,
                     std::int64_t width, TensorId* weight = nullptr);
  TensorId layer_norm(std::string_view module, TensorId x, bool bias = true);
  // `eager`: the decomposed form of Hugging Face's modules, which keeps more than a fused kernel.
  TensorId rms_norm(std::string_view module, TensorId x, bool eager);
  TensorId batch_norm(std::string_view module, TensorId x);
  TensorId conv2d(std::string_view module, TensorId x, std::int64_t out_channels,
                  Conv2dOptions options);
  TensorId conv_transpose2d(std::string_view module, TensorId x, std::int64_t out_channels,
                            Conv2dOptions options);
  TensorId group_norm(std::string_view module, TensorId x, std::int64_t groups);
  TensorId max_pool2d(TensorId x, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
  TensorId avg_pool2d(TensorId x, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
  TensorId global_avg_pool2d(TensorId x);  // AdaptiveAvgPool2d(1)
  // `kind`: relu, gelu, gelu_tanh, gelu_new (Hugging Face's composed NewGELUActivation), silu, ...
  TensorId activation(std::string_view kind, TensorId x, bool in_place = false);
  TensorId softmax(TensorId x);  // softmax over the last axis
  TensorId dropout(TensorId x, double p, bool in_place = false);
  TensorId add_tensors(TensorId a, TensorId b, bool in_place = false);
  TensorId multiply(TensorId a, TensorId b);
  TensorId scale(TensorId x);                              // multiplies by a Python scalar
  TensorId masked_fill(TensorId x, TensorId mask_source);  // keeps x where the buffer is 0
  TensorId cast(TensorId x, DType dtype);
  // Casts to the type of the model's own values, also where a policy gives these another one later.
  TensorId cast_back(TensorId x, DType dtype);
  // Shapes. Views where torch makes views; reshape and contiguous copy where torch copies.
  TensorId view(TensorId x, Shape shape);
  TensorId reshape(TensorId x, Shape shape);
  TensorId transpose(TensorId x, int axis_a, int axis_b);
  TensorId contiguous(TensorId x);
  TensorId expand(TensorId x, Shape shape);
  TensorId flatten(TensorId x, int from_axis);
  std::vector<TensorId> split(TensorId x, std::int64_t size, int axis);
  TensorId cat(std::vector<TensorId> parts, int axis);
  // Multiplies as torch.matmul: batch axes are flattened, operands copied where their strides
  // demand it, bmm.
  TensorId matmul(TensorId a, TensorId b);
  TensorId rotary(TensorId x, TensorId cos, TensorId sin);
  // Computes scaled_dot_product_attention on [batch, heads, length, width]. kMath is written out as
  // in nanoGPT: matmul, scale, masked_fill with `mask` (if causal), softmax, dropout, matmul.
  TensorId attention(TensorId q, TensorId k, TensorId v, AttentionKind kind, bool causal,
                     double dropout_p, TensorId mask);
  // Adds the mean cross-entropy; int64 targets of the logits' shape without the class axis (the
  // last axis for rank 3, flattened to [-1, V]; axis 1 otherwise) become an input.
  // Logits of 16 bits are cast to fp32 before, unless they are left `narrow`.
  void cross_entropy_loss(TensorId logits, bool narrow = false);
  void mse_loss(TensorId prediction);

  [[nodiscard]] const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  // Whether it is, or is a view of, a parameter, a buffer or an input.
  [[nodiscard]] bool is_root(TensorId id) const {
    return graph_.storages[tensor(id).storage].role != Role::kTemporary;
  }
  [[nodiscard]] const Shape& shape(TensorId id) const { return graph_.tensors[id].shape; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  void set_samples(std::int64_t samples, std::int64_t tokens);
  void fix_samples() { graph_.fixes_samples = true; }
  void set_output(TensorId logits) { graph_.logits = logits; }
  void add_other_output(TensorId output) { graph_.other_outputs.push_back(output); }
  void set_loss(TensorId loss) { graph_.loss = loss; }
  [[nodiscard]] Graph finish();

 private:
  [[nodiscard]] std::string qualified(std::string_view tensor_name) const;
  [[nodiscard]] LayerId child_layer(std::string_view module, int block);
  TensorId gelu_new(TensorId x);
  struct ViewOf {
    TensorId base;         // the tensor that was made, or `x` itself
    bool is_view = false;  // whether autograd sees `x` as a view of it
  };
  [[nodiscard]] ViewOf view_of(TensorId x) const;

  Graph graph_;
  DType dtype_;
  LayerId layer_;
  bool repeats_ = false;                    // a later pass than the first
  std::map<std::string, TensorId> roots_;   // parameters and buffers
  std::map<std::string, LayerId> modules_;  // modules of the first pass; empty during it
};

}  // namespace tidemark
