// Layers as a YAML file names them. A model is a list of layers, each of which takes what the one
// before it returned, so a new architecture needs no C++:
//
//   name: small_classifier
//   defaults: {image: 32}               # training.image and training.sequence when not given
//   sizes: {width: 64, classes: 10}     # numbers with names; a scenario may change them:
//                                       #   model: {layers: file.yaml, sizes: {width: 128}}
//   inputs:                             # the first one is what the first layer takes
//     images: [batch, 3, image, image]  # or {shape: [...], type: int64}; type float unless given
//   modules:                            # layer lists with parameters, used like a kind of layer
//     conv_block:
//       parameters: [channels]
//       layers:
//         - conv2d: {channels: channels, kernel: 3, padding: 1, bias: false}
//         - batch_norm
//         - relu: {in_place: true}
//   layers:
//     - conv_block: width               # one parameter may be written without its name
//     - repeat:
//         times: 4
//         layers: [{residual: [{conv_block: width}]}]
//     - global_avg_pool2d
//     - flatten
//     - linear: classes
//
// A layer is a word, or a mapping with its kind and beside it, all optional:
//   name   the module's name: "encoder" makes encoder.weight; else its position in the list, as in
//          torch.nn.Sequential
//   from   the tap to take instead of the previous layer's result; alone it just switches to it
//   tap    a name for the result, for a later `from`, `add`, `cat`, ...; inputs are taps as well.
//          The taps of a module are seen inside it only.
// Sizes are integers, names and arithmetic: 4 * width, (image / patch) + 1. batch, sequence and
// image are always known; batch is training.micro_batch.
//
// Structure:
//   sequence: [layers]
//   block: [layers]                  one numbered block, what checkpointing works on
//   repeat: {times, index, layers}   that many numbered blocks; `index` names a size 0, 1, ...
//   residual: [layers], or {layers, project: true}   x + layers(x); `project` sends x through a 1x1
//                                    convolution or a linear layer where channels differ
//   add, multiply: tap               the result so far with a tap, broadcasting
//   cat: tap, [taps]                 along axis 1, or {with: [taps], axis}
//   matmul: tap                      or {with: tap, transpose: true}
//     All four as {with: tap, layers: [...]} send the tap through layers first; without `with` they
//     take the result so far.
// Kinds of layers, the parameter that may stand without its name first: layer_kinds() below.
//
// The model ends in the last layer's result, on which training.loss is taken. A kind of layer that
// attends obeys training.attention, and dropout obeys training.dropout.
#pragma once

#include <span>
#include <string_view>

#include "graph/models/layers/layer_kind.hpp"

namespace tidemark {

[[nodiscard]] std::span<const LayerKind> layer_kinds();
[[nodiscard]] const LayerKind* find_layer_kind(std::string_view name);

}  // namespace tidemark
