// torch.nn.LSTM, GRU and RNN (tanh), all layers in one node. On CUDA cuDNN runs them as one call
// with a reserve; elsewhere they are decomposed into steps (recurrent_steps.hpp), whose saved
// tensors are one allocation per kind here. With `bidirectional` each layer runs both ways over its
// input.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/products/recurrent_steps.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace recurrent_family_detail {

constexpr std::size_t kX = 0;  // [steps, batch, features]; batch first with the attribute
// Inputs after x, for each layer and direction: weight_ih [gates * hidden, features], weight_hh
// [gates * hidden, hidden] and with a bias bias_ih and bias_hh [gates * hidden]. With the attribute
// `initial_states` the last inputs are h, and c of an LSTM, [layers * directions, batch, hidden];
// without it zeros are made.

// Per step and hidden unit, cuDNN's reserve keeps activated gates, the cell state and the state
// itself. The layout is not published: an assumption, checked against no measurement.
constexpr std::int64_t reserve_units(CellKind cell) {
  constexpr std::array<std::int64_t, 3> kUnits = {6, 5, 2};
  return kUnits.at(static_cast<std::size_t>(cell));
}

template <class NodeLike>
CellKind cell_of(const NodeLike& node) {
  return static_cast<CellKind>(node.family_variant());
}

// Counts the initial states, which stand at the end of the inputs.
template <class NodeLike>
std::size_t given_states(const NodeLike& node) {
  if (!node.attributes().flag("initial_states")) return 0;
  return cell_of(node) == CellKind::kLstm ? 2 : 1;
}

template <class NodeLike>
std::size_t weight_count(const NodeLike& node) {
  const std::size_t others = 1 + given_states(node);
  return node.input_count() > others ? node.input_count() - others : 0;
}

std::size_t weights_per_run(std::size_t weights, std::int64_t runs) {
  return runs > 0 ? weights / static_cast<std::size_t>(runs) : 0;
}

// Whether Linear of all steps multiplies a copy, because their rows are not evenly spaced in
// memory.
bool needs_copy(const Tensor& by_steps) {
  Strides strides;
  const Shape rows{by_steps.shape[0] * by_steps.shape[1], by_steps.shape[2]};
  return !view_strides(by_steps.shape, by_steps.strides, rows, strides);
}

template <class NodeLike>
RecurrentSize size_of_node(const NodeLike& node) {
  const Tensor& x = node.input(kX);
  const bool batch_first = node.attributes().flag("batch_first");
  RecurrentSize size{.cell = cell_of(node),
                     .steps = x.shape[batch_first ? 1 : 0],
                     .batch = x.shape[batch_first ? 0 : 1],
                     .input = x.shape[2],
                     .layers = node.attributes().integer("layers", 1),
                     .directions = node.attributes().flag("bidirectional") ? 2 : 1,
                     .dtype = x.dtype,
                     .dropout = node.attributes().number("dropout", 0) > 0,
                     .input_gradient = x.requires_grad};
  size.hidden = node.input(2).shape[1];
  size.bias = weights_per_run(weight_count(node), size.layers * size.directions) == 4;
  Tensor by_steps = x;
  if (batch_first) {
    std::swap(by_steps.shape[0], by_steps.shape[1]);
    std::swap(by_steps.strides[0], by_steps.strides[1]);
  }
  size.copies_input = needs_copy(by_steps);
  return size;
}

void require_weights(const Inference& inference, const RecurrentSize& size) {
  const std::int64_t rows = size.gates() * size.hidden;
  const std::size_t each = size.bias ? 4 : 2;
  for (std::int64_t run = 0; run < size.layers * size.directions; ++run) {
    const std::int64_t layer = run / size.directions;
    const std::array<Shape, 4> wanted = {Shape{rows, size.features(layer)},
                                         Shape{rows, size.hidden}, Shape{rows}, Shape{rows}};
    constexpr std::array<std::string_view, 4> kNames = {"weight_ih", "weight_hh", "bias_ih",
                                                        "bias_hh"};
    for (std::size_t i = 0; i < each; ++i) {
      const Tensor& weight = inference.input(1 + static_cast<std::size_t>(run) * each + i);
      inference.require(weight.shape == wanted.at(i), [&] {
        return fmt::format("{} of layer {} has shape {} instead of {}", kNames.at(i), layer,
                           to_string(weight.shape), to_string(wanted.at(i)));
      });
      inference.require(weight.dtype == size.dtype, [&] {
        return fmt::format("the input is {}, but {} is {}: cast one of them", name_of(size.dtype),
                           kNames.at(i), name_of(weight.dtype));
      });
    }
  }
}

