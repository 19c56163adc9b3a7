// The families of operators that each file of this folder defines.
#pragma once

#include <span>

#include "graph/operators/family.hpp"

namespace tidemark {

// Whether a family is one of those that a file defines.
[[nodiscard]] bool is_one_of(std::span<const OperatorFamily> families,
                             const OperatorFamily& family);

[[nodiscard]] std::span<const OperatorFamily> linear_families();
[[nodiscard]] std::span<const OperatorFamily> bmm_families();
[[nodiscard]] std::span<const OperatorFamily> attention_families();
[[nodiscard]] std::span<const OperatorFamily> embedding_families();
[[nodiscard]] std::span<const OperatorFamily> layer_norm_families();
[[nodiscard]] std::span<const OperatorFamily> batch_norm_families();
[[nodiscard]] std::span<const OperatorFamily> softmax_families();
[[nodiscard]] std::span<const OperatorFamily> loss_families();
[[nodiscard]] std::span<const OperatorFamily> dropout_families();
[[nodiscard]] std::span<const OperatorFamily> activation_families();
[[nodiscard]] std::span<const OperatorFamily> elementwise_families();
[[nodiscard]] std::span<const OperatorFamily> masked_fill_families();
[[nodiscard]] std::span<const OperatorFamily> convolution_families();
[[nodiscard]] std::span<const OperatorFamily> pooling_families();
[[nodiscard]] std::span<const OperatorFamily> view_families();
[[nodiscard]] std::span<const OperatorFamily> slice_families();
[[nodiscard]] std::span<const OperatorFamily> rotary_families();
[[nodiscard]] std::span<const OperatorFamily> reduction_families();
[[nodiscard]] std::span<const OperatorFamily> creation_families();
[[nodiscard]] std::span<const OperatorFamily> addmm_families();
[[nodiscard]] std::span<const OperatorFamily> comparison_families();
[[nodiscard]] std::span<const OperatorFamily> gated_families();
[[nodiscard]] std::span<const OperatorFamily> transposed_convolution_families();
[[nodiscard]] std::span<const OperatorFamily> interpolate_families();
[[nodiscard]] std::span<const OperatorFamily> grid_sample_families();
[[nodiscard]] std::span<const OperatorFamily> unfold_families();
[[nodiscard]] std::span<const OperatorFamily> rearrange_families();
[[nodiscard]] std::span<const OperatorFamily> statistics_families();
[[nodiscard]] std::span<const OperatorFamily> indexing_families();
[[nodiscard]] std::span<const OperatorFamily> noise_families();
[[nodiscard]] std::span<const OperatorFamily> regression_loss_families();
[[nodiscard]] std::span<const OperatorFamily> recurrent_families();
[[nodiscard]] std::span<const OperatorFamily> weight_norm_families();
[[nodiscard]] std::span<const OperatorFamily> tensor_power_families();
[[nodiscard]] std::span<const OperatorFamily> lerp_families();
[[nodiscard]] std::span<const OperatorFamily> distance_families();
[[nodiscard]] std::span<const OperatorFamily> ctc_loss_families();
[[nodiscard]] std::span<const OperatorFamily> spectral_norm_families();
[[nodiscard]] std::span<const OperatorFamily> quantised_linear_families();
[[nodiscard]] std::span<const OperatorFamily> adapter_families();

}  // namespace tidemark
