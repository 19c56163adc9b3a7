#include "graph/operators/adapters/quantised_formats.hpp"

#include <array>

#include <fmt/format.h>

namespace tidemark {
namespace quantised_formats_detail {
namespace {

constexpr std::string_view kBnb = "bitsandbytes 0.50: functional.py, nn/modules.py";
constexpr std::string_view kAo = "torchao: quantize_/workflows/nf4/nf4_tensor.py";

constexpr std::array<QuantisedFormat, 6> kFormats = {{
    {.name = "nf4", .codes = DType::kNf4, .source = kBnb},
    {.name = "nf4_dq", .codes = DType::kNf4, .nested = true, .source = kBnb},
    {.name = "fp4", .codes = DType::kFp4, .source = kBnb},
    {.name = "fp4_dq", .codes = DType::kFp4, .nested = true, .source = kBnb},
    {.name = "int8", .codes = DType::kInt8, .source = kBnb},
    {.name = "nf4",
     .library = QuantisedBy::kTorchao,
     .codes = DType::kNf4,
     .nested = true,
     .source = kAo},
}};

constexpr std::int64_t kNestedBlock = 256;  // scales that share a scale
constexpr Elements kCodes4Bit{16};          // values that 4 bits name
constexpr Elements kCodes8Bit{256};

// Returns the elements of a tensor with a scale for each block.
Elements scales_of(Elements elements, std::int64_t block) {
  return Elements((elements.count + block - 1) / block);
}

std::vector<QuantisedState> state_list(const QuantisedFormat& format,
                                       const QuantisedWeight& weight) {
  if (format.codes == DType::kInt8) return {{"SCB", Elements(weight.rows)}};
  const Elements scales = scales_of(weight.elements, weight.block);
  const Elements nested = scales_of(scales, kNestedBlock);
  if (format.library == QuantisedBy::kTorchao) {
    return {{"quantized_scalers", scales, DType::kInt8},
            {"quantization_factor", nested, weight.model},
            {"scaler_mean", Elements(1), weight.model},
            {"nf4", kCodes4Bit, weight.model}};
  }
  if (!format.nested) return {{"absmax", scales}, {"quant_map", kCodes4Bit}};
  return {{"absmax", scales, DType::kInt8},
          {"nested_absmax", nested},
          {"offset", Elements(1)},
          {"nested_quant_map", kCodes8Bit},
          {"quant_map", kCodes4Bit}};
}

}  // namespace
}  // namespace quantised_formats_detail

std::span<const QuantisedFormat> quantised_formats() {
  return quantised_formats_detail::kFormats;
}

const QuantisedFormat* find_quantised_format(std::string_view name, std::string_view library) {
  const QuantisedBy by = library == "torchao" ? QuantisedBy::kTorchao : QuantisedBy::kBitsandbytes;
  for (const QuantisedFormat& format : quantised_formats_detail::kFormats) {
    if (format.library == by && format.name == name) return &format;
  }
  return nullptr;
}

std::vector<QuantisedState> states_of(const QuantisedFormat& format,
                                      const QuantisedWeight& weight) {
  return quantised_formats_detail::state_list(format, weight);
}

std::string refuses(const QuantisedFormat& format, const QuantisedWeight& weight) {
  if (format.library != QuantisedBy::kTorchao) return {};
  if (weight.elements.count % weight.block != 0) {
    return fmt::format("torchao refuses a weight of {} elements, which is no multiple of {}",
                       weight.elements.count, weight.block);
  }
  const std::int64_t scales = weight.elements.count / weight.block;
  if (scales % quantised_formats_detail::kNestedBlock == 0) return {};
  return fmt::format("torchao refuses a weight of {} elements: its {} scales are no multiple of {}",
                     weight.elements.count, scales, quantised_formats_detail::kNestedBlock);
}

}  // namespace tidemark
