// nn.LSTM, nn.GRU and nn.RNN of one layer and direction. The exporter reorders the gates of every
// weight by slices and joins, which the real step does not do: the parameters behind them count.
#include <set>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace {

// The initializers that `value` is put together from, each once, in order.
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
  for (OnnxValueId root : roots)
    tensors.push_back(l.tensor(root));
  return tensors;
}

// Weights that the exporter has folded stand as [1, gates * hidden, features].
TensorId without_direction(OnnxLowering& l, TensorId weight) {
  const Shape& shape = l.builder().shape(weight);
  return shape.rank() == 3 && shape[0] == 1 ? l.builder().view(weight, {shape[1], shape[2]})
                                            : weight;
}

// Results: Y [length, 1, batch, hidden], the last hidden state and, of an LSTM, the last cell
// state.
void lower_recurrent(OnnxLowering& l, std::string_view family) {
  ModelBuilder& b = l.builder();
  const std::string direction = l.node().get<std::string>("direction", "forward");
  if (direction == "bidirectional") l.fail("two directions in one node are not simulated");
  if (l.node().integer("layout") != 0) l.fail("only [length, batch, features] is simulated");
  if (family == "gru" && l.node().integer("linear_before_reset") == 0) {
    l.fail("PyTorch's GRU has linear_before_reset = 1");
  }
  const std::vector<TensorId> input_weights = parameters_behind(l, 1);
  const std::vector<TensorId> hidden_weights = parameters_behind(l, 2);
  std::vector<TensorId> biases = parameters_behind(l, 3);
  if (input_weights.size() != 1 || hidden_weights.size() != 1 || biases.size() > 2) {
    l.fail("its weights are not the parameters of one layer");
  }
  if (biases.size() == 1) {  // folded: [1, 2 * gates * hidden]
    const std::int64_t rows = element_count(b.shape(biases[0])) / 2;
    const TensorId both = b.view(biases[0], {2 * rows});
    biases = b.split(both, rows, 0);
  }
  std::vector<TensorId> operands{l.operand(0), without_direction(l, input_weights[0]),
                                 without_direction(l, hidden_weights[0])};
  operands.insert(operands.end(), biases.begin(), biases.end());
  const std::vector<TensorId> results = b.add_many(family, operands, {{"layers", std::int64_t{1}}});
  const Shape shape = b.shape(results[0]);
  l.set(b.view(results[0], {shape[0], 1, shape[1], shape[2]}));
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

}  // namespace

std::span<const OnnxOperator> onnx_recurrent_operators() {
  return kOperators;
}

}  // namespace tidemark
