#include "policies/rewrite/fp8.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/operators/known_families.hpp"
#include "graph/operators/products/fp8_linear.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "hwprofiles/device_profile.hpp"
#include "policies/rewrite/layer_precision.hpp"

namespace tidemark {
namespace fp8_detail {
namespace {

constexpr std::array<std::string_view, 6> kRecipes{"delayed", "current",    "blockwise",
                                                   "mxfp8",   "tensorwise", "rowwise"};
constexpr std::int64_t kFeatures = 16;      // products take multiples of it
constexpr std::int64_t kHistory = 1024;     // magnitudes that delayed scaling remembers
constexpr std::int64_t kScaledTensors = 5;  // x, weight, output; gradient and its result

Attributes attributes_of(Fp8Recipe recipe, Attributes attributes) {
  const auto set = [&](std::string_view key, std::int64_t value) { attributes.set(key, value); };
  set("reads_twice", recipe == Fp8Recipe::kDelayed ? 0 : 1);
  switch (recipe) {
    case Fp8Recipe::kDelayed:
    case Fp8Recipe::kCurrent:
      break;
    case Fp8Recipe::kBlockwise:
      set("scale_block", 128);
      set("weight_scale_block", std::int64_t{128} * 128);
      set("scale_bytes", 4);
      break;
    case Fp8Recipe::kMxfp8:
      set("scale_block", 32);
      set("weight_scale_block", 32);
      set("scale_bytes", 1);
      set("reads_twice", 0);  // a block's scale is found inside the kernel of the cast
      break;
    case Fp8Recipe::kTensorwise:
    case Fp8Recipe::kRowwise:
      set("high_precision", 1);
      break;
  }
  return attributes;
}

// Modules are replaced, but for the head: a product that no module makes, with the weight of an
// embedding, has none.
bool is_module(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  return node.family == &linear_family() && node.layer.valid() &&
         node.outputs.front() != graph.logits;
}

bool is_replaced(const Graph& graph, NodeId id) {
  if (!is_module(graph, id)) return false;
  const Tensor& weight = graph.tensors[graph.nodes[id].inputs[1]];
  return weight.shape[0] % kFeatures == 0 && weight.shape[1] % kFeatures == 0;
}

// Returns a sentence on the layers whose features are no multiple of 16; empty where all are.
std::string words_of_skipped(const Graph& graph) {
  std::size_t modules = 0;
  std::size_t skipped = 0;
  NodeId first;
  for (const NodeId id : ids_of(graph.nodes)) {
    if (!is_module(graph, id)) continue;
    ++modules;
    if (is_replaced(graph, id)) continue;
    ++skipped;
    if (!first.valid()) first = id;
  }
  if (skipped == 0) return {};
  const Node& node = graph.nodes[first];
  return fmt::format(
      "{} of {} linear layers are not computed in fp8, whose products take multiples of {} "
      "features: the weight of {} is {} (torchao leaves such layers out, TransformerEngine refuses "
      "them)",
      skipped, modules, kFeatures, graph.layers[node.layer].name,
      to_string(graph.tensors[node.inputs[1]].shape));
}

void replace(GraphCopy& copy, NodeId id, Fp8Recipe recipe) {
  const Node& node = copy.source().nodes[id];
  std::vector<TensorId> inputs = copy.inputs_of(id);
  if (recipe == Fp8Recipe::kDelayed) {
    inputs.resize(3);
    // A product in the model's own forward lies in no layer.
    const std::string owner =
        node.layer.valid() ? copy.source().layers[node.layer].name + "." : std::string();
    inputs.push_back(copy.result().add_buffer(owner + "fp8_meta", {kScaledTensors * (kHistory + 1)},
                                              DType::kFloat32, node.layer));
  }
  const NodeId made = copy.result().add_node(fp8_linear_family(), std::move(inputs),
                                             attributes_of(recipe, node.attributes), node.layer);
  copy.replace(id, std::vector<TensorId>(copy.result().nodes[made].outputs));
}

}  // namespace
}  // namespace fp8_detail

Fp8Recipe decode_fp8(const Decoder& training) {
  const Value* precision = training.value().find("precision");
  if (precision == nullptr || precision->kind != Value::Kind::kMapping) return Fp8Recipe::kDelayed;
  const Decoder options = training.required_child("precision").required_child("fp8_mixed");
  const std::string word = options.optional_word("recipe", fp8_detail::kRecipes, "delayed");
  options.finish();
  for (std::size_t i = 0; i < fp8_detail::kRecipes.size(); ++i) {
    if (fp8_detail::kRecipes[i] == word) return static_cast<Fp8Recipe>(i);
  }
  return Fp8Recipe::kDelayed;
}

Graph fp8_blocks(const Graph& graph, const std::vector<char>& chosen) {
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    const LayerId layer = graph.nodes[id].layer;
    const int block = graph.block_of(layer);
    const auto index = static_cast<std::size_t>(block);
    const bool lowered = block != kNoBlock && index < chosen.size() && chosen[index] != 0;
    if (lowered && fp8_detail::is_replaced(graph, id)) {
      fp8_detail::replace(copy, id, Fp8Recipe::kDelayed);
    } else {
      (void)copy.keep(id);
    }
  });
}

Graph Fp8Products::apply(const Graph& graph, const RewriteContext& context) const {
  // transformer_engine/pytorch/quantization.py, check_mxfp8_support
  constexpr double kFirst = 10.0;
  constexpr double kBehind = 12.0;  // "not supported on 12.0+ architectures yet"
  const double capability = context.device != nullptr ? context.device->compute_capability : 0;
  const bool refused = capability > 0 && (capability < kFirst || capability >= kBehind);
  if (recipe_ == Fp8Recipe::kMxfp8 && refused && context.trial != nullptr) {
    context.trial->note(fmt::format(
        "TransformerEngine refuses the recipe mxfp8 but for compute capability {:.1f} up to "
        "{:.1f}, and {} has {:.1f}: the figures are what its buffers would take",
        kFirst, kBehind, context.device->name, capability));
  }
  if (std::string skipped = fp8_detail::words_of_skipped(graph);
      !skipped.empty() && context.trial != nullptr)
    context.trial->note(std::move(skipped));
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (fp8_detail::is_replaced(graph, id)) {
      fp8_detail::replace(copy, id, recipe_);
    } else {
      (void)copy.keep(id);
    }
  });
}

}  // namespace tidemark
