#include "policies/rewrite/optimizer_kernels.hpp"

#include <algorithm>
#include <array>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"sgd", "momentum", "nesterov", "adam", "adamw"};
constexpr std::array<std::string_view, 6> kLater = {"adamw_8bit", "adafactor", "lion",
                                                    "muon",       "adagrad",   "rmsprop"};
constexpr std::array<std::string_view, 3> kImplementations = {"loop", "foreach", "fused"};
constexpr double kDefaultMomentum = 0.9;
constexpr double kDefaultAdamWDecay = 0.01;  // torch.optim.AdamW

// Python scalars of mul_ and add_ on a CPU: 8 bytes as given, 4 converted. Measured on 1.13.1.
constexpr Bytes kCpuScalars{12};

// aten/src/ATen/native/cuda/MultiTensorApply.cuh
constexpr std::int64_t kChunkElements = 65536;
constexpr std::int64_t kMaxBlocks = 320;
constexpr std::array<int, 5> kMaxTensors = {110, 64, 48, 36, 30};  // by number of lists

OptimizerImplementation implementation_named(std::string_view name) {
  for (std::size_t i = 0; i < kImplementations.size(); ++i) {
    if (kImplementations[i] == name) return static_cast<OptimizerImplementation>(i);
  }
  throw InternalError("no optimizer implementation is called " + std::string(name));
}

OptimizerKind decode_kind(const Decoder& parent, std::string_view key) {
  std::vector<std::string_view> words(kNames.begin(), kNames.end());
  words.insert(words.end(), kLater.begin(), kLater.end());
  const std::string name = parent.optional_word(key, words, name_of(OptimizerKind::kAdamW));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<OptimizerKind>(i);
  }
  parent.fail_at(key, name + " comes later; built are sgd, momentum, nesterov, adam and adamw");
}

double default_decay(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW ? kDefaultAdamWDecay : 0;
}

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
  kernels.add("square_root", "v", "t");
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

}  // namespace

std::span<const std::string_view> optimizer_names() {
  return kNames;
}

std::string_view name_of(OptimizerKind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

bool is_adam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

OptimizerSpec decode_optimizer(const Decoder& training) {
  OptimizerSpec spec;
  const Decoder mapping = training.optional_child("optimizer");
  if (!mapping.value().is_mapping()) {
    spec.kind = decode_kind(training, "optimizer");
    spec.weight_decay = default_decay(spec.kind);
    spec.momentum = has_momentum(spec.kind) ? kDefaultMomentum : 0;
    return spec;
  }
  spec.kind = decode_kind(mapping, "name");
  if (mapping.has("implementation")) {
    spec.implementation =
        implementation_named(mapping.required_word("implementation", kImplementations));
  }
  spec.weight_decay =
      mapping.optional<double>("weight_decay", default_decay(spec.kind), at_least(0));
  if (has_momentum(spec.kind)) {
    spec.momentum = mapping.optional<double>("momentum", kDefaultMomentum, above(0));
  } else if (spec.kind == OptimizerKind::kSgd) {
    spec.momentum = mapping.optional<double>("momentum", 0, at_least(0));
    if (spec.momentum > 0) spec.kind = OptimizerKind::kMomentum;
  }
  mapping.finish();
  return spec;
}

OptimizerImplementation implementation_of(const OptimizerSpec& spec, const FrameworkRules& rules,
                                          bool master_weights) {
  if (spec.implementation) return *spec.implementation;
  if (master_weights) return OptimizerImplementation::kFused;
  return implementation_named(rules.optimizer_implementation);
}

std::vector<OptimizerKernel> optimizer_kernels(const OptimizerSpec& spec,
                                               OptimizerImplementation implementation,
                                               const FrameworkRules& rules, bool master_weights) {
  Kernels kernels;
  const bool loop = implementation == OptimizerImplementation::kLoop;
  if (implementation == OptimizerImplementation::kFused) {
    // Adam in fp32: 16 bytes read, 12 written per parameter.
    if (is_adam(spec.kind)) {
      kernels.add("fused", "gwmvs", "wmvsp", 14);
    } else if (has_momentum(spec.kind)) {
      kernels.add("fused", "gwm", "wmp", 5);
    } else {
      kernels.add("fused", "gw", "wp", 3);
    }
    return kernels.take();
  }
  if (master_weights) {
    kernels.add("convert_gradient", "g", "c");
    kernels.read_gradient_from('c');
  }
  if (is_adam(spec.kind)) {
    const bool old = rules.foreach_adam_temporaries > 1;
    add_adam(kernels, spec, loop || old, !loop && old);
  } else {
    add_sgd(kernels, spec, loop);
  }
  if (master_weights) kernels.add("copy_to_parameter", "w", "p");
  return kernels.take();
}

LoopTemporaries loop_temporaries(const OptimizerSpec& spec, const FrameworkRules& rules) {
  const Bytes scalars = runs_on_cpu(rules) ? kCpuScalars : Bytes(0);
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
