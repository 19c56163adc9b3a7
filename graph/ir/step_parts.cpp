#include "graph/ir/step_parts.hpp"

namespace tidemark {

StepParts::StepParts() {
  parts_.reserve(kPartKinds);
  for (std::size_t kind = 0; kind < kPartKinds; ++kind) {
    parts_.push_back({.kind = static_cast<PartKind>(kind), .chunk = 0, .operators = {}});
  }
}

PartId StepParts::find(PartKind kind, std::uint16_t chunk) const {
  if (chunk == 0) return PartId(static_cast<std::size_t>(kind));
  for (PartId id : ids_of(parts_)) {
    if (parts_[id].kind == kind && parts_[id].chunk == chunk) return id;
  }
  return {};
}

std::vector<OperatorId>& StepParts::of(PartKind kind, std::uint16_t chunk) {
  PartId id = find(kind, chunk);
  if (!id.valid()) id = parts_.push_back({.kind = kind, .chunk = chunk, .operators = {}});
  return parts_[id].operators;
}

const std::vector<OperatorId>& StepParts::of(PartKind kind, std::uint16_t chunk) const {
  static const std::vector<OperatorId> empty;
  const PartId id = find(kind, chunk);
  return id.valid() ? parts_[id].operators : empty;
}

}  // namespace tidemark