// Creates the output, then the final states: h [layers * directions, batch, hidden], and c of an
// LSTM.
void infer(Inference& inference) {
  const Tensor x = inference.input(kX);
  const std::int64_t layers = inference.attributes().integer("layers", 1);
  const double dropout = inference.attributes().number("dropout", 0);
  inference.require(x.shape.rank() == 3, "needs the axes steps, batch and features");
  inference.require(layers >= 1,
                    [&] { return fmt::format("layers is {}; it starts at 1", layers); });
  inference.require(dropout >= 0 && dropout < 1,
                    [&] { return fmt::format("dropout = {} is not in [0, 1)", dropout); });
  const std::int64_t runs = layers * (inference.attributes().flag("bidirectional") ? 2 : 1);
  const std::size_t weights = weight_count(inference);
  const std::size_t each = weights_per_run(weights, runs);
  inference.require((each == 2 || each == 4) && weights == each * static_cast<std::size_t>(runs),
                    "each layer and direction needs two weights and two biases or none");
  inference.require(inference.input(2).shape.rank() == 2, "weight_hh needs two axes");
  const RecurrentSize size = size_of_node(inference);
  require_weights(inference, size);
  for (std::size_t i = 1 + weights; i < inference.input_count(); ++i) {
    const Shape& state = inference.input(i).shape;
    const Shape wanted{runs, size.batch, size.hidden};
    inference.require(state == wanted, [&] {
      return fmt::format("an initial state has shape {} instead of {}", to_string(state),
                         to_string(wanted));
    });
  }
  // Every step of every layer keeps up to ten states of up to four bytes: all of it has an address.
  static_cast<void>(element_count({size.steps, size.batch, size.hidden, runs, 64}));
  const std::int64_t width = size.hidden * size.directions;
  if (inference.attributes().flag("batch_first")) {
    inference.create({size.batch, size.steps, width}, x.dtype, {width, size.batch * width, 1});
  } else {
    inference.create({size.steps, size.batch, width}, x.dtype);
  }
  inference.create({runs, size.batch, size.hidden}, x.dtype);
  if (size.has_cell_state()) inference.create({runs, size.batch, size.hidden}, x.dtype);
}

// Steps wait for each other, so each is a product of its own; cuDNN starts about one kernel a step.
Work work_of(const NodeView& node, const RecurrentSize& size, double share) {
  const std::int64_t directions = size.directions;
  const std::int64_t width = size.hidden * directions;
  const std::int64_t features = size.input + (size.layers - 1) * width + size.layers * size.hidden;
  const double rows = static_cast<double>(size.gates() * size.hidden * directions);
  Work work{.op_class = OperatorClass::kMatmul,
            .dtype = size.dtype,
            .flops = Flops(share * 2.0 * static_cast<double>(size.steps * size.batch) * rows *
                           static_cast<double>(features)),
            .extent = {size.batch, size.gates() * size.hidden, features / size.layers,
                       size.steps * size.layers * directions}};
  for (std::size_t i = 0; i < node.input_count(); ++i)
    work.read += node.input(i).bytes();
  for (std::size_t i = 0; i < (size.has_cell_state() ? 3U : 2U); ++i)
    work.written += node.output(i).bytes();
  constexpr std::int64_t kKernelsPerStep = 8;  // product, gates and states one by one
  const std::int64_t kernels = node.rules().unrolls_recurrence ? kKernelsPerStep : 1;
  work.launches = static_cast<int>(std::min<std::int64_t>(
      size.steps * size.layers * directions * kernels, std::int64_t{1} << 30));
  return work;
}

