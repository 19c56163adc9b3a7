// Pieces that torchvision's convolutional classifiers have in common.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Adds images [micro_batch, 3, side, side], where side is training's or else the model's own.
[[nodiscard]] TensorId image_input(ModelBuilder& builder, const ModelOptions& options,
                                   std::int64_t own_side);
// Adds torchvision's SqueezeExcitation: x * sigmoid(fc2(act(fc1(mean of each channel)))), with 1 x
// 1 convolutions to `squeezed` channels and back.
[[nodiscard]] TensorId squeeze_excitation(ModelBuilder& builder, std::string_view module,
                                          TensorId x, std::int64_t squeezed,
                                          std::string_view activation);
// Marks the model's output and adds the loss that training asks for.
void add_image_loss(ModelBuilder& builder, TensorId logits, const ModelOptions& options);

}  // namespace tidemark
