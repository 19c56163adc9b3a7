// training.precision: the types in which a model is built, computed and updated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/dtype.hpp"
#include "graph/operators/framework.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

enum class Precision : std::uint8_t {
  kFp32,
  kTf32,
  kBf16Autocast,
  kFp16Autocast,
  kBf16Mixed,
  kFp16Mixed,
  kBf16,
  kFp16,
  kFp8Mixed,
};

struct PrecisionRules {
  std::string_view name;  // word of training.precision
  Precision precision;
  DType model;      // type of parameters and activations as the model is built
  DType gradients;  // type of .grad unless training.gradient_dtype says otherwise
  // torch.autocast: matrix products run in this type, whatever the model's.
  std::optional<DType> autocast;
  // The optimizer updates fp32 copies of the weights and keeps its moments in fp32 (ZeRO, Megatron,
  // Apex); otherwise moments have the type of the parameter (torch.optim).
  bool master_weights = false;
  // Matrix products of fp32 tensors round their operands to TF32.
  bool tf32 = false;
  // Linear layers multiply fp8 copies of their operands (policies/rewrite/fp8.hpp).
  bool fp8 = false;
};

// Returns the rules of all precisions, in the order of the enumeration.
[[nodiscard]] std::span<const PrecisionRules> precision_table();
[[nodiscard]] const PrecisionRules& rules_of(Precision precision);

// Reads the key `precision` of `training`: a name, or {fp8_mixed: {recipe}}; bf16_mixed when
// absent. Throws UserError for an unknown name, with the nearest one.
[[nodiscard]] Precision decode_precision(const Decoder& training,
                                         Precision standard = Precision::kBf16Mixed);
// Reads the key `gradient_dtype`: nullopt when absent, so that gradients have their parameter's
// type.
[[nodiscard]] std::optional<DType> decode_gradient_dtype(const Decoder& training);

// torch.autocast around the forward pass and the loss. Inputs of an operator are converted as the
// lists of aten/src/ATen/autocast_mode.h say; every conversion is a `cast` node. A trainable weight
// is converted once per micro-batch and stays until autocast ends, unless the cache is off
// (torch.autocast(cache_enabled=False)).
class Autocast final : public ForwardRewrite {
 public:
  Autocast(DType low, bool cache, const FrameworkRules& rules)
      : low_(low), cache_(cache), rules_(rules) {}
  [[nodiscard]] std::string_view name() const override { return "autocast"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kPrecision; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

 private:
  DType low_;
  bool cache_;
  FrameworkRules rules_;
};

// Runs the matrix products, convolutions and attention of fp32 tensors on TF32 tensor cores
// (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32). Memory stays the same.
class Tf32 final : public TrainingRewrite {
 public:
  [[nodiscard]] std::string_view name() const override { return "tf32"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kAccumulate; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
};

}  // namespace tidemark