std::int64_t elements(Bytes bytes, DType dtype) {
  return bytes.count * 8 / bits_of(dtype);
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  const RecurrentSize size = size_of_node(node);
  const auto extra = [&](std::string_view name, Bytes bytes) {
    if (bytes > Bytes(0)) saved.extra(name, {elements(bytes, size.dtype)}, size.dtype);
  };
  for (std::size_t i = 1; i < node.input_count(); ++i) {
    const bool is_bias = size.bias && i <= weight_count(node) && (i - 1) % 4 >= 2;
    if (!is_bias || !node.rules().unrolls_recurrence) saved.input(i);
  }
  if (given_states(node) == 0) extra("initial_states", size.outer_states());
  if (!node.rules().unrolls_recurrence) {  // _cudnn_rnn
    saved.input(kX);
    saved.output();
    Bytes reserve = size.result() * size.layers * reserve_units(size.cell);
    if (size.dropout) reserve += size.result() * (size.layers - 1);
    extra("reserve", reserve);
    return;
  }
  if (size.copies_input) {
    extra("input_by_steps", size.input_bytes() * size.directions);  // one for each product
  } else {
    saved.input(kX);
  }
  extra("steps", saved_by_steps(size) * size.layers * size.directions);
  // The inputs of the layers above the first; with dropout its noise beside its product.
  extra("layer_inputs", size.result() * (size.layers - 1) * (size.dropout ? 2 : 1));
}

Bytes saved_extras(const NodeView& node) {
  SavedSet set(node);
  save(set);
  Bytes sum;
  for (const SavedSet::Extra& extra : set.extras())
    sum += bytes_of(extra.dtype, element_count(extra.shape));
  return sum;
}

Bytes above_zero(Bytes bytes) {
  return std::max(bytes, Bytes(0));
}

ForwardKernel forward(const NodeView& node) {
  const RecurrentSize size = size_of_node(node);
  ForwardKernel kernel{.work = work_of(node, size, 1)};
  if (node.rules().unrolls_recurrence) {
    Bytes made = node.output().requires_grad ? saved_extras(node) : Bytes(0);
    for (std::size_t i = 0; i < (size.has_cell_state() ? 3U : 2U); ++i)
      made += node.output(i).bytes();
    kernel.workspace = above_zero(unrolled_forward_peak(size) - made);
  } else {
    kernel.workspace = size.sequence() * size.gates();  // the products of one layer's input
  }
  return kernel;
}

// The workspace stands for what the steps allocate less what they free of the saved tensors, which
// stay until the node returns.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const RecurrentSize size = size_of_node(node);
  const std::string name = std::string(node.family_name()) + ".backward";
  BackwardBuilder::Kernel kernel{.name = name, .work = work_of(node, size, 2)};
  const std::size_t outputs = size.has_cell_state() ? 3 : 2;
  for (std::size_t i = 0; i < outputs; ++i) {
    if (b.has_output_gradient(i)) kernel.reads.push_back(b.output_gradient(i));
  }
  SavedSet set(node);
  save(set);
  for (std::size_t i : set.inputs())
    kernel.reads.push_back(node.input(i));
  for (std::size_t i : set.outputs())
    kernel.reads.push_back(node.output(i));
  for (const SavedSet::Extra& extra : set.extras())
    kernel.reads.push_back(b.saved(extra.name));
  Bytes made;
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result =
        b.create_like(i == kX ? "input_gradient" : "weight_gradient", node.input(i));
    kernel.creates.push_back(result);
    kernel.work.written += result.bytes();
    made += result.bytes();
    b.set_input_gradient(i, result);
  }
  if (kernel.creates.empty()) return;
  kernel.workspace = node.rules().unrolls_recurrence
                         ? above_zero(unrolled_backward_peak(size) - made)
                         : size.sequence() * size.gates();  // the gates' gradients of one layer
  b.launch(kernel);
}

constexpr OperatorFamily kFamilies[] = {
    {"lstm", "layers of LSTM cells; keeps gates, states and outputs of every step", infer, forward,
     save, backward, InEvaluation::kSame, static_cast<int>(CellKind::kLstm)},
    {"gru", "layers of gated recurrent units; keeps gates and states of every step", infer, forward,
     save, backward, InEvaluation::kSame, static_cast<int>(CellKind::kGru)},
    {"rnn", "layers of tanh(W x + U h); keeps the states of every step", infer, forward, save,
     backward, InEvaluation::kSame, static_cast<int>(CellKind::kRnn)},
};

}  // namespace recurrent_family_detail

std::span<const OperatorFamily> recurrent_families() {
  return recurrent_family_detail::kFamilies;
}

}  // namespace tidemark
