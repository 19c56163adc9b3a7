// nn.LSTM, nn.GRU and nn.RNN where PyTorch computes them step by step (ATen/native/RNN.cpp, CPU): a
// matrix product of the whole input with W_ih, then per step a product of the state with W_hh and
// the cell's functions, each an autograd node of its own.
//
//   igates  |=======================|
//   step 1    |gates|h1|
//   step 2            |gates|h2|
//   output                          |stack of h1 .. hT|
//
// Two directions of a layer are two such runs over the same input, the second over its steps
// backwards, whose stacks are joined along the features (FullBidirectionalLayer).
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

enum class CellKind : std::uint8_t { kLstm, kGru, kRnn };

struct RecurrentSize {
  CellKind cell = CellKind::kLstm;
  std::int64_t steps = 1;
  std::int64_t batch = 1;
  std::int64_t input = 1;  // features
  std::int64_t hidden = 1;
  std::int64_t layers = 1;
  std::int64_t directions = 1;  // 2: each layer also runs from the last step to the first
  DType dtype = DType::kFloat32;
  bool bias = true;
  bool dropout = false;       // dropout runs between layers
  bool copies_input = false;  // the input's steps are not contiguous (batch_first)
  bool input_gradient = true;

  [[nodiscard]] std::int64_t gates() const;  // rows of the weights in units of `hidden`
  [[nodiscard]] bool has_cell_state() const { return cell == CellKind::kLstm; }
  [[nodiscard]] Bytes state() const { return bytes_of(dtype, Elements(batch * hidden)); }
  [[nodiscard]] Bytes sequence() const { return state() * steps; }  // bytes of one layer's states
  [[nodiscard]] Bytes input_bytes() const {
    return bytes_of(dtype, Elements(steps * batch * input));
  }
  [[nodiscard]] std::int64_t features(std::int64_t layer) const {
    return layer == 0 ? input : hidden * directions;
  }
  // Bytes of a layer's result: the states of its directions side by side.
  [[nodiscard]] Bytes result() const { return sequence() * directions; }
  // Bytes of h, and of c of an LSTM: one state per layer and direction.
  [[nodiscard]] Bytes outer_states() const {
    return state() * layers * directions * (has_cell_state() ? 2 : 1);
  }
};

// Bytes that autograd keeps of the steps of one layer and direction: gates, candidates, cell states
// and hidden states, the initial ones and a copied input left out. Measured on 1.13.1 (LSTM, GRU,
// RNN_tanh probes).
[[nodiscard]] Bytes saved_by_steps(const RecurrentSize& size);
// The peak above the bytes at the start of forward, and of backward (which frees saved tensors on
// the way), all results included.
[[nodiscard]] Bytes unrolled_forward_peak(const RecurrentSize& size);
[[nodiscard]] Bytes unrolled_backward_peak(const RecurrentSize& size);

}  // namespace tidemark
