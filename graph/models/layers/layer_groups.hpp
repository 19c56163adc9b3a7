// The kinds of layers by subject, a file each.
#pragma once

#include <span>

#include "graph/models/layers/layer_kind.hpp"

namespace tidemark {

[[nodiscard]] std::span<const LayerKind> module_layers();
[[nodiscard]] std::span<const LayerKind> image_layers();
[[nodiscard]] std::span<const LayerKind> shape_layers();

}  // namespace tidemark
