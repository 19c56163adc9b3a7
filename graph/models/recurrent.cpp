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
  const std::vector<std::string_view> directions =
      layers.bidirectional ? std::vector<std::string_view>{"", "_reverse"}
                           : std::vector<std::string_view>{""};
  for (std::int64_t i = 0; i < layers.layers; ++i) {
    for (const std::string_view direction : directions) {
      const auto parameter = [&](std::string_view kind, const Shape& shape) {
        inputs.push_back(builder.parameter(fmt::format("{}_l{}{}", kind, i, direction), shape));
      };
      parameter("weight_ih", {rows, features});
      parameter("weight_hh", {rows, layers.hidden});
      if (layers.bias) {
        parameter("bias_ih", {rows});
        parameter("bias_hh", {rows});
      }
    }
    features = layers.hidden * static_cast<std::int64_t>(directions.size());
  }
  return builder.add(cell, std::move(inputs),
                     {{"layers", layers.layers},
                      {"dropout", layers.dropout},
                      {"batch_first", std::int64_t{layers.batch_first ? 1 : 0}},
                      {"bidirectional", std::int64_t{layers.bidirectional ? 1 : 0}}});
}

}  // namespace tidemark
