#include "graph/models/image_classifier.hpp"

namespace tidemark {

TensorId image_input(ModelBuilder& builder, const ModelOptions& options, std::int64_t own_side) {
  constexpr std::int64_t kColours = 3;
  constexpr std::int64_t kLargestStem = 256;  // channels that no first layer exceeds
  const std::int64_t side = options.image.value_or(own_side);
  static_cast<void>(element_count({options.micro_batch, kLargestStem, side, side}));
  return builder.input("images", {options.micro_batch, kColours, side, side}, options.dtype);
}

void add_image_loss(ModelBuilder& builder, TensorId logits, const ModelOptions& options) {
  builder.set_output(logits);
  builder.set_samples(options.micro_batch, 0);
  if (options.loss == LossKind::kCrossEntropy) builder.cross_entropy_loss(logits);
  if (options.loss == LossKind::kMse) builder.mse_loss(logits);
}

}  // namespace tidemark
