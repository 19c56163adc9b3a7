// Options of training that a model builder needs: the part of a scenario that changes the forward
// graph itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/ir/dtype.hpp"
#include "graph/models/builder.hpp"
#include "graph/models/generation_options.hpp"

namespace tidemark {

enum class LossKind : std::uint8_t {
  kCrossEntropy,
  kMse,
  kNone,
  kSmoothedCrossEntropy,  // label_smoothing
  kSoftCrossEntropy,      // targets are probabilities
  kNll,                   // takes log-probabilities
  kL1,
  kSmoothL1,
  kHuber,
  kBce,  // takes probabilities
  kBceWithLogits,
  kKlDiv,            // takes log-probabilities
  kCosineEmbedding,  // compares two outputs
  kTriplet,          // compares three outputs: anchors, positives, negatives
  kCtc,              // takes log-probabilities [steps, samples, classes]
};
// The words of training.loss, in the order of LossKind.
inline constexpr std::array<std::string_view, 15> kLossNames = {"cross_entropy",
                                                                "mse",
                                                                "none",
                                                                "smoothed_cross_entropy",
                                                                "soft_cross_entropy",
                                                                "nll",
                                                                "l1",
                                                                "smooth_l1",
                                                                "huber",
                                                                "bce",
                                                                "bce_with_logits",
                                                                "kl_div",
                                                                "cosine_embedding",
                                                                "triplet",
                                                                "ctc"};

struct ModelOptions {
  std::int64_t micro_batch = 1;          // samples per forward pass
  std::optional<std::int64_t> sequence;  // tokens per sample; else min(the model's maximum, 2048)
  std::optional<std::int64_t> image;     // pixels per side; else the model's own
  DType dtype = DType::kBFloat16;        // type of parameters and activations
  AttentionKind attention = AttentionKind::kFlash;
  std::optional<double> dropout;  // replaces every dropout probability of the model
  LossKind loss = LossKind::kCrossEntropy;
  std::optional<std::int64_t> target_length;  // labels of a sample, for ctc
  // A model of 16 bits hands its logits to the loss as they are where its code does not cast them.
  bool keeps_narrow_logits = false;
  // RMSNorm is one kernel, as in Transformer Engine, where Hugging Face's code composes it.
  bool fused_norms = false;
  // Instead of one pass over whole sequences: text is generated, token by token.
  std::optional<GenerationOptions> generation;
};

}  // namespace tidemark
