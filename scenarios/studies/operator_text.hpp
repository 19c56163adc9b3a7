// Single operators as people write them, for pricing:
//
//   linear 4096x4096x4096 bf16                 M x N x K: [M, K] times [N, K]^T
//   bmm 64x1024x1024x128 fp16                  B x M x N x K
//   conv 32x64x56x56 128x3x3 stride=2 fp16     input N x C x H x W; filters O x R x S
//   attention 8x32x2048x128 bf16 causal        batch x heads x length x head width; keys=LENGTH
//   softmax 4096x4096 fp16                     over the last axis; also log_softmax
//   layer_norm 4096x1024, rms_norm 4096x1024   over the last axis
//   batch_norm 32x64x56x56, max_pool 32x64x56x56
//   add 4096x4096, mul, gelu, relu, silu, dropout, copy, elementwise (an addition)
//
// The type is fp16 unless given: fp64, fp32, tf32 (products in tf32 of fp32), fp16 or bf16.
// `backward` adds the kernels of the backward pass.
#pragma once

#include <string>

#include "graph/ir/training_graph.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {

struct OperatorText {
  std::string text;
  TrainingGraph graph;    // the operator alone; its inputs are parameters
  bool backward = false;  // its backward kernels are asked for, too
};

// Throws UserError that names the word and shows an example.
[[nodiscard]] OperatorText read_operator(const std::string& text, const Location& where = {});

}  // namespace tidemark
