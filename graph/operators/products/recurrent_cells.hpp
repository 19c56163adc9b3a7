// One step of torch.nn's recurrent cells as ATen computes it, in place where ATen does
// (ATen/native/RNN.cpp: LSTMCell, GRUCell).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/ir/attributes.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

// Adds nodes through `add`, a function of a family, inputs and attributes that returns the outputs.
template <class Add>
class RecurrentCell {
 public:
  struct State {
    TensorId h;
    TensorId c;  // cell state of an LSTM
  };

  // `hidden` is the number of units, the width of each gate.
  RecurrentCell(Add add, std::int64_t hidden) : add_(add), hidden_(hidden) {}

  // `gates`: the products of input and state, added.
  [[nodiscard]] State lstm(TensorId gates, TensorId c) {
    const std::vector<TensorId> parts = chunks(gates, 4);
    const TensorId in = in_place("sigmoid", {parts[0]});
    const TensorId forget = in_place("sigmoid", {parts[1]});
    const TensorId candidate = in_place("tanh", {parts[2]});
    const TensorId out = in_place("sigmoid", {parts[3]});
    const TensorId kept = one("mul", {forget, c});
    const TensorId next = in_place("add", {kept, one("mul", {in, candidate})});
    return {.h = one("mul", {out, one("tanh", {next})}), .c = next};
  }

  [[nodiscard]] TensorId gru(TensorId igates, TensorId hgates, TensorId h) {
    const std::vector<TensorId> of_input = chunks(igates, 3);
    const std::vector<TensorId> of_state = chunks(hgates, 3);
    const TensorId reset = in_place("sigmoid", {in_place("add", {of_state[0], of_input[0]})});
    const TensorId update = in_place("sigmoid", {in_place("add", {of_state[1], of_input[1]})});
    const TensorId gated = in_place("mul", {of_state[2], reset});
    const TensorId candidate = in_place("tanh", {one("add", {of_input[2], gated})});
    const TensorId difference = in_place("mul", {one("sub", {h, candidate}), update});
    return in_place("add", {difference, candidate});
  }

  [[nodiscard]] TensorId rnn(TensorId igates, TensorId hgates) {
    return one("tanh", {in_place("add", {hgates, igates})});
  }

  [[nodiscard]] TensorId in_place(std::string_view family, std::vector<TensorId> inputs) {
    return add_(family, std::move(inputs), Attributes{{"in_place", std::int64_t{1}}}).front();
  }

 private:
  [[nodiscard]] TensorId one(std::string_view family, std::vector<TensorId> inputs) {
    return add_(family, std::move(inputs), Attributes{}).front();
  }
  [[nodiscard]] std::vector<TensorId> chunks(TensorId x, std::size_t parts) {
    return add_("split", {x},
                Attributes{{"sizes", std::vector<std::int64_t>(parts, hidden_)},
                           {"axis", std::int64_t{1}}});
  }

  Add add_;
  std::int64_t hidden_;
};

}  // namespace tidemark
