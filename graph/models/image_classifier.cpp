#include "graph/models/image_classifier.hpp"

#include "graph/models/losses.hpp"

namespace tidemark {

TensorId image_input(ModelBuilder& builder, const ModelOptions& options, std::int64_t own_side) {
  constexpr std::int64_t kColours = 3;
  constexpr std::int64_t kLargestStem = 256;  // channels that no first layer exceeds
  const std::int64_t side = options.image.value_or(own_side);
  static_cast<void>(element_count({options.micro_batch, kLargestStem, side, side}));
  return builder.input("images", {options.micro_batch, kColours, side, side}, options.dtype);
}

TensorId squeeze_excitation(ModelBuilder& builder, std::string_view module, TensorId x,
                            std::int64_t squeezed, std::string_view activation) {
  ModelBuilder& b = builder;
  auto scope = b.scope(module);
  scope.local(x);
  TensorId scale = b.conv2d("fc1", b.global_avg_pool2d(x), squeezed, {});
  scale = b.conv2d("fc2", b.activation(activation, scale, true), b.shape(x)[1], {});
  scale = b.activation("sigmoid", scale);
  return b.multiply(scale, x);
}

void add_image_loss(ModelBuilder& builder, TensorId logits, const ModelOptions& options) {
  builder.set_output(logits);
  builder.set_samples(options.micro_batch, 0);
  add_loss(builder, logits, options.loss);
}

}  // namespace tidemark
