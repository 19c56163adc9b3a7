// torch.nn.LSTM, torch.nn.GRU and torch.nn.RNN as modules.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "graph/models/builder.hpp"

namespace tidemark {

struct RecurrentLayers {
  std::int64_t hidden = 200;
  std::int64_t layers = 1;
  double dropout = 0;  // probability of dropout between layers
  bool bias = true;
  bool batch_first = false;
  bool bidirectional = false;
};

inline constexpr std::array<std::string_view, 3> kRecurrentCells = {"lstm", "gru", "rnn"};

// Returns the output of the last layer at every step: [steps, batch, hidden], or [batch, steps,
// hidden] with batch_first, of x with the same axes; twice as wide when bidirectional. `cell` is
// one of kRecurrentCells; parameters have torch's names (weight_ih_l0, ...), 4, 3 or 1 times
// `hidden` rows each.
[[nodiscard]] TensorId recurrent_layers(ModelBuilder& builder, std::string_view cell,
                                        std::string_view module, TensorId x,
                                        const RecurrentLayers& layers);

}  // namespace tidemark
