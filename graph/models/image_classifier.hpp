// Pieces that torchvision's convolutional classifiers have in common.
#pragma once

#include <cstdint>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Adds images [micro_batch, 3, side, side], where side is training's or else the model's own.
[[nodiscard]] TensorId image_input(ModelBuilder& builder, const ModelOptions& options,
                                   std::int64_t own_side);
// Marks the model's output and adds the loss that training asks for.
void add_image_loss(ModelBuilder& builder, TensorId logits, const ModelOptions& options);

}  // namespace tidemark
