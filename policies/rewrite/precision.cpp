#include "policies/rewrite/precision.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace precision_detail {
namespace {

constexpr std::array<PrecisionRules, 9> kPrecisions = {{
    {.name = "fp32",
     .precision = Precision::kFp32,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32},
    {.name = "tf32",
     .precision = Precision::kTf32,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .tf32 = true},
    {.name = "bf16_autocast",
     .precision = Precision::kBf16Autocast,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .autocast = DType::kBFloat16},
    {.name = "fp16_autocast",
     .precision = Precision::kFp16Autocast,
     .model = DType::kFloat32,
     .gradients = DType::kFloat32,
     .autocast = DType::kFloat16},
    {.name = "bf16_mixed",
     .precision = Precision::kBf16Mixed,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16,
     .master_weights = true},
    {.name = "fp16_mixed",
     .precision = Precision::kFp16Mixed,
     .model = DType::kFloat16,
     .gradients = DType::kFloat16,
     .master_weights = true},
    {.name = "bf16",
     .precision = Precision::kBf16,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16},
    {.name = "fp16",
     .precision = Precision::kFp16,
     .model = DType::kFloat16,
     .gradients = DType::kFloat16},
    {.name = "fp8_mixed",
     .precision = Precision::kFp8Mixed,
     .model = DType::kBFloat16,
     .gradients = DType::kBFloat16,
     .master_weights = true,
     .fp8 = true},
}};

}  // namespace
}  // namespace precision_detail

std::span<const PrecisionRules> precision_table() {
  return precision_detail::kPrecisions;
}

const PrecisionRules& rules_of(Precision precision) {
  return precision_detail::kPrecisions.at(static_cast<std::size_t>(precision));
}

Precision decode_precision(const Decoder& training, Precision standard) {
  std::array<std::string_view, precision_detail::kPrecisions.size()> names;
  std::transform(precision_detail::kPrecisions.begin(), precision_detail::kPrecisions.end(),
                 names.begin(), [](const PrecisionRules& rules) { return rules.name; });
  // {fp8_mixed: {recipe: ...}}
  const Value* given = training.value().find("precision");
  if (given != nullptr && given->kind == Value::Kind::kMapping &&
      given->find(rules_of(Precision::kFp8Mixed).name) != nullptr) {
    return Precision::kFp8Mixed;
  }
  const std::string name = training.optional_word("precision", names, rules_of(standard).name);
  for (const PrecisionRules& rules : precision_detail::kPrecisions) {
    if (rules.name != name) continue;
    return rules.precision;
  }
  throw InternalError("precision '" + name + "' is a word without rules");
}

std::optional<DType> decode_gradient_dtype(const Decoder& training) {
  if (!training.has("gradient_dtype")) return std::nullopt;
  constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  std::array<std::string_view, kTypes.size()> names;
  std::transform(kTypes.begin(), kTypes.end(), names.begin(),
                 [](DType type) { return name_of(type); });
  const std::string name = training.required_word("gradient_dtype", names);
  for (DType type : kTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

void Tf32::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  for (Operator& op : graph.operators) {
    if (op.work.dtype != DType::kFloat32) continue;
    switch (op.work.op_class) {
      case OperatorClass::kMatmul:
      case OperatorClass::kAttention:
      case OperatorClass::kConvolution:
      case OperatorClass::kConvolutionBackwardData:
      case OperatorClass::kConvolutionBackwardWeight:
        op.work.dtype = DType::kTf32;
        break;
      default:  // depthwise convolutions have no tensor-core kernels
        break;
    }
  }
}

}  // namespace tidemark
