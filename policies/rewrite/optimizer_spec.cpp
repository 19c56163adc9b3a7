#include "policies/rewrite/optimizer_spec.hpp"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// One bit per OptimizerImplementation.
constexpr unsigned kLoop = 1U;
constexpr unsigned kForeach = 2U;
constexpr unsigned kFused = 4U;

struct Known {
  std::string_view name;
  std::string_view summary;
  unsigned implementations;
  double weight_decay = 0;
  double momentum = 0;
};

// In the order of OptimizerKind.
constexpr std::array<Known, 11> kKnown = {{
    {"sgd", "no state", kLoop | kForeach | kFused},
    {"momentum", "1 moment: 4 bytes of state per parameter in fp32", kLoop | kForeach | kFused, 0,
     0.9},
    {"nesterov", "1 moment: 4 bytes of state per parameter in fp32", kLoop | kForeach | kFused, 0,
     0.9},
    {"adam", "2 moments: 8 bytes of state per parameter in fp32 (Kingma and Ba 2015)",
     kLoop | kForeach | kFused},
    {"adamw", "2 moments: 8 bytes of state per parameter in fp32 (Loshchilov and Hutter 2019)",
     kLoop | kForeach | kFused, 0.01},
    {"adamw_8bit",
     "2 moments of 1 byte and 2 fp32 scales per 2048 of them, fp32 below 4096 elements "
     "(Dettmers et al. 2022, bitsandbytes)",
     kFused, 0.01},
    {"adafactor",
     "second moment as a row and a column: 4 (rows + columns) bytes a matrix in fp32, 4 bytes per "
     "parameter of a vector (Shazeer and Stern 2018)",
     kLoop},
    {"lion", "1 moment: 4 bytes of state per parameter in fp32 (Chen et al. 2023)", kLoop | kFused},
    {"muon",
     "1 moment of hidden matrices, 4 bytes per parameter in fp32, and adamw for embeddings, head "
     "and vectors (Jordan 2024)",
     kLoop, 0.1, 0.95},
    {"adagrad", "1 sum of squares: 4 bytes of state per parameter in fp32, there from the start",
     kLoop | kForeach},
    {"rmsprop",
     "1 mean of squares: 4 bytes of state per parameter in fp32, 4 more with momentum, 4 more "
     "centered",
     kLoop | kForeach},
}};
constexpr auto kNames = [] {
  std::array<std::string_view, kKnown.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = kKnown[i].name;
  return names;
}();
constexpr std::array<std::string_view, 3> kImplementations = {"loop", "foreach", "fused"};

const Known& known(OptimizerKind kind) {
  return kKnown.at(static_cast<std::size_t>(kind));
}

OptimizerImplementation implementation_named(std::string_view name) {
  for (std::size_t i = 0; i < kImplementations.size(); ++i) {
    if (kImplementations[i] == name) return static_cast<OptimizerImplementation>(i);
  }
  throw InternalError("no optimizer implementation is called " + std::string(name));
}

OptimizerKind decode_kind(const Decoder& parent, std::string_view key) {
  const std::string name = parent.optional_word(key, kNames, name_of(OptimizerKind::kAdamW));
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<OptimizerKind>(i);
  }
  throw InternalError("no optimizer is called " + name);
}

OptimizerSpec defaults_of(OptimizerKind kind) {
  return {.kind = kind,
          .implementation = std::nullopt,
          .weight_decay = known(kind).weight_decay,
          .momentum = known(kind).momentum};
}

OptimizerImplementation decode_implementation(const Decoder& mapping, OptimizerKind kind) {
  const OptimizerImplementation wanted =
      implementation_named(mapping.required_word("implementation", kImplementations));
  if (has_implementation(kind, wanted)) return wanted;
  std::vector<std::string_view> others;
  for (std::size_t i = 0; i < kImplementations.size(); ++i) {
    if (has_implementation(kind, static_cast<OptimizerImplementation>(i))) {
      others.push_back(kImplementations[i]);
    }
  }
  mapping.fail_at("implementation", fmt::format("{} has no {} form; it has {}", name_of(kind),
                                                name_of(wanted), fmt::join(others, " and ")));
}

}  // namespace

std::span<const std::string_view> optimizer_names() {
  return kNames;
}

std::string_view name_of(OptimizerKind kind) {
  return known(kind).name;
}

std::string_view name_of(OptimizerImplementation implementation) {
  return kImplementations.at(static_cast<std::size_t>(implementation));
}

std::string_view summary_of(OptimizerKind kind) {
  return known(kind).summary;
}

bool is_adam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW;
}

bool has_implementation(OptimizerKind kind, OptimizerImplementation implementation) {
  return (known(kind).implementations >> static_cast<unsigned>(implementation) & 1U) != 0;
}

OptimizerSpec decode_optimizer(const Decoder& training) {
  const Decoder mapping = training.optional_child("optimizer");
  if (!mapping.value().is_mapping()) return defaults_of(decode_kind(training, "optimizer"));
  OptimizerSpec spec = defaults_of(decode_kind(mapping, "name"));
  if (mapping.has("implementation")) {
    spec.implementation = decode_implementation(mapping, spec.kind);
  }
  spec.weight_decay = mapping.optional<double>("weight_decay", spec.weight_decay, at_least(0));
  if (known(spec.kind).momentum > 0) {
    spec.momentum = mapping.optional<double>("momentum", spec.momentum, above(0));
  } else if (spec.kind == OptimizerKind::kSgd || spec.kind == OptimizerKind::kRmsprop) {
    spec.momentum = mapping.optional<double>("momentum", 0, at_least(0));
    if (spec.kind == OptimizerKind::kSgd && spec.momentum > 0) spec.kind = OptimizerKind::kMomentum;
  }
  if (is_adam(spec.kind)) spec.amsgrad = mapping.optional<bool>("amsgrad", false);
  if (spec.kind == OptimizerKind::kRmsprop) {
    spec.centered = mapping.optional<bool>("centered", false);
  }
  mapping.finish();
  return spec;
}

OptimizerImplementation implementation_of(const OptimizerSpec& spec, const FrameworkRules& rules,
                                          bool master_weights) {
  if (spec.implementation) return *spec.implementation;
  const OptimizerImplementation usual = master_weights
                                            ? OptimizerImplementation::kFused
                                            : implementation_named(rules.optimizer_implementation);
  if (has_implementation(spec.kind, usual)) return usual;
  for (const OptimizerImplementation other :
       {OptimizerImplementation::kForeach, OptimizerImplementation::kLoop}) {
    if (has_implementation(spec.kind, other)) return other;
  }
  return OptimizerImplementation::kFused;
}

}  // namespace tidemark
