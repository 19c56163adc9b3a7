// The work of operators by their extents, as a table of measurements states them.
#pragma once

#include <array>
#include <cstdint>

#include "graph/ir/convolutions.hpp"
#include "graph/ir/work.hpp"

namespace tidemark {

// Returns the product of [m, k] and [k, n], every operand moved once; that of fp8 is in bf16, as
// torch._scaled_mm returns it.
[[nodiscard]] Work product_work(DType type, std::int64_t m, std::int64_t n, std::int64_t k,
                                std::int64_t batch);

// Returns a dense or, where each group has one channel, a depthwise convolution.
[[nodiscard]] Work convolution_work(DType type, OperatorClass direction,
                                    const ConvolutionShape& shape);

// Returns work that reads and writes so many elements.
[[nodiscard]] Work traffic_work(DType type, OperatorClass op_class, Elements read,
                                Elements written);

// Returns fused attention: `tokens` = batch * heads * length, 4 tokens * length * width FLOP
// forward, 2.5 times as many backward, half of it under a causal mask.
[[nodiscard]] Work fused_attention_work(DType type, double tokens, std::int64_t length,
                                        std::int64_t width, bool causal, bool backward);

}  // namespace tidemark
