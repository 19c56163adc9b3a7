#include "policies/adapt/adaptive_precision.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/known_families.hpp"
#include "policies/adapt/entries.hpp"
#include "policies/adapt/name_patterns.hpp"
#include "policies/adapt/precision_search.hpp"
#include "policies/plan/budget.hpp"
#include "policies/rewrite/layer_precision.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {
namespace adaptive_precision_detail {
namespace {

struct Type {
  std::string_view name;
  DType dtype;
  int digits;  // of the significand, the leading one included: e4m3 for fp8
};
// Widest first.
constexpr std::array kTypes = {Type{"fp32", DType::kFloat32, 24}, Type{"fp16", DType::kFloat16, 11},
                               Type{"bf16", DType::kBFloat16, 8}, Type{"fp8", DType::kFloat8, 4}};

const Type& type_of(DType dtype) {
  for (const Type& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  return kTypes.front();
}

DType computes_in(const PrecisionRules& rules) {
  if (rules.fp8) return DType::kFloat8;
  return rules.autocast.value_or(rules.model);
}

// Returns multiply-adds of the linear layers and convolutions of each block.
std::vector<double> products_of(const Graph& graph) {
  std::vector<double> products(static_cast<std::size_t>(graph.blocks), 0.0);
  for (const Node& node : graph.nodes) {
    const bool multiplies = node.family == &linear_family() || node.family == &addmm_family() ||
                            is_convolution(*node.family);
    if (!multiplies || !node.layer.valid() || node.inputs.size() < 2) continue;
    const int block = graph.layers[node.layer].block;
    if (block == kNoBlock) continue;
    const Tensor& weight = graph.tensors[node.inputs[1]];
    const Tensor& result = graph.tensors[node.outputs.front()];
    const auto per_output = static_cast<double>(weight.elements().count) /
                            static_cast<double>(std::max<std::int64_t>(weight.shape[0], 1));
    products[static_cast<std::size_t>(block)] +=
        static_cast<double>(result.elements().count) * per_output;
  }
  return products;
}

// Returns "0-11, 14" for blocks.
std::string ranges(const std::vector<std::size_t>& blocks) {
  std::string text;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t last = i;
    while (last + 1 < blocks.size() && blocks[last + 1] == blocks[last] + 1)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", blocks[i]);
    if (last > i) text += fmt::format("-{}", blocks[last]);
    i = last + 1;
  }
  return text;
}

// Returns the types that blocks of a model can be lowered to, widest first. Of a model whose
// weights have 16 bits, only the products can be narrowed.
std::vector<DType> narrower_types(const RewriteContext& context) {
  std::vector<DType> types;
  const Type& model = type_of(computes_in(*context.precision));
  const bool has_fp8 =
      context.device == nullptr || matrix_type(*context.device, DType::kFloat8) == DType::kFloat8;
  for (const Type& type : kTypes) {
    const bool possible = type.dtype == DType::kFloat8 ? has_fp8 : model.dtype == DType::kFloat32;
    if (possible && type.digits < model.digits) types.push_back(type.dtype);
  }
  return types;
}

std::string words_of(const std::vector<DType>& types) {
  std::string words;
  for (const DType type : types)
    words += fmt::format("{}{}", words.empty() ? "" : ", ", type_of(type).name);
  return words.empty() ? "nothing on this device" : words;
}

// Named blocks of the model in a narrower type.
class LayerPrecision final : public ForwardRewrite {
 public:
  LayerPrecision(NamePatterns patterns, DType dtype)
      : patterns_(std::move(patterns)), dtype_(dtype) {}
  [[nodiscard]] std::string_view name() const override { return "precision_by_layer"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kPrecision; }
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override {
    const DType computes = computes_in(*context.precision);
    BlockTypes types(static_cast<std::size_t>(graph.blocks), computes);
    bool any = false;
    std::vector<std::string> names;
    for (const Layer& layer : graph.layers) {
      if (layer.block == kNoBlock) continue;
      names.push_back(layer.name);
      if (!patterns_.matches(layer.name)) continue;
      types[static_cast<std::size_t>(layer.block)] = dtype_;
      any = true;
    }
    if (!any) {
      throw UserError(
          {}, "policies.layer_precision",
          fmt::format("{} matches no repeated block of the model; the first is '{}'",
                      fmt::join(patterns_.layers, ", "), names.empty() ? "" : names.front()));
    }
    return with_block_types(graph, types, computes, *context.framework);
  }

 private:
  NamePatterns patterns_;
  DType dtype_;
};

}  // namespace
}  // namespace adaptive_precision_detail

