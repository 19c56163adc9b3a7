// Families of this folder that the program asks for: `node.family == &linear_family()`. Each is the
// one object that find_family() returns for its name.
#pragma once

#include "graph/ir/operator_family.hpp"

namespace tidemark {

// products
[[nodiscard]] const OperatorFamily& linear_family();
[[nodiscard]] const OperatorFamily& addmm_family();
[[nodiscard]] const OperatorFamily& baddbmm_family();
[[nodiscard]] const OperatorFamily& bmm_family();
[[nodiscard]] const OperatorFamily& attention_family();

// reductions
[[nodiscard]] const OperatorFamily& softmax_family();
[[nodiscard]] const OperatorFamily& log_softmax_family();
[[nodiscard]] const OperatorFamily& cumsum_family();
[[nodiscard]] const OperatorFamily& layer_norm_family();
[[nodiscard]] const OperatorFamily& rms_norm_family();
[[nodiscard]] const OperatorFamily& batch_norm_family();
[[nodiscard]] const OperatorFamily& instance_norm_family();
[[nodiscard]] const OperatorFamily& update_running_stats_family();
[[nodiscard]] const OperatorFamily& mean_family();
[[nodiscard]] const OperatorFamily& sum_family();
[[nodiscard]] const OperatorFamily& nll_loss_family();
[[nodiscard]] const OperatorFamily& max_pool2d_family();
[[nodiscard]] const OperatorFamily& avg_pool2d_family();

// shapes
[[nodiscard]] const OperatorFamily& view_family();
[[nodiscard]] const OperatorFamily& reshape_family();
[[nodiscard]] const OperatorFamily& contiguous_family();
[[nodiscard]] const OperatorFamily& transpose_family();
[[nodiscard]] const OperatorFamily& permute_family();
[[nodiscard]] const OperatorFamily& expand_family();
[[nodiscard]] const OperatorFamily& split_family();
[[nodiscard]] const OperatorFamily& narrow_family();
[[nodiscard]] const OperatorFamily& cat_family();
[[nodiscard]] const OperatorFamily& clone_family();
[[nodiscard]] const OperatorFamily& embedding_family();

// pointwise
[[nodiscard]] const OperatorFamily& add_family();
[[nodiscard]] const OperatorFamily& mul_family();
[[nodiscard]] const OperatorFamily& scale_family();
[[nodiscard]] const OperatorFamily& add_scalar_family();
[[nodiscard]] const OperatorFamily& cast_family();
[[nodiscard]] const OperatorFamily& dropout_family();
[[nodiscard]] const OperatorFamily& feature_dropout_family();
[[nodiscard]] const OperatorFamily& stochastic_depth_family();
[[nodiscard]] const OperatorFamily& relu_family();
[[nodiscard]] const OperatorFamily& gelu_family();
[[nodiscard]] const OperatorFamily& silu_family();
[[nodiscard]] const OperatorFamily& tanh_family();
[[nodiscard]] const OperatorFamily& sigmoid_family();
[[nodiscard]] const OperatorFamily& pow_family();
[[nodiscard]] const OperatorFamily& softplus_family();
[[nodiscard]] const OperatorFamily& hardswish_family();
[[nodiscard]] const OperatorFamily& elu_family();
[[nodiscard]] const OperatorFamily& leaky_relu_family();
[[nodiscard]] const OperatorFamily& glu_family();
[[nodiscard]] const OperatorFamily& logsigmoid_family();
[[nodiscard]] const OperatorFamily& masked_fill_family();
[[nodiscard]] const OperatorFamily& maximum_family();
[[nodiscard]] const OperatorFamily& minimum_family();
[[nodiscard]] const OperatorFamily& where_family();
[[nodiscard]] const OperatorFamily& tensor_power_family();
[[nodiscard]] const OperatorFamily& rotary_family();
[[nodiscard]] const OperatorFamily& zeros_family();
[[nodiscard]] const OperatorFamily& arange_family();

// adapters
[[nodiscard]] const OperatorFamily& require_gradient_family();
[[nodiscard]] const OperatorFamily& adapted_weight_norm_family();

// Tells convolutions, transposed ones among them.
[[nodiscard]] bool is_convolution(const OperatorFamily& family);
[[nodiscard]] bool is_transposed_convolution(const OperatorFamily& family);
[[nodiscard]] bool is_recurrent(const OperatorFamily& family);

}  // namespace tidemark
