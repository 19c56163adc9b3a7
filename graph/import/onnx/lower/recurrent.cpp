// nn.LSTM, nn.GRU and nn.RNN, one layer of one or two directions. The exporter reorders the gates
// of every weight by slices and joins, which the real step does not do: the parameters behind them
// count.
#include <set>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_recurrent {

// Returns the initializers that `value` is put together from, each once, in order.
std::vector<OnnxValueId> roots_of(const OnnxLowering& l, OnnxValueId value) {
  std::vector<OnnxValueId> roots;
  std::set<OnnxValueId> seen;
  std::vector<OnnxValueId> pending{value};
  while (!pending.empty()) {
    const OnnxValueId at = pending.back();
    pending.pop_back();
    if (!at.valid() || !seen.insert(at).second) continue;
    if (l.is_initializer(at)) {
      roots.push_back(at);
      continue;
    }
    const OnnxNodeId source = l.uses().producer[at];
    if (!source.valid()) continue;
    const OnnxNode& node = l.file().nodes[source];
    const bool joins = node.op == "Concat";
    const bool passes = node.op == "Unsqueeze" || node.op == "Squeeze" || node.op == "Slice" ||
                        node.op == "Transpose" || node.op == "Identity" || node.op == "Reshape";
    if (passes && !node.inputs.empty()) pending.push_back(node.inputs.front());
    if (joins) pending.insert(pending.end(), node.inputs.rbegin(), node.inputs.rend());
  }
  return roots;
}

std::vector<TensorId> parameters_behind(OnnxLowering& l, std::size_t operand) {
  std::vector<OnnxValueId> roots;
  if (l.has(operand)) roots = roots_of(l, l.node().inputs[operand]);
  std::vector<TensorId> tensors;
  tensors.reserve(roots.size());
  for (OnnxValueId root : roots)
    tensors.push_back(l.tensor(root));
  return tensors;
}

// Returns the parameters of each direction. Weights that the exporter has folded are one tensor
// [directions, ...].
std::vector<TensorId> by_direction(OnnxLowering& l, const std::vector<TensorId>& found,
                                   std::int64_t directions) {
  ModelBuilder& b = l.builder();
  std::vector<TensorId> tensors;
  for (TensorId tensor : found) {
    const Shape shape = b.shape(tensor);
    if (shape.rank() != 3) {
      tensors.push_back(tensor);
    } else if (shape[0] == 1 || static_cast<std::int64_t>(found.size()) == directions) {
      tensors.push_back(b.view(tensor, {shape[0] * shape[1], shape[2]}));
    } else {
      for (TensorId part : b.split(tensor, 1, 0))
        tensors.push_back(b.view(part, {shape[1], shape[2]}));
    }
  }
  return tensors;
}

// Returns bias_ih and bias_hh of each direction; folded they are one tensor [directions, 2 * rows].
std::vector<TensorId> biases_by_direction(OnnxLowering& l, const std::vector<TensorId>& found,
                                          std::int64_t directions) {
  if (static_cast<std::int64_t>(found.size()) != 1) return found;
  ModelBuilder& b = l.builder();
  const std::int64_t elements = element_count(b.shape(found[0])).count;
  if (elements % (2 * directions) != 0) l.fail("its bias does not divide into two per direction");
  return b.split(b.view(found[0], {elements}), elements / (2 * directions), 0);
}

// Counts the layers of the stack that the node is one of, and those before it.
struct Stack {
  std::int64_t layers = 0;
  std::int64_t before = 0;
};
Stack stack_of(const OnnxLowering& l) {
  Stack stack;
  const std::string module = l.module_of(l.id());
  for (OnnxNodeId id : ids_of(l.file().nodes)) {
    if (l.file().nodes[id].op != l.node().op || l.module_of(id) != module) continue;
    ++stack.layers;
    if (id < l.id()) ++stack.before;
  }
  return stack;
}