Graph AdaptivePrecision::apply(const Graph& graph, const RewriteContext& context) const {
  using adaptive_precision_detail::computes_in;
  using adaptive_precision_detail::products_of;
  using adaptive_precision_detail::ranges;
  using adaptive_precision_detail::type_of;
  if (context.mesh.size(MeshDimension::kPipeline) > 1) {
    throw UserError({}, "policies.adaptive_precision",
                    "tries whole steps on one GPU, and 'pipeline' runs one for each stage; give "
                    "the stages a precision of their own by training.precision");
  }
  if (allowed_.empty() || context.trial == nullptr) return graph;
  const DType computes = computes_in(*context.precision);
  const auto with = [&](const std::vector<int>& option) {
    BlockTypes types;
    for (const int o : option)
      types.push_back(o == 0 ? computes : allowed_[static_cast<std::size_t>(o - 1)]);
    return with_block_types(graph, types, computes, *context.framework);
  };
  PrecisionProblem problem{.budget = budget_ ? *budget_ : context.trial->capacity()};
  for (const double products : products_of(graph)) {
    std::vector<double> costs{0};
    for (const DType type : allowed_)
      costs.push_back(products * std::ldexp(1.0, -type_of(type).digits));
    problem.cost.push_back(std::move(costs));
  }
  problem.peak = [&](const std::vector<int>& option) {
    return context.trial->live_peak(with(option));
  };
  const PrecisionChoice found = cheapest_precision(problem);
  std::string blocks;
  for (std::size_t o = 0; o < allowed_.size(); ++o) {
    std::vector<std::size_t> lowered;
    for (std::size_t b = 0; b < found.option.size(); ++b) {
      if (found.option[b] == static_cast<int>(o + 1)) lowered.push_back(b);
    }
    if (lowered.empty()) continue;
    blocks += fmt::format("{}{} in {} of {} blocks ({})", blocks.empty() ? "" : ", ",
                          type_of(allowed_[o]).name, lowered.size(), found.option.size(),
                          ranges(lowered));
  }
  if (blocks.empty()) blocks = "no block is lowered";
  context.trial->note(fmt::format("adaptive_precision: {}: {} live, {} a budget of {}", blocks,
                                  format_bytes(found.peak), found.meets ? "within" : "more than",
                                  format_bytes(problem.budget)));
  return with(found.option);
}

const PolicyEntry& adaptive_precision_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "adaptive_precision",
      .kind = "forward rewrite",
      .summary =
          "computes as few blocks as meet a budget of live memory in narrower types: those whose "
          "rounding costs least",
      .source = "Tidemark; types as torch.autocast and TransformerEngine compute in them",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        using adaptive_precision_detail::kTypes;
        using adaptive_precision_detail::narrower_types;
        using adaptive_precision_detail::Type;
        using adaptive_precision_detail::type_of;
        using adaptive_precision_detail::words_of;
        std::vector<std::string> words = d.list<std::string>("allowed");
        if (words.empty()) words = {"fp8", "bf16", "fp32"};
        const std::optional<Bytes> budget = decode_budget(d, at_least(1));
        d.finish();
        std::vector<std::string> known;
        known.reserve(kTypes.size());
        for (const Type& type : kTypes)
          known.emplace_back(type.name);
        for (const std::string& word : words) {
          if (std::find(known.begin(), known.end(), word) == known.end()) {
            d.fail_at("allowed", fmt::format("'{}' is none of {}{}", word, fmt::join(known, ", "),
                                             did_you_mean(word, known)));
          }
        }
        std::vector<DType> narrower;
        if (context.precision == nullptr)
          return std::make_unique<AdaptivePrecision>(narrower, budget);
        for (const DType type : narrower_types(context)) {
          if (std::find(words.begin(), words.end(), type_of(type).name) != words.end())
            narrower.push_back(type);
        }
        std::string remark;
        if (narrower.empty()) {
          remark = fmt::format(
              "adaptive_precision lowers nothing: blocks of training.precision: {} can be lowered "
              "to {}, and {} is none of it",
              context.precision->name, words_of(narrower_types(context)), fmt::join(words, ", "));
        }
        return std::make_unique<AdaptivePrecision>(std::move(narrower), budget, std::move(remark));
      }};
  return kEntry;
}

const PolicyEntry& layer_precision_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "layer_precision",
      .kind = "forward rewrite",
      .summary = "named blocks of the model compute in a narrower type than the rest",
      .source = "torch.autocast around modules; TransformerEngine's fp8_autocast",
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        using adaptive_precision_detail::kTypes;
        using adaptive_precision_detail::LayerPrecision;
        using adaptive_precision_detail::narrower_types;
        using adaptive_precision_detail::Type;
        using adaptive_precision_detail::words_of;
        NamePatterns patterns = decode_patterns(d);
        std::array<std::string_view, kTypes.size()> names;
        for (std::size_t i = 0; i < kTypes.size(); ++i)
          names[i] = kTypes[i].name;
        const std::string word = d.optional_word("precision", names, "fp8");
        d.finish();
        const auto* const type = std::find_if(kTypes.begin(), kTypes.end(),
                                              [&](const Type& t) { return t.name == word; });
        if (context.precision != nullptr) {
          const std::vector<DType> types = narrower_types(context);
          if (std::find(types.begin(), types.end(), type->dtype) == types.end()) {
            d.fail_at("precision",
                      fmt::format("blocks of training.precision: {} can be lowered to {}",
                                  context.precision->name, words_of(types)));
          }
        }
        return std::make_unique<LayerPrecision>(std::move(patterns), type->dtype);
      }};
  return kEntry;
}

}  // namespace tidemark
