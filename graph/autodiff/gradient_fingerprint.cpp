#include "graph/autodiff/gradient_fingerprint.hpp"

#include <span>
#include <string_view>

namespace tidemark {
namespace gradient_fingerprint_detail {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xBF58476D1CE4E5B9ULL;
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, the same on every platform
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace
}  // namespace gradient_fingerprint_detail

std::uint64_t gradient_fingerprint(const TrainingGraph& graph) {
  IdVector<StorageId, std::uint64_t> content(graph.storages.size(), 0);
  for (StorageId s : ids_of(graph.storages))
    content[s] = gradient_fingerprint_detail::hash_text(graph.storages[s].name);
  const auto play = [&](std::span<const OperatorId> part) {
    for (OperatorId id : part) {
      std::uint64_t hash = gradient_fingerprint_detail::hash_text(graph.operators[id].name);
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access <= Access::kMutate)
          hash = gradient_fingerprint_detail::mix(hash, content[touch.storage]);
      }
      std::uint64_t index = 0;
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access != Access::kRead)
          content[touch.storage] = gradient_fingerprint_detail::mix(hash, ++index);
      }
    }
  };
  play(graph.part(PartKind::kForward));
  play(graph.part(PartKind::kBackward));
  std::uint64_t fingerprint = 0;
  for (ParameterId id : graph.trained) {
    const Parameter& parameter = graph.parameters[id];
    fingerprint += gradient_fingerprint_detail::mix(
        gradient_fingerprint_detail::hash_text(parameter.name), content[parameter.gradient]);
  }
  return fingerprint;
}

}  // namespace tidemark
