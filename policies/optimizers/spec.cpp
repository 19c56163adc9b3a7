#include "policies/optimizers/spec.hpp"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/optimizers/catalogue.hpp"

namespace tidemark {
namespace spec_detail {
namespace {

constexpr std::array<std::string_view, 2> kEmbeddingStates = {"8bit", "fp32"};

OptimizerImplementation implementation_named(std::string_view name) {
  for (std::size_t i = 0; i < kOptimizerImplementations.size(); ++i) {
    if (kOptimizerImplementations[i] == name) return static_cast<OptimizerImplementation>(i);
  }
  throw InternalError("no optimizer implementation is called " + std::string(name));
}

OptimizerKind decode_kind(const Decoder& parent, std::string_view key) {
  return find_optimizer(parent.optional_word(key, optimizer_names(), adamw_optimizer().name));
}

std::vector<std::string_view> forms_of(OptimizerKind kind) {
  std::vector<std::string_view> forms;
  for (std::size_t i = 0; i < kOptimizerImplementations.size(); ++i) {
    if (has_implementation(kind, static_cast<OptimizerImplementation>(i)))
      forms.push_back(kOptimizerImplementations[i]);
  }
  return forms;
}

// Reads the key `implementation`: a form, or the library whose algorithm is meant.
void decode_implementation(const Decoder& mapping, OptimizerSpec& spec) {
  std::vector<std::string_view> words(kOptimizerImplementations.begin(),
                                      kOptimizerImplementations.end());
  for (const OptimizerLibrary& library : spec.kind->libraries)
    words.push_back(library.name);
  const std::string word = mapping.required_word("implementation", words);
  for (const OptimizerLibrary& library : spec.kind->libraries) {
    if (library.name != word) continue;
    spec = optimizer_defaults(&library.algorithm());
    return;
  }
  const OptimizerImplementation wanted = implementation_named(word);
  if (!has_implementation(spec.kind, wanted)) {
    mapping.fail_at("implementation",
                    fmt::format("{} has no {} form; it has {}", spec.kind->name, name_of(wanted),
                                fmt::join(forms_of(spec.kind), " and ")));
  }
  spec.implementation = wanted;
}

// Reads how 16-bit weights are updated without masters.
void decode_rounding(const Decoder& mapping, OptimizerSpec& spec) {
  spec.kahan = mapping.optional<bool>("kahan", false);
  spec.stochastic_rounding = mapping.optional<bool>("stochastic_rounding", false);
  if (!spec.stochastic_rounding) return;
  if (spec.kahan) {
    mapping.fail_at("stochastic_rounding",
                    "kahan keeps what stochastic_rounding averages out; leave one of them out");
  }
  if (spec.implementation && *spec.implementation != OptimizerImplementation::kFused) {
    mapping.fail_at("stochastic_rounding",
                    fmt::format("is done inside one kernel per parameter (torchao), not in the {} "
                                "form; leave implementation out",
                                name_of(*spec.implementation)));
  }
  spec.implementation = OptimizerImplementation::kFused;
}

}  // namespace
}  // namespace spec_detail

std::string_view name_of(OptimizerKind kind) {
  return kind->name;
}

std::string_view name_of(OptimizerImplementation implementation) {
  return kOptimizerImplementations.at(static_cast<std::size_t>(implementation));
}

std::string_view summary_of(OptimizerKind kind) {
  return kind->summary;
}

bool has_implementation(OptimizerKind kind, OptimizerImplementation implementation) {
  return kind->forms.at(static_cast<std::size_t>(implementation));
}

OptimizerSpec optimizer_defaults(OptimizerKind kind) {
  return {.kind = kind,
          .implementation = std::nullopt,
          .weight_decay = kind->weight_decay,
          .momentum = kind->momentum,
          .rank = kind->rank,
          .refresh = kind->refresh};
}

OptimizerSpec decode_optimizer(const Decoder& training) {
  const Decoder mapping = training.optional_child("optimizer");
  if (!mapping.value().is_mapping())
    return optimizer_defaults(spec_detail::decode_kind(training, "optimizer"));
  OptimizerSpec spec = optimizer_defaults(spec_detail::decode_kind(mapping, "name"));
  if (mapping.has("implementation")) spec_detail::decode_implementation(mapping, spec);
  spec.weight_decay = mapping.optional<double>("weight_decay", spec.weight_decay, at_least(0));
  const OptimizerAlgorithm& named = *spec.kind;
  if (named.momentum > 0) {
    spec.momentum = mapping.optional<double>("momentum", spec.momentum, above(0));
  } else if (named.takes_momentum) {
    spec.momentum = mapping.optional<double>("momentum", 0, at_least(0));
    if (named.with_momentum != nullptr && spec.momentum > 0) spec.kind = &named.with_momentum();
  }
  if (named.takes_amsgrad) spec.amsgrad = mapping.optional<bool>("amsgrad", false);
  if (named.takes_centered) spec.centered = mapping.optional<bool>("centered", false);
  if (named.takes_rounding) spec_detail::decode_rounding(mapping, spec);
  if (named.takes_embeddings) {
    spec.embeddings_in_fp32 =
        mapping.optional_word("embeddings", spec_detail::kEmbeddingStates, "8bit") == "fp32";
  }
  if (named.rank > 0) spec.rank = mapping.optional<int>("rank", named.rank, at_least(1));
  if (named.refresh > 0)
    spec.refresh = mapping.optional<int>("refresh", named.refresh, at_least(1));
  mapping.finish();
  return spec;
}

OptimizerImplementation implementation_of(const OptimizerSpec& spec, const FrameworkRules& rules,
                                          bool master_weights) {
  if (spec.implementation) return *spec.implementation;
  const OptimizerImplementation usual =
      master_weights ? OptimizerImplementation::kFused
                     : spec_detail::implementation_named(rules.optimizer_implementation);
  if (has_implementation(spec.kind, usual)) return usual;
  for (const OptimizerImplementation other :
       {OptimizerImplementation::kForeach, OptimizerImplementation::kLoop}) {
    if (has_implementation(spec.kind, other)) return other;
  }
  return OptimizerImplementation::kFused;
}

void add_decay(const OptimizerSpec& spec, OptimizerImplementation form, const FrameworkRules& rules,
               OptimizerKernels& kernels) {
  if (form == OptimizerImplementation::kLoop || !rules.foreach_decays_in_place) {
    return add_decayed_gradient(spec, kernels);
  }
  if (spec.weight_decay <= 0) return;
  kernels.add("add_decay", {OptimizerTensor::kGradient, OptimizerTensor::kWeights},
              {OptimizerTensor::kGradient}, 2);
}

void add_decayed_gradient(const OptimizerSpec& spec, OptimizerKernels& kernels) {
  if (spec.weight_decay <= 0) return;
  kernels.add("add_decay", {OptimizerTensor::kGradient, OptimizerTensor::kWeights},
              {OptimizerTensor::kDecayedGradient}, 2);
  kernels.read_gradient_from(OptimizerTensor::kDecayedGradient);
}

}  // namespace tidemark
