#include "graph/models/layers/layers.hpp"

#include <algorithm>
#include <vector>

#include "graph/models/layers/layer_groups.hpp"

namespace tidemark {
namespace layers_detail {
namespace {

std::vector<LayerKind> joined_layer_kinds() {
  std::vector<LayerKind> all;
  for (const std::span<const LayerKind> group : {module_layers(), image_layers(), shape_layers()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace
}  // namespace layers_detail

std::span<const LayerKind> layer_kinds() {
  static const std::vector<LayerKind> all = layers_detail::joined_layer_kinds();
  return all;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const std::span<const LayerKind> kinds = layer_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const LayerKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace tidemark
