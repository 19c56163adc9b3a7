#include "graph/models/recurrent.hpp"

#include <vector>

#include <fmt/format.h>

namespace tidemark {

TensorId recurrent_layers(ModelBuilder& builder, std::string_view cell, std::string_view module,
                          TensorId x, const RecurrentLayers& layers) {
  const auto scope = builder.scope(module);
  const std::int64_t gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
  const std::int64_t rows = gates * layers.hidden;
  std::vector<TensorId> inputs{x};
  std::int64_t features = builder.shape(x)[-1];
  for (std::int64_t i = 0; i < layers.layers; ++i) {
    inputs.push_back(builder.parameter(fmt::format("weight_ih_l{}", i), {rows, features}));
    inputs.push_back(builder.parameter(fmt::format("weight_hh_l{}", i), {rows, layers.hidden}));
    if (layers.bias) {
      inputs.push_back(builder.parameter(fmt::format("bias_ih_l{}", i), {rows}));
      inputs.push_back(builder.parameter(fmt::format("bias_hh_l{}", i), {rows}));
    }
    features = layers.hidden;
  }
  return builder.add(cell, std::move(inputs),
                     {{"layers", layers.layers},
                      {"dropout", layers.dropout},
                      {"batch_first", std::int64_t{layers.batch_first ? 1 : 0}}});
}

}  // namespace tidemark
