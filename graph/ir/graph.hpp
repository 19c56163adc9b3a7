// The forward graph: what the model computes, at the level of autograd nodes.
//
// Append only, nodes in execution order: a node reads tensors of earlier nodes. What autograd
// saves, kernels and gradients appear when the graph is differentiated
// (autodiff/differentiate.hpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/attributes.hpp"
#include "graph/ir/operator_family.hpp"
#include "graph/ir/parameter.hpp"
#include "graph/ir/storage.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

inline constexpr int kNoBlock = -1;

// A module that users name. Layers nest by name: "h.3.attn" is inside "h.3".
struct Layer {
  std::string name;
  // Number of the repeated block (transformer block, residual block) that the module belongs to,
  // counted from 0 in forward order; kNoBlock outside. Checkpointing works on blocks.
  int block = kNoBlock;
};

struct Node {
  const OperatorFamily* family = nullptr;
  Attributes attributes;
  std::vector<TensorId> inputs;  // an absent optional input (a bias) is invalid
  std::vector<TensorId> outputs;
  LayerId layer;
  bool in_place = false;  // an output is an input with new content
};

// A Python variable of the module's code: it keeps `tensor` alive from the node that makes it until
// the function that holds it returns, whatever autograd needs. An attribute of the module, whose
// `until` is invalid, keeps it until the step ends.
struct LocalVariable {
  TensorId tensor;
  NodeId until;
  // Autograd keeps the tensor anyway where it follows it, so that the variable counts only for a
  // tensor without gradient: in evaluation, and below the lowest parameter that is trained.
  bool only_in_evaluation = false;
  // A name under which turns of a step share the tensor (TrainingGraph::turns): the training loop
  // holds it, until the turn ends. Empty for variables of the module.
  std::string shared_as;
  // The model returns it beside or instead of its logits: the training loop says how long its
  // variable names it (HoldOutput).
  bool returned = false;
  // A leaf that is no parameter: the graph that the loss comes from keeps it, and with it its
  // .grad, until the training loop drops the loss.
  bool leaf = false;
};

struct Graph {
  std::string name;
  IdVector<StorageId, Storage> storages;
  IdVector<TensorId, Tensor> tensors;
  IdVector<NodeId, Node> nodes;
  IdVector<LayerId, Layer> layers;
  IdVector<ParameterId, Parameter> parameters;  // each once, however often it is used
  std::vector<LocalVariable> locals;
  TensorId logits;  // the model's main output
  // Further outputs of the model. The caller holds them, and with them what autograd keeps of their
  // operators.
  std::vector<TensorId> other_outputs;
  TensorId loss;               // a scalar; invalid without a loss
  std::int64_t samples = 0;    // samples per micro-batch
  bool fixes_samples = false;  // a file states their number: training.micro_batch can be no other
  std::int64_t tokens = 0;     // tokens per micro-batch; 0 for images
  int blocks = 0;              // repeated blocks, numbered 0 .. blocks-1
  // Sentences on what the model's file says and the graph leaves out, for the warnings of points.
  std::vector<std::string> remarks;

  LayerId add_layer(std::string layer_name, int block = kNoBlock);
  TensorId add_parameter(std::string parameter_name, Shape shape, DType dtype, LayerId layer,
                         bool trained = true);
  TensorId add_buffer(std::string buffer_name, Shape shape, DType dtype, LayerId layer);
  TensorId add_input(std::string input_name, Shape shape, DType dtype);
  // Adds a node, infers its outputs by the family's shape rule and returns the node.
  // Throws UserError naming operator, layer and shapes when they do not fit.
  NodeId add_node(const OperatorFamily& family, std::vector<TensorId> inputs, Attributes attributes,
                  LayerId layer);
  [[nodiscard]] TensorId output(NodeId node, std::size_t index = 0) const {
    return nodes[node].outputs[index];
  }

  [[nodiscard]] Elements parameter_count() const { return parameter_elements(parameters); }
  [[nodiscard]] Elements trainable_parameter_count() const { return trained_elements(parameters); }
  // Returns "h.3.attn: matmul" for messages.
  [[nodiscard]] std::string describe(NodeId node) const;
  // Returns the repeated block that a layer lies in, kNoBlock for none.
  [[nodiscard]] int block_of(LayerId id) const { return id.valid() ? layers[id].block : kNoBlock; }

 private:
  TensorId add_root(std::string root_name, Shape shape, DType dtype, LayerId layer, Role role);
};

// Checks what every pass may rely on: ids exist, a node reads roots and outputs of earlier nodes, a
// tensor is made once, layers belong to one of `blocks`. Throws InternalError.
void check_invariants(const Graph& graph);

}  // namespace tidemark
