// nn.GRUCell and nn.LSTMCell, whose functions the exporter writes one by one and out of place.
#include <algorithm>
#include <utility>

#include "graph/import/onnx/onnx_match.hpp"
#include "graph/operators/products/recurrent_cells.hpp"

namespace tidemark {
namespace onnx_cell_lowering {

constexpr std::size_t kEither = OnnxMatch::kEither;

auto cell_of(OnnxLowering& l, std::int64_t hidden) {
  return RecurrentCell(
      [&b = l.builder()](std::string_view family, std::vector<TensorId> inputs,
                         Attributes attributes) {
        return b.add_many(family, std::move(inputs), std::move(attributes));
      },
      hidden);
}

// The node that computes `value`, if it is an `op`.
const OnnxNode* producer(const OnnxLowering& l, OnnxValueId value, std::string_view op) {
  const OnnxNodeId source = value.valid() ? l.uses().producer[value] : OnnxNodeId();
  if (!source.valid() || l.file().nodes[source].op != op) return nullptr;
  return &l.file().nodes[source];
}

// Returns the weight of the linear layer that computes `value`: a Gemm or, without a bias, the
// product with the transposed weight. Invalid where it is something else.
OnnxValueId weight_of(const OnnxLowering& l, OnnxValueId value) {
  if (const OnnxNode* gemm = producer(l, value, "Gemm"); gemm != nullptr)
    return gemm->inputs.size() >= 2 ? gemm->inputs[1] : OnnxValueId();
  const OnnxNode* product = producer(l, value, "MatMul");
  const OnnxNode* transposed =
      product == nullptr ? nullptr : producer(l, product->inputs[1], "Transpose");
  const bool of_parameter = transposed != nullptr && l.is_initializer(transposed->inputs[0]);
  return of_parameter ? transposed->inputs[0] : OnnxValueId();
}

// The exporter repeats a constant, such as a state of zeros, for each reader.
bool is_same(OnnxLowering& l, OnnxValueId a, OnnxValueId b) {
  if (a == b) return true;
  const OnnxConstant* first = l.constant(a);
  const OnnxConstant* second = l.constant(b);
  return first != nullptr && second != nullptr && first->dims == second->dims;
}

bool makes_gates(const OnnxNode& split, std::size_t count) {
  return split.outputs.size() == count && split.integer("axis") == 1 &&
         std::all_of(split.outputs.begin(), split.outputs.end(),
                     [](OnnxValueId output) { return output.valid(); });
}

// Begins at the Split of the input's product; that of the state stands behind it.
bool match_gru_cell(OnnxLowering& l) {
  const OnnxNode& of_input = l.node();
  if (!makes_gates(of_input, 3) || !weight_of(l, of_input.inputs[0]).valid()) return false;
  OnnxMatch m(l);
  const OnnxValueId reset_sum = m.next("Add", of_input.outputs[0], 1);
  if (!reset_sum.valid()) return false;
  const OnnxValueId first = m.node_of(reset_sum).inputs[0];
  const OnnxNode* of_state = producer(l, first, "Split");
  if (of_state == nullptr || !makes_gates(*of_state, 3) || of_state->outputs[0] != first) {
    return false;
  }
  const OnnxValueId weight = weight_of(l, of_state->inputs[0]);
  if (!weight.valid() || !l.uses().only_reader(of_state->inputs[0]).valid()) return false;
  const OnnxNode& product = m.node_of(of_state->inputs[0]);
  const OnnxValueId h = product.inputs[0];
  const OnnxValueId reset = m.next("Sigmoid", reset_sum, 0);
  const OnnxValueId update_sum = m.next("Add", of_input.outputs[1], 1, of_state->outputs[1]);
  if (!reset.valid() || !update_sum.valid()) return false;
  const OnnxValueId update = m.next("Sigmoid", update_sum, 0);
  const OnnxValueId gated = m.next("Mul", reset, 1, of_state->outputs[2]);
  if (!update.valid() || !gated.valid()) return false;
  const OnnxValueId sum = m.next("Add", gated, 1, of_input.outputs[2]);
  const OnnxValueId candidate = sum.valid() ? m.next("Tanh", sum, 0) : OnnxValueId();
  if (!candidate.valid() || l.uses().readers[candidate].size() != 2) return false;
  const OnnxValueId difference = m.reader("Sub", candidate, 1);
  if (!difference.valid() || !is_same(l, m.node_of(difference).inputs[0], h)) return false;
  const OnnxValueId kept = m.next("Mul", difference, 0, update);
  const OnnxValueId result = kept.valid() ? m.next("Add", kept, 0, candidate) : OnnxValueId();
  const bool known = l.tensor(h).valid() && l.tensor(weight).valid();
  if (!result.valid() || !known) return false;
  m.take(of_state->outputs[0]);
  m.take(of_state->inputs[0]);
  ModelBuilder& b = l.builder();
  const TensorId bias = product.has_input(2) ? l.tensor(product.inputs[2]) : TensorId();
  const TensorId state = l.tensor(h);
  const TensorId hgates = b.linear_with(state, l.tensor(weight), bias);
  auto cell = cell_of(l, b.shape(state)[-1]);
  m.finish(result, cell.gru(l.operand(0), hgates, state));
  return true;
}

// Begins at the sum of the products of state and input.
bool match_lstm_cell(OnnxLowering& l) {
  if (l.node().inputs.size() != 2 || !weight_of(l, l.node().inputs[0]).valid() ||
      !weight_of(l, l.node().inputs[1]).valid()) {
    return false;
  }
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  if (!reader.valid() || l.file().nodes[reader].op != "Split") return false;
  const OnnxNode& split = l.file().nodes[reader];
  if (!makes_gates(split, 4)) return false;
  OnnxMatch m(l);
  m.take(split.outputs[0]);
  const OnnxValueId in = m.next("Sigmoid", split.outputs[0], 0);
  const OnnxValueId forget = m.next("Sigmoid", split.outputs[1], 0);
  const OnnxValueId candidate = m.next("Tanh", split.outputs[2], 0);
  const OnnxValueId out = m.next("Sigmoid", split.outputs[3], 0);
  if (!in.valid() || !forget.valid() || !candidate.valid() || !out.valid()) return false;
  const OnnxValueId kept = m.next("Mul", forget, 0);
  const OnnxValueId added = m.next("Mul", in, 0, candidate);
  const OnnxValueId c =
      kept.valid() && added.valid() ? m.next("Add", kept, 0, added) : OnnxValueId();
  if (!c.valid()) return false;
  const OnnxValueId shown = m.reader("Tanh", c, 0);
  const OnnxValueId h = shown.valid() ? m.next("Mul", shown, kEither, out) : OnnxValueId();
  const TensorId before = l.tensor(m.node_of(kept).inputs[1]);
  if (!h.valid() || !before.valid()) return false;
  auto cell = cell_of(l, l.builder().shape(before)[-1]);
  const TensorId gates = cell.in_place("add", {l.operand(0), l.operand(1)});
  const auto state = cell.lstm(gates, before);
  l.set_value(c, state.c);
  m.finish(h, state.h);
  return true;
}

constexpr OnnxPattern kPatterns[] = {{"Split", match_gru_cell}, {"Add", match_lstm_cell}};

}  // namespace onnx_cell_lowering

std::span<const OnnxPattern> onnx_cell_patterns() {
  return onnx_cell_lowering::kPatterns;
}

}  // namespace tidemark
