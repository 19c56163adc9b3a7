#include "graph/operators/products/recurrent_steps.hpp"

#include <algorithm>

namespace tidemark {
namespace recurrent_steps_detail {
namespace {

// Counts the bytes that are alive.
class Tally {
 public:
  void make(Bytes bytes, std::int64_t times = 1) {
    for (std::int64_t i = 0; i < times; ++i) {
      live_ += bytes;
      peak_ = std::max(peak_, live_);
    }
  }
  void drop(Bytes bytes) { live_ -= bytes; }
  [[nodiscard]] Bytes live() const { return live_; }
  void pass(Bytes bytes) {  // freed before the next is made
    make(bytes);
    drop(bytes);
  }
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  Bytes live_;
  Bytes peak_;
};

// Returns the bytes that one step saves beside the state that it starts from: gates, and clones or
// results.
//   lstm  i f g o in one allocation, tanh(c)
//   gru   r z n' in one allocation, clones of n' and h - n before mul_, n
//   rnn   nothing: tanh's result is the next state
Bytes saved_by_step(const RecurrentSize& size) {
  switch (size.cell) {
    case CellKind::kLstm:
      return size.state() * 5;
    case CellKind::kGru:
      return size.state() * 6;
    case CellKind::kRnn:
      return Bytes(0);
  }
  return Bytes(0);
}

// Returns the states that the steps make and that backward needs: h and c of all steps but the
// last, whose tanh the RNN keeps too.
Bytes saved_states(const RecurrentSize& size) {
  switch (size.cell) {
    case CellKind::kLstm:
      return size.state() * 2 * (size.steps - 1);
    case CellKind::kGru:
      return size.state() * (size.steps - 1);
    case CellKind::kRnn:
      return size.state() * size.steps;
  }
  return Bytes(0);
}

// Returns the states of the last step that nothing but the stack of final states reads.
Bytes final_states(const RecurrentSize& size) {
  switch (size.cell) {
    case CellKind::kLstm:
      return size.state() * 2;
    case CellKind::kGru:
      return size.state();
    case CellKind::kRnn:
      return Bytes(0);
  }
  return Bytes(0);
}

struct Weights {
  Bytes input;      // W_ih
  Bytes recurrent;  // W_hh
  Bytes bias;       // one of two
};

Weights weights_of(const RecurrentSize& size, std::int64_t layer) {
  const std::int64_t rows = size.gates() * size.hidden;
  return {.input = bytes_of(size.dtype, Elements(rows * size.features(layer))),
          .recurrent = bytes_of(size.dtype, Elements(rows * size.hidden)),
          .bias = bytes_of(size.dtype, Elements(size.bias ? rows : 0))};
}

// Autograd nodes of the steps, last first. The gradient of h is that of the output, a view, plus
// that of the next step.
class BackwardSteps {
 public:
  BackwardSteps(const RecurrentSize& size, Tally& tally)
      : size_(size), u_(size.state()), tally_(tally) {}

  // Steps between the first and the last change the live bytes by the same amount each, so the peak
  // is in one of the outer ones: those in the middle need not be simulated.
  void run(const Weights& weights) {
    for (std::int64_t step = size_.steps; step >= 1; --step) {
      const Bytes before = tally_.live();
      play(step, weights);
      if (step == size_.steps - 1 && step > 3) {
        tally_.drop((before - tally_.live()) * (step - 3));
        step = 3;
      }
    }
  }

 private:
  void play(std::int64_t step, const Weights& weights) {
    first_ = step == 1;
    last_ = step == size_.steps;
    if (size_.cell == CellKind::kLstm) lstm();
    if (size_.cell == CellKind::kGru) gru();
    if (size_.cell == CellKind::kRnn) rnn();
    recurrent_product(weights);
  }

  void lstm() {
    tally_.make(u_, 2);  // MulBackward: tanh(c) and o
    if (!last_) tally_.drop(u_);
    tally_.make(u_);  // TanhBackward
    tally_.drop(u_ * 2);
    if (!last_) {  // plus the gradient of c in the next step
      tally_.make(u_);
      tally_.drop(u_ * 2);
    }
    tally_.make(u_, 2);               // MulBackward: i and g
    tally_.make(u_, first_ ? 1 : 2);  // MulBackward: f and c
    tally_.drop(u_ * 2);              // the gradient, and c as it was saved
    for (int gate = 0; gate < 4; ++gate)
      tally_.pass(u_);  // SigmoidBackward and TanhBackward replace what they take
    tally_.drop(u_ * 4);
    tally_.make(u_ * 4);  // the four joined, which the input's side keeps too
    tally_.drop(u_ * 4);  // its parts
  }

  void gru() {
    tally_.make(u_, 2);  // MulBackward: h - n and z
    tally_.drop(u_);
    tally_.make(u_, first_ ? 1 : 2);  // SubBackward: n, and h plus the gradient of the output
    tally_.drop(u_);
    tally_.make(u_);  // both gradients of n
    tally_.drop(u_ * (last_ ? 1 : 2));
    tally_.make(u_);  // TanhBackward
    tally_.drop(u_ * 2);
    tally_.make(u_, 2);  // MulBackward: n' and r
    tally_.drop(u_);
    tally_.pass(u_);  // SigmoidBackward of z and of r
    tally_.pass(u_);
    tally_.drop(u_ * 3);
    tally_.make(u_ * 3);  // the gates' gradient on the side of the state
    tally_.drop(u_);
  }

