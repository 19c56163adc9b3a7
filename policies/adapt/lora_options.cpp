#include "policies/adapt/lora_options.hpp"

#include <algorithm>
#include <array>

namespace tidemark {
namespace lora_options_detail {
namespace {

constexpr std::array kFloats = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

std::optional<DType> float_type(std::string_view name) {
  for (DType type : kFloats) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

void decode_base(const Decoder& d, LoraOptions& options) {
  static constexpr std::array<std::string_view, 9> kBases = {
      "training.precision", "fp32", "bf16", "fp16", "nf4", "nf4_dq", "fp4", "fp4_dq", "int8"};
  const std::string base = d.optional_word("base", kBases, kBases.front());
  const bool prepares = d.optional<bool>("prepare", false);
  d.mention("implementation", "word", "bitsandbytes | bitsandbytes-0.42 | torchao");
  d.mention("block", "integer", "32 to 4096, of a quantised base");
  d.mention("quantise_head", "true or false", "of a quantised base");
  d.mention("compute_dtype", "word", "input | fp32 | bf16 | fp16, of a base of 4 bits");
  d.mention("outliers", "number", "0 to 1, of base: int8");
  options.base = float_type(base);
  if (options.base || base == kBases.front()) {
    if (d.has("implementation"))
      d.fail_at("implementation", "says who quantises, but base: " + base + " is not quantised");
    if (d.has("compute_dtype"))
      d.fail_at("compute_dtype", "is for quantised bases, and base: " + base + " is none");
    if (d.has("block")) d.fail_at("block", "is of quantised bases, and base: " + base + " is none");
    if (d.has("quantise_head")) {
      d.fail_at("quantise_head", "is for quantised bases, and base: " + base + " is none");
    }
    if (d.has("outliers"))
      d.fail_at("outliers", "is for a base of int8, and base: " + base + " is none");
    if (prepares) d.fail_at("prepare", "is for quantised bases, and base: " + base + " is none");
    return;
  }
  options.quantised = decode_quantise(d, base);
  options.quantised->upcasts_rest = prepares;
  options.quantised->patterns.layers = {"*"};
  options.quantised->policy = "lora";
}

std::vector<std::size_t> decode_parts(const Decoder& d) {
  static constexpr std::array<std::string_view, 3> kParts = {"q", "k", "v"};
  std::vector<std::size_t> parts;
  const std::vector<std::string> words = d.list<std::string>("parts");
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    if (std::find(words.begin(), words.end(), kParts.at(i)) != words.end()) parts.push_back(i);
  }
  if (parts.size() != words.size())
    d.fail_at("parts", "expected a list of q, k and v, each at most once");
  return parts;
}

}  // namespace
}  // namespace lora_options_detail

LoraOptions decode_lora(const Decoder& d) {
  LoraOptions options;
  options.rank = d.optional<std::int64_t>("rank", 8, at_least(1));
  const Value* targets = d.has("targets") ? d.value().find("targets") : nullptr;
  if (targets != nullptr && targets->is_scalar()) {
    options.targets = {d.required<std::string>("targets")};
  } else {
    options.targets = d.list<std::string>("targets");
  }
  options.parts = lora_options_detail::decode_parts(d);
  options.alpha = d.optional<double>("alpha", 8);
  options.rank_stabilised = d.optional<bool>("rslora", false);
  options.dropout = d.optional<double>("dropout", 0, between(0, 1));
  if (options.dropout >= 1) d.fail_at("dropout", "1 drops every input; write a number below 1");
  options.dora = d.optional<bool>("dora", false);
  if (options.dora && !options.parts.empty())
    d.fail_at("parts", "dora: true takes norms of whole rows; leave one of them out");
  static constexpr std::array<std::string_view, 3> kTypes = {"fp32", "bf16", "fp16"};
  options.dtype =
      *lora_options_detail::float_type(d.optional_word("dtype", kTypes, kTypes.front()));
  options.modules_to_save = d.list<std::string>("modules_to_save");
  static constexpr std::array<std::string_view, 3> kBiases = {"none", "all", "lora_only"};
  const std::string bias = d.optional_word("bias", kBiases, kBiases.front());
  options.bias = bias == "all"         ? LoraBias::kAll
                 : bias == "lora_only" ? LoraBias::kLoraOnly
                                       : LoraBias::kNone;
  options.input_gradients = d.optional<bool>("input_gradients", false);
  options.merged = d.optional<bool>("merged", false);
  lora_options_detail::decode_base(d, options);
  d.finish();
  return options;
}

}  // namespace tidemark
