#include "policies/rewrite/optimizer_kernels.hpp"

#include <algorithm>
#include <array>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace {

// aten/src/ATen/native/cuda/MultiTensorApply.cuh
constexpr std::int64_t kChunkElements = 65536;
constexpr std::int64_t kMaxBlocks = 320;
constexpr std::array<int, 5> kMaxTensors = {110, 64, 48, 36, 30};  // by number of lists

bool has_momentum(OptimizerKind kind) {
  return kind == OptimizerKind::kMomentum || kind == OptimizerKind::kNesterov;
}

// Collects kernels; the gradient that later kernels read changes on the way.
class Kernels {
 public:
  void add(std::string_view name, std::string reads, std::string writes, double flops = 1) {
    std::replace(reads.begin(), reads.end(), 'g', gradient_);
    std::replace(writes.begin(), writes.end(), 'g', gradient_);
    list_.push_back({name, std::move(reads), std::move(writes), flops});
  }
  void read_gradient_from(char letter) { gradient_ = letter; }
  std::vector<OptimizerKernel> take() { return std::move(list_); }

 private:
  std::vector<OptimizerKernel> list_;
  char gradient_ = 'g';
};

// _multi_tensor_adam and _single_tensor_adam. 1.13 keeps the square root beside the denominator.
void add_adam(Kernels& kernels, const OptimizerSpec& spec, bool keeps_root, bool decays_in_place) {
  kernels.add("count_steps", "s", "s", 0);
  if (spec.weight_decay > 0 && spec.kind == OptimizerKind::kAdamW) {
    kernels.add("decay_weights", "w", "w");
  } else if (spec.weight_decay > 0) {
    kernels.add("add_decay", "gw", decays_in_place ? "g" : "d", 2);
    if (!decays_in_place) kernels.read_gradient_from('d');
  }
  kernels.add("first_moment", "mg", "m", 3);
  kernels.add("scale_second_moment", "v", "v");
  kernels.add("second_moment", "vg", "v", 3);
  if (spec.amsgrad) kernels.add("largest_second_moment", "ov", "o");
  kernels.add("square_root", spec.amsgrad ? "o" : "v", "t");
  kernels.add("divide", "t", "t");
  kernels.add("add_epsilon", "t", keeps_root ? "u" : "t");
  kernels.add("update", keeps_root ? "wmu" : "wmt", "w", 3);
}

void add_sgd(Kernels& kernels, const OptimizerSpec& spec, bool loop) {
  if (spec.weight_decay > 0) {
    kernels.add("add_decay", "gw", "d", 2);
    kernels.read_gradient_from('d');
  }
  if (has_momentum(spec.kind)) {
    kernels.add("scale_momentum", "m", "m");
    kernels.add("add_gradient", "mg", "m");
  }
  if (spec.kind == OptimizerKind::kNesterov) {
    // foreach adds to the gradients themselves, the loop makes a tensor.
    kernels.add("look_ahead", "gm", loop ? "t" : "g", 2);
    if (loop) kernels.read_gradient_from('t');
  }
  kernels.add("update", spec.kind == OptimizerKind::kMomentum ? "wm" : "wg", "w", 2);
}

// torch 2.4's _multi_tensor_adagrad and _single_tensor_adagrad: the foreach form scales the
// gradients by the learning rate, in place where they are a copy of its own.
void add_adagrad(Kernels& kernels, const OptimizerSpec& spec, bool loop) {
  kernels.add("count_steps", "s", "s", 0);
  if (spec.weight_decay > 0) {
    kernels.add("add_decay", "gw", "d", 2);
    kernels.read_gradient_from('d');
  }
  kernels.add("add_squares", "vg", "v", 2);
  kernels.add("square_root", "v", "t");
  kernels.add("add_epsilon", "t", "t");
  if (loop) {
    kernels.add("update", "wgt", "w", 3);
  } else {
    const bool owned = spec.weight_decay > 0;
    kernels.add("scale_gradient", "g", owned ? "g" : "u");
    kernels.add("update", owned ? "wgt" : "wut", "w", 2);
  }
}

// _multi_tensor_rmsprop and _single_tensor_rmsprop.
void add_rmsprop(Kernels& kernels, const OptimizerSpec& spec) {
  if (spec.weight_decay > 0) {
    kernels.add("add_decay", "gw", "d", 2);
    kernels.read_gradient_from('d');
  }
  kernels.add("scale_squares", "v", "v");
  kernels.add("add_squares", "vg", "v", 3);
  if (spec.centered) {
    kernels.add("mean_gradient", "og", "o", 3);
    kernels.add("variance", "vo", "t", 2);
    kernels.add("square_root", "t", "t");
  } else {
    kernels.add("square_root", "v", "t");
  }
  kernels.add("add_epsilon", "t", "t");
  if (spec.momentum > 0) {
    kernels.add("scale_momentum", "m", "m");
    kernels.add("add_gradient", "mgt", "m", 2);
    kernels.add("update", "wm", "w", 2);
  } else {
    kernels.add("update", "wgt", "w", 2);
  }
}

void add_lion(Kernels& kernels, const OptimizerSpec& spec) {
  if (spec.weight_decay > 0) kernels.add("decay_weights", "w", "w");
  kernels.add("scale_moment", "m", "t");
  kernels.add("scale_gradient", "g", "u");
  kernels.add("interpolate", "tu", "t");
  kernels.add("sign", "t", "t");
  kernels.add("update", "wt", "w", 2);
  kernels.add("decay_moment", "m", "m");
  kernels.add("add_gradient", "mg", "m", 2);
}