  void rnn() {
    tally_.make(u_);  // TanhBackward
    if (!last_) tally_.drop(u_);
    tally_.drop(u_);
  }

  // AddmmBackward, and the sums of the gradients that the steps share.
  void recurrent_product(const Weights& weights) {
    const bool gru = size_.cell == CellKind::kGru;
    if (!first_) tally_.make(u_);
    tally_.make(weights.recurrent);
    tally_.make(weights.bias);
    if (gru) tally_.drop(u_ * 3);
    if (first_ || size_.cell != CellKind::kRnn) tally_.drop(u_);  // frees the state
    if (!last_) {
      tally_.make(weights.bias);
      tally_.drop(weights.bias * 2);
    }
    if (!first_) {
      tally_.make(u_);
      tally_.drop(u_ * (gru ? 2 : 1));
    }
    if (!last_) {
      tally_.make(weights.recurrent);
      tally_.drop(weights.recurrent * 2);
    }
    if (gru) tally_.pass(u_ * 3);  // the gates' gradient on the side of the input, for three parts
  }

  const RecurrentSize& size_;
  Bytes u_;
  Tally& tally_;
  bool first_ = false;
  bool last_ = false;
};

// LinearBackward of the whole input: without a bias and for a copied input the weight comes before
// the input, otherwise after it. `last`: no other direction reads the same input after this one.
void input_product(const RecurrentSize& size, std::int64_t layer, bool last, Tally& tally) {
  const Weights weights = weights_of(size, layer);
  const Bytes gates = size.sequence() * size.gates();
  tally.make(gates);  // gradients of the steps, joined
  tally.drop(gates);
  const bool wanted = layer > 0 || size.input_gradient;
  const bool folded = layer == 0 && size.copies_input;
  const Bytes input = layer == 0 ? size.input_bytes() : size.result();
  if (wanted && !folded) tally.make(input);
  tally.make(weights.bias);
  tally.make(weights.input);
  if (wanted && folded) tally.make(input);
  if (folded || (layer > 0 && last)) tally.drop(input);  // frees the saved input
  tally.drop(gates);
}

}  // namespace
}  // namespace recurrent_steps_detail

std::int64_t RecurrentSize::gates() const {
  switch (cell) {
    case CellKind::kLstm:
      return 4;
    case CellKind::kGru:
      return 3;
    case CellKind::kRnn:
      return 1;
  }
  return 1;
}

Bytes saved_by_steps(const RecurrentSize& size) {
  return recurrent_steps_detail::saved_by_step(size) * size.steps +
         recurrent_steps_detail::saved_states(size);
}

Bytes unrolled_forward_peak(const RecurrentSize& size) {
  recurrent_steps_detail::Tally tally;
  tally.make(size.outer_states());
  const Bytes gates = size.sequence() * size.gates();
  for (std::int64_t layer = 0; layer < size.layers; ++layer) {
    for (std::int64_t direction = 0; direction < size.directions; ++direction) {
      if (layer == 0 && size.copies_input) tally.make(size.input_bytes());
      tally.make(gates);
      if (direction > 0) tally.drop(gates);  // gates of the direction before: replaced by these
      tally.make(saved_by_steps(size) + recurrent_steps_detail::final_states(size));
      tally.make(size.sequence());  // the stack of the states
    }
    if (size.directions > 1) {
      tally.make(size.result());
      tally.drop(size.sequence() * size.directions);
    }
    tally.drop(gates);
    if (layer + 1 < size.layers && size.dropout) {
      tally.make(size.result(), 2);  // noise, and the product
      tally.drop(size.result());
    }
  }
  tally.make(size.outer_states());
  return tally.peak();
}

Bytes unrolled_backward_peak(const RecurrentSize& size) {
  recurrent_steps_detail::Tally tally;
  for (std::int64_t layer = size.layers; layer-- > 0;) {
    for (std::int64_t direction = size.directions; direction-- > 0;) {
      recurrent_steps_detail::BackwardSteps(size, tally)
          .run(recurrent_steps_detail::weights_of(size, layer));
      // The gradient of this output; the gradient for two directions is two views of one tensor.
      if (layer + 1 < size.layers && direction == 0) tally.drop(size.result());
      recurrent_steps_detail::input_product(size, layer, direction == 0, tally);
    }
    const bool wanted = layer > 0 || size.input_gradient;
    if (size.directions > 1 && wanted) {  // both directions' gradients of their input, added
      const Bytes input = layer == 0 ? size.input_bytes() : size.result();
      tally.make(input);
      tally.drop(input * 2);
    }
    if (layer > 0 && size.dropout) {  // the product with the noise, and the noise
      tally.make(size.result());
      tally.drop(size.result() * 2);
    }
  }
  return tally.peak();
}

}  // namespace tidemark
