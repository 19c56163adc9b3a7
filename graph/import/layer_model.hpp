// Models that a YAML file describes by their layers; the format stands in models/layers/layers.hpp.
#pragma once

#include <string>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Returns the forward graph of a document of layers with its loss. `overrides` is a mapping of
// sizes to other values, or empty. Throws UserError at the layer: unknown kinds, names and
// parameters, shapes that do not fit, more than kMaxBuiltLayers layers.
[[nodiscard]] Graph build_layer_model(const Decoder& document, const Decoder& overrides,
                                      const std::string& name, const ModelOptions& options);
// Whether a document looks like a layer model: it has inputs and a list of layers.
[[nodiscard]] bool is_layer_model(const Value& document);

// The largest number of layers of a model, repetitions included.
inline constexpr int kMaxBuiltLayers = 200'000;
// The deepest nesting of structures and modules.
inline constexpr int kMaxLayerDepth = 48;

}  // namespace tidemark
