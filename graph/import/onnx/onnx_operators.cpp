#include <algorithm>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_operators_detail {
namespace {

std::vector<OnnxOperator> collect_operators() {
  std::vector<OnnxOperator> all;
  for (const auto& operators :
       {onnx_elementwise_operators(), onnx_window_operators(), onnx_product_operators(),
        onnx_layout_operators(), onnx_index_operators(), onnx_reduction_operators(),
        onnx_normalization_operators(), onnx_recurrent_operators(), onnx_einsum_operators(),
        onnx_random_operators()}) {
    all.insert(all.end(), operators.begin(), operators.end());
  }
  std::sort(all.begin(), all.end(),
            [](const OnnxOperator& a, const OnnxOperator& b) { return a.name < b.name; });
  return all;
}

std::vector<OnnxPattern> collect_patterns() {
  std::vector<OnnxPattern> all;
  for (const auto& patterns :
       {onnx_normalization_patterns(), onnx_activation_patterns(), onnx_layout_patterns(),
        onnx_window_patterns(), onnx_loss_patterns(), onnx_parametrization_patterns(),
        onnx_cell_patterns(), onnx_function_patterns(), onnx_index_patterns()}) {
    all.insert(all.end(), patterns.begin(), patterns.end());
  }
  return all;
}

}  // namespace
}  // namespace onnx_operators_detail

const OnnxOperator* find_onnx_operator(std::string_view name) {
  static const std::vector<OnnxOperator> operators = onnx_operators_detail::collect_operators();
  const auto found = std::lower_bound(
      operators.begin(), operators.end(), name,
      [](const OnnxOperator& op, std::string_view wanted) { return op.name < wanted; });
  return found != operators.end() && found->name == name ? &*found : nullptr;
}

std::span<const OnnxPattern> onnx_patterns() {
  static const std::vector<OnnxPattern> patterns = onnx_operators_detail::collect_patterns();
  return patterns;
}

}  // namespace tidemark
