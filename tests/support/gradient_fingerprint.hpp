// A hash that tells whether two training graphs compute the same gradients.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/ir/training_graph.hpp"

namespace tidemark::test {
namespace gradient_fingerprint_detail {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xBF58476D1CE4E5B9ULL;
}

inline std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, the same on every platform
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace gradient_fingerprint_detail

// Hashes which parameter gradients are produced and from what: two graphs with the same fingerprint
// train the same parameters by the same kernels. Rewrites that must not change the result are
// tested with it.
inline std::uint64_t gradient_fingerprint(const TrainingGraph& graph) {
  using gradient_fingerprint_detail::hash_text;
  using gradient_fingerprint_detail::mix;
  IdVector<StorageId, std::uint64_t> content(graph.storages.size(), 0);
  for (StorageId s : ids_of(graph.storages))
    content[s] = hash_text(graph.storages[s].name);
  const auto play = [&](std::span<const OperatorId> part) {
    for (OperatorId id : part) {
      std::uint64_t hash = hash_text(graph.operators[id].name);
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access <= Access::kMutate) hash = mix(hash, content[touch.storage]);
      }
      std::uint64_t index = 0;
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access != Access::kRead) content[touch.storage] = mix(hash, ++index);
      }
    }
  };
  play(graph.part(PartKind::kForward));
  play(graph.part(PartKind::kBackward));
  std::uint64_t fingerprint = 0;
  for (ParameterId id : graph.trained) {
    const Parameter& parameter = graph.parameters[id];
    fingerprint += mix(hash_text(parameter.name), content[parameter.gradient]);
  }
  return fingerprint;
}

}  // namespace tidemark::test
