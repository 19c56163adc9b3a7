#include "graph/operators/known_families.hpp"

#include <string>
#include <string_view>

#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace known_families_detail {
namespace {

const OperatorFamily& registered(std::string_view name) {
  const OperatorFamily* found = find_family(name);
  if (found == nullptr) throw InternalError("there is no family " + std::string(name));
  return *found;
}

}  // namespace
}  // namespace known_families_detail

const OperatorFamily& linear_family() {
  static const OperatorFamily& family = known_families_detail::registered("linear");
  return family;
}
const OperatorFamily& addmm_family() {
  static const OperatorFamily& family = known_families_detail::registered("addmm");
  return family;
}
const OperatorFamily& baddbmm_family() {
  static const OperatorFamily& family = known_families_detail::registered("baddbmm");
  return family;
}
const OperatorFamily& bmm_family() {
  static const OperatorFamily& family = known_families_detail::registered("bmm");
  return family;
}
const OperatorFamily& attention_family() {
  static const OperatorFamily& family = known_families_detail::registered("attention");
  return family;
}
const OperatorFamily& softmax_family() {
  static const OperatorFamily& family = known_families_detail::registered("softmax");
  return family;
}
const OperatorFamily& log_softmax_family() {
  static const OperatorFamily& family = known_families_detail::registered("log_softmax");
  return family;
}
const OperatorFamily& cumsum_family() {
  static const OperatorFamily& family = known_families_detail::registered("cumsum");
  return family;
}
const OperatorFamily& layer_norm_family() {
  static const OperatorFamily& family = known_families_detail::registered("layer_norm");
  return family;
}
const OperatorFamily& rms_norm_family() {
  static const OperatorFamily& family = known_families_detail::registered("rms_norm");
  return family;
}
const OperatorFamily& batch_norm_family() {
  static const OperatorFamily& family = known_families_detail::registered("batch_norm");
  return family;
}
const OperatorFamily& instance_norm_family() {
  static const OperatorFamily& family = known_families_detail::registered("instance_norm");
  return family;
}
const OperatorFamily& update_running_stats_family() {
  static const OperatorFamily& family = known_families_detail::registered("update_running_stats");
  return family;
}
const OperatorFamily& mean_family() {
  static const OperatorFamily& family = known_families_detail::registered("mean");
  return family;
}
const OperatorFamily& sum_family() {
  static const OperatorFamily& family = known_families_detail::registered("sum");
  return family;
}
const OperatorFamily& nll_loss_family() {
  static const OperatorFamily& family = known_families_detail::registered("nll_loss");
  return family;
}
const OperatorFamily& max_pool2d_family() {
  static const OperatorFamily& family = known_families_detail::registered("max_pool2d");
  return family;
}
const OperatorFamily& avg_pool2d_family() {
  static const OperatorFamily& family = known_families_detail::registered("avg_pool2d");
  return family;
}
const OperatorFamily& view_family() {
  static const OperatorFamily& family = known_families_detail::registered("view");
  return family;
}
const OperatorFamily& reshape_family() {
  static const OperatorFamily& family = known_families_detail::registered("reshape");
  return family;
}
const OperatorFamily& contiguous_family() {
  static const OperatorFamily& family = known_families_detail::registered("contiguous");
  return family;
}
const OperatorFamily& transpose_family() {
  static const OperatorFamily& family = known_families_detail::registered("transpose");
  return family;
}
const OperatorFamily& permute_family() {
  static const OperatorFamily& family = known_families_detail::registered("permute");
  return family;
}
const OperatorFamily& expand_family() {
  static const OperatorFamily& family = known_families_detail::registered("expand");
  return family;
}
const OperatorFamily& split_family() {
  static const OperatorFamily& family = known_families_detail::registered("split");
  return family;
}
const OperatorFamily& narrow_family() {
  static const OperatorFamily& family = known_families_detail::registered("narrow");
  return family;
}
const OperatorFamily& cat_family() {
  static const OperatorFamily& family = known_families_detail::registered("cat");
  return family;
}
const OperatorFamily& clone_family() {
  static const OperatorFamily& family = known_families_detail::registered("clone");
  return family;
}
const OperatorFamily& embedding_family() {
  static const OperatorFamily& family = known_families_detail::registered("embedding");
  return family;
}
const OperatorFamily& add_family() {
  static const OperatorFamily& family = known_families_detail::registered("add");
  return family;
}
const OperatorFamily& mul_family() {
  static const OperatorFamily& family = known_families_detail::registered("mul");
  return family;
}
const OperatorFamily& scale_family() {
  static const OperatorFamily& family = known_families_detail::registered("scale");
  return family;
}
const OperatorFamily& add_scalar_family() {
  static const OperatorFamily& family = known_families_detail::registered("add_scalar");
  return family;
}
const OperatorFamily& cast_family() {
  static const OperatorFamily& family = known_families_detail::registered("cast");
  return family;
}
const OperatorFamily& dropout_family() {
  static const OperatorFamily& family = known_families_detail::registered("dropout");
  return family;
}
const OperatorFamily& feature_dropout_family() {
  static const OperatorFamily& family = known_families_detail::registered("feature_dropout");
  return family;
}
const OperatorFamily& stochastic_depth_family() {
  static const OperatorFamily& family = known_families_detail::registered("stochastic_depth");
  return family;
}
const OperatorFamily& relu_family() {
  static const OperatorFamily& family = known_families_detail::registered("relu");
  return family;
}
const OperatorFamily& gelu_family() {
  static const OperatorFamily& family = known_families_detail::registered("gelu");
  return family;
}
const OperatorFamily& silu_family() {
  static const OperatorFamily& family = known_families_detail::registered("silu");
  return family;
}
const OperatorFamily& tanh_family() {
  static const OperatorFamily& family = known_families_detail::registered("tanh");
  return family;
}
const OperatorFamily& sigmoid_family() {
  static const OperatorFamily& family = known_families_detail::registered("sigmoid");
  return family;
}
const OperatorFamily& pow_family() {
  static const OperatorFamily& family = known_families_detail::registered("pow");
  return family;
}
const OperatorFamily& softplus_family() {
  static const OperatorFamily& family = known_families_detail::registered("softplus");
  return family;
}
const OperatorFamily& hardswish_family() {
  static const OperatorFamily& family = known_families_detail::registered("hardswish");
  return family;
}
const OperatorFamily& elu_family() {
  static const OperatorFamily& family = known_families_detail::registered("elu");
  return family;
}
const OperatorFamily& leaky_relu_family() {
  static const OperatorFamily& family = known_families_detail::registered("leaky_relu");
  return family;
}
const OperatorFamily& glu_family() {
  static const OperatorFamily& family = known_families_detail::registered("glu");
  return family;
}
const OperatorFamily& logsigmoid_family() {
  static const OperatorFamily& family = known_families_detail::registered("logsigmoid");
  return family;
}
const OperatorFamily& masked_fill_family() {
  static const OperatorFamily& family = known_families_detail::registered("masked_fill");
  return family;
}
const OperatorFamily& maximum_family() {
  static const OperatorFamily& family = known_families_detail::registered("maximum");
  return family;
}
const OperatorFamily& minimum_family() {
  static const OperatorFamily& family = known_families_detail::registered("minimum");
  return family;
}
const OperatorFamily& where_family() {
  static const OperatorFamily& family = known_families_detail::registered("where");
  return family;
}
const OperatorFamily& tensor_power_family() {
  static const OperatorFamily& family = known_families_detail::registered("tensor_power");
  return family;
}
const OperatorFamily& rotary_family() {
  static const OperatorFamily& family = known_families_detail::registered("rotary");
  return family;
}
const OperatorFamily& zeros_family() {
  static const OperatorFamily& family = known_families_detail::registered("zeros");
  return family;
}
const OperatorFamily& arange_family() {
  static const OperatorFamily& family = known_families_detail::registered("arange");
  return family;
}
const OperatorFamily& require_gradient_family() {
  static const OperatorFamily& family = known_families_detail::registered("require_gradient");
  return family;
}
const OperatorFamily& adapted_weight_norm_family() {
  static const OperatorFamily& family = known_families_detail::registered("adapted_weight_norm");
  return family;
}

bool is_convolution(const OperatorFamily& family) {
  return is_one_of(convolution_families(), family) || is_transposed_convolution(family);
}

bool is_transposed_convolution(const OperatorFamily& family) {
  return is_one_of(transposed_convolution_families(), family);
}

bool is_recurrent(const OperatorFamily& family) {
  return is_one_of(recurrent_families(), family);
}

}  // namespace tidemark