// Returns the layer's part of the zeros that the module makes for its whole stack.
std::vector<TensorId> zero_states(OnnxLowering& l, std::string_view family, const Stack& stack,
                                  std::int64_t directions, TensorId weight) {
  ModelBuilder& b = l.builder();
  std::vector<TensorId>& zeros = l.zeros_of_module();
  const std::size_t count = family == "lstm" ? 2 : 1;
  const std::vector<std::int64_t> shape{stack.layers * directions, l.shape_of_operand(0)[1],
                                        b.shape(weight)[1]};
  while (zeros.size() < count) {
    zeros.push_back(
        b.add_many("zeros", {},
                   {{"shape", shape}, {"dtype", std::string(name_of(b.tensor(weight).dtype))}})[0]);
  }
  std::vector<TensorId> states;
  states.reserve(zeros.size());
  for (TensorId whole : zeros) {
    states.push_back(b.add(
        "narrow", {whole},
        {{"axis", std::int64_t{0}}, {"start", stack.before * directions}, {"length", directions}}));
  }
  return states;
}

// Returns h and c if the model computes them, as a decoder starts from its encoder's; none if they
// are the zeros that the module makes.
std::vector<TensorId> initial_states(OnnxLowering& l, std::string_view family) {
  constexpr std::size_t kHidden = 5;
  std::vector<TensorId> states;
  bool given = false;
  for (std::size_t i = kHidden; i < kHidden + (family == "lstm" ? 2U : 1U); ++i) {
    if (!l.has(i)) return {};
    given = given || l.constant(l.node().inputs[i]) == nullptr;
  }
  if (!given) return {};
  for (std::size_t i = kHidden; i < kHidden + (family == "lstm" ? 2U : 1U); ++i)
    states.push_back(l.operand(i));
  return states;
}

// Results: Y [length, directions, batch, hidden], the last hidden state and, of an LSTM, the last
// cell state. PyTorch's output has the directions side by side along its features, which Y is a
// view of.
void lower_recurrent(OnnxLowering& l, std::string_view family) {
  ModelBuilder& b = l.builder();
  const std::string direction = l.node().get<std::string>("direction", "forward");
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (l.node().integer("layout") != 0) l.fail("only [length, batch, features] is simulated");
  if (family == "gru" && l.node().integer("linear_before_reset") == 0) {
    l.fail("PyTorch's GRU has linear_before_reset = 1");
  }
  const auto wanted = static_cast<std::size_t>(directions);
  const std::vector<TensorId> input_weights = by_direction(l, parameters_behind(l, 1), directions);
  const std::vector<TensorId> hidden_weights = by_direction(l, parameters_behind(l, 2), directions);
  const std::vector<TensorId> biases = biases_by_direction(l, parameters_behind(l, 3), directions);
  if (input_weights.size() != wanted || hidden_weights.size() != wanted ||
      (!biases.empty() && biases.size() != 2 * wanted)) {
    l.fail("its weights are not the parameters of one layer");
  }
  std::vector<TensorId> operands{l.operand(0)};
  for (std::size_t i = 0; i < wanted; ++i) {
    operands.push_back(input_weights[i]);
    operands.push_back(hidden_weights[i]);
    if (biases.empty()) continue;
    operands.push_back(biases[2 * i]);
    operands.push_back(biases[2 * i + 1]);
  }
  std::vector<TensorId> states = initial_states(l, family);
  const Stack stack = stack_of(l);
  if (states.empty() && stack.layers > 1) {
    states = zero_states(l, family, stack, directions, hidden_weights[0]);
  }
  operands.insert(operands.end(), states.begin(), states.end());
  const std::vector<TensorId> results =
      b.add_many(family, operands,
                 {{"layers", std::int64_t{1}},
                  {"bidirectional", std::int64_t{directions - 1}},
                  {"initial_states", std::int64_t{states.empty() ? 0 : 1}},
                  {"final_states_are_views", std::int64_t{stack.layers > 1 ? 1 : 0}}});
  const Shape shape = b.shape(results[0]);
  const TensorId split =
      b.view(results[0], {shape[0], shape[1], directions, shape[2] / directions});
  l.set(b.transpose(split, 1, 2));
  for (std::size_t i = 1; i < results.size(); ++i)
    l.set(results[i], i);
}

void lower_lstm(OnnxLowering& l) {
  lower_recurrent(l, "lstm");
}
void lower_gru(OnnxLowering& l) {
  lower_recurrent(l, "gru");
}
void lower_rnn(OnnxLowering& l) {
  lower_recurrent(l, "rnn");
}

constexpr OnnxOperator kOperators[] = {
    {"LSTM", lower_lstm}, {"GRU", lower_gru}, {"RNN", lower_rnn}};

}  // namespace onnx_recurrent

std::span<const OnnxOperator> onnx_recurrent_operators() {
  return onnx_recurrent::kOperators;
}

}  // namespace tidemark
