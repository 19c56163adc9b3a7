#include "graph/operators/registry.hpp"

#include <algorithm>
#include <vector>

namespace tidemark {
namespace registry_detail {
namespace {

std::vector<const OperatorFamily*> collect() {
  std::vector<const OperatorFamily*> all;
  const auto add = [&](std::span<const OperatorFamily> families) {
    for (const OperatorFamily& family : families)
      all.push_back(&family);
  };
  add(linear_families());
  add(bmm_families());
  add(attention_families());
  add(embedding_families());
  add(layer_norm_families());
  add(batch_norm_families());
  add(softmax_families());
  add(loss_families());
  add(dropout_families());
  add(activation_families());
  add(elementwise_families());
  add(masked_fill_families());
  add(convolution_families());
  add(pooling_families());
  add(view_families());
  add(slice_families());
  add(rotary_families());
  add(reduction_families());
  add(creation_families());
  add(addmm_families());
  add(comparison_families());
  add(gated_families());
  add(transposed_convolution_families());
  add(interpolate_families());
  add(grid_sample_families());
  add(unfold_families());
  add(rearrange_families());
  add(statistics_families());
  add(indexing_families());
  add(noise_families());
  add(regression_loss_families());
  add(recurrent_families());
  add(weight_norm_families());
  add(tensor_power_families());
  add(lerp_families());
  add(distance_families());
  add(ctc_loss_families());
  add(spectral_norm_families());
  add(quantised_linear_families());
  add(adapter_families());
  std::sort(all.begin(), all.end(),
            [](const OperatorFamily* a, const OperatorFamily* b) { return a->name < b->name; });
  return all;
}

}  // namespace
}  // namespace registry_detail

bool is_one_of(std::span<const OperatorFamily> families, const OperatorFamily& family) {
  return std::any_of(families.begin(), families.end(),
                     [&](const OperatorFamily& other) { return &other == &family; });
}

std::span<const OperatorFamily* const> all_families() {
  static const std::vector<const OperatorFamily*> families = registry_detail::collect();
  return families;
}

const OperatorFamily* find_family(std::string_view name) {
  const auto families = all_families();
  const auto found = std::lower_bound(
      families.begin(), families.end(), name,
      [](const OperatorFamily* family, std::string_view wanted) { return family->name < wanted; });
  return found != families.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace tidemark