// transformers' Adafactor without a first moment; a vector keeps its squares whole.
void add_adafactor(Kernels& kernels, const OptimizerSpec& spec) {
  kernels.add("root_mean_square", "w", "n", 2);
  kernels.add("squares", "g", "t");
  kernels.add("add_epsilon", "t", "t");
  kernels.add("moments", "rqvt", "rqv", 3);
  kernels.add("approximate", "rqv", "t", 2);
  kernels.add("scale_by_gradient", "tg", "t");
  kernels.add("clip", "t", "t", 3);
  kernels.add("scale", "t", "t");
  if (spec.weight_decay > 0) kernels.add("decay_weights", "w", "w", 2);
  kernels.add("negate", "t", "u");
  kernels.add("update", "wu", "w");
}

void add_fused(Kernels& kernels, const OptimizerSpec& spec) {
  switch (spec.kind) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:  // in fp32: 16 bytes read, 12 written per parameter
      if (spec.amsgrad) return kernels.add("fused", "gwmvso", "wmvsop", 15);
      return kernels.add("fused", "gwmvs", "wmvsp", 14);
    case OptimizerKind::kAdamW8bit:
      return kernels.add("fused", "gwmvkl", "wmvklp", 20);
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kLion:
      return kernels.add("fused", "gwm", "wmp", 5);
    default:
      return kernels.add("fused", "gw", "wp", 3);
  }
}

}  // namespace

std::vector<OptimizerKernel> optimizer_kernels(const OptimizerSpec& spec,
                                               OptimizerImplementation implementation,
                                               const FrameworkRules& rules, bool master_weights) {
  Kernels kernels;
  const bool loop = implementation == OptimizerImplementation::kLoop;
  if (implementation == OptimizerImplementation::kFused) {
    add_fused(kernels, spec);
    return kernels.take();
  }
  if (master_weights) {
    kernels.add("convert_gradient", "g", "c");
    kernels.read_gradient_from('c');
  }
  switch (spec.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      add_sgd(kernels, spec, loop);
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW: {
      const bool old = rules.foreach_adam_temporaries > 1;
      add_adam(kernels, spec, loop || old, !loop && old);
      break;
    }
    case OptimizerKind::kAdagrad:
      add_adagrad(kernels, spec, loop);
      break;
    case OptimizerKind::kRmsprop:
      add_rmsprop(kernels, spec);
      break;
    case OptimizerKind::kLion:
      add_lion(kernels, spec);
      break;
    case OptimizerKind::kAdafactor:
      add_adafactor(kernels, spec);
      break;
    case OptimizerKind::kMuon:  // optimizer.cpp: its products are no elementwise kernels
    case OptimizerKind::kAdamW8bit:
      break;
  }
  if (master_weights) kernels.add("copy_to_parameter", "w", "p");
  return kernels.take();
}

LoopTemporaries loop_temporaries(const OptimizerSpec& spec, const FrameworkRules& rules,
                                 const Shape& shape) {
  const Bytes scalars = scalar_temporaries(rules, DType::kFloat32);
  const int decayed = spec.weight_decay > 0 ? 1 : 0;
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return {.inside = decayed};
    case OptimizerKind::kMomentum:  // buf.mul_(momentum) beside the decayed gradient
      return {.inside = decayed, .scalars = scalars};
    case OptimizerKind::kNesterov:  // grad.add(buf) comes after buf.mul_
      return {.inside = 1 + decayed};
    case OptimizerKind::kAdam:  // the root and the denominator, which is a variable
      return {.inside = 1 + decayed, .outlives = true, .scalars = scalars};
    case OptimizerKind::kAdamW:
      return {.inside = 1, .outlives = true, .scalars = scalars};
    case OptimizerKind::kAdagrad:  // sum.sqrt().add_(eps): both before the variable is replaced
      return {.inside = decayed, .outlives = true, .scalars = scalars};
    case OptimizerKind::kRmsprop:  // avg = square_avg.sqrt(), then avg.add_(eps)
      return {.inside = decayed, .outlives = true, .after = scalars};
    case OptimizerKind::kLion:  // exp_avg * beta1 + grad * (1 - beta1)
      return {.inside = 2, .outlives = true};
    case OptimizerKind::kAdafactor: {  // grad**2 + eps; then row times column, and its negative
      if (shape.rank() < 2) return {.inside = 1, .outlives = true};
      const std::int64_t elements = element_count(shape);
      const Bytes factors((elements / shape[-1] + elements / shape[-2]) * size_of(DType::kFloat32));
      return {.inside = 1, .outlives = true, .after = factors};
    }
    case OptimizerKind::kAdamW8bit:
    case OptimizerKind::kMuon:
      return {};
  }
  return {};
}

// A launch takes as many tensors as its arguments have room for, and at most 320 chunks; a tensor
// cut by the second limit goes on in the next launch.
int foreach_launches(std::span<const std::int64_t> elements, std::size_t lists) {
  const int max_tensors = kMaxTensors.at(std::clamp<std::size_t>(lists, 1, kMaxTensors.size()) - 1);
  std::int64_t launches = 0;
  std::int64_t blocks = 0;
  int tensors = 0;
  for (std::int64_t count : elements) {
    blocks += (count + kChunkElements - 1) / kChunkElements;
    ++tensors;
    if (blocks >= kMaxBlocks) {
      launches += blocks / kMaxBlocks;
      blocks %= kMaxBlocks;
      tensors = blocks > 0 ? 1 : 0;
    }
    if (tensors == max_tensors) {
      ++launches;
      blocks = 0;
      tensors = 0;
    }
  }
  return static_cast<int>(launches) + (tensors > 0 ? 1 : 0);
}

}  // namespace tidemark
