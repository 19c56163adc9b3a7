// The entry of one policy: its description in the registry and the reader of its parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "graph/core/decoder.hpp"
#include "policies/plan/eviction.hpp"
#include "policies/plan/mesh_request.hpp"
#include "policies/plan/policy.hpp"
#include "policies/plan/rewrite.hpp"
#include "policies/plan/rewrite_context.hpp"

namespace tidemark {

struct PlanPolicy;  // policies/solver/plan_policy.hpp

// The number of the interface of policies/plan; a plugin built for another is refused.
inline constexpr std::uint32_t kPolicyAbi = 31;

using AnyPolicy = std::variant<std::unique_ptr<ForwardRewrite>, std::unique_ptr<TrainingRewrite>,
                               std::unique_ptr<ResidencyPolicy>, std::unique_ptr<SequencePolicy>,
                               std::unique_ptr<EvictionPolicy>>;

// Returns the policy whatever its kind.
[[nodiscard]] inline const Policy& policy_of(const AnyPolicy& any) {
  return *std::visit([](const auto& policy) -> const Policy* { return policy.get(); }, any);
}
[[nodiscard]] inline Policy& policy_of(AnyPolicy& any) {
  return *std::visit([](auto& policy) -> Policy* { return policy.get(); }, any);
}

// Whether the policy makes another model of the one that it is given.
[[nodiscard]] inline bool rewrites_model(const AnyPolicy& policy) {
  return std::holds_alternative<std::unique_ptr<ForwardRewrite>>(policy) ||
         std::holds_alternative<std::unique_ptr<TrainingRewrite>>(policy);
}

// Describes a policy. Adding one takes a file that defines its entry, its line in the folder's
// entries.hpp and one in registry.cpp.
struct PolicyEntry {
  std::string_view name;     // NAME in `policies: - NAME: {...}`
  std::string_view kind;     // "residency", "sequence", "eviction", "training rewrite", ...
  std::string_view summary;  // one sentence
  std::string_view source;   // paper or program that defines it
  // Reads the policy's parameters. The policy may not refer to the context.
  AnyPolicy (*decode)(const Decoder& parameters, const RewriteContext& context);
  // Returns the policy of the same name for cost graphs; null where there is none.
  const PlanPolicy& (*plan)() = nullptr;
  // Reads what the policy asks of the mesh, before any policy is decoded; null where it asks for
  // nothing.
  void (*mesh)(const Decoder& parameters, MeshRequest& request) = nullptr;
  bool once = false;  // a list that names it twice is a mistake
};

}  // namespace tidemark
