// All policies by the names of the scenario file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/core/decoder.hpp"
#include "policies/plan/eviction.hpp"
#include "policies/plan/policy.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

// The number of the interface of policies/plan; a plugin built for another is refused.
inline constexpr std::uint32_t kPolicyAbi = 7;

using AnyPolicy = std::variant<std::unique_ptr<ForwardRewrite>, std::unique_ptr<TrainingRewrite>,
                               std::unique_ptr<ResidencyPolicy>, std::unique_ptr<SequencePolicy>,
                               std::unique_ptr<EvictionPolicy>>;

// One policy: adding one is a file that defines its entry and a line in registry.cpp.
struct PolicyEntry {
  std::string_view name;     // as in `policies: - NAME: {...}`
  std::string_view seam;     // "residency", "sequence", "eviction", "forward rewrite", ...
  std::string_view summary;  // one sentence
  std::string_view source;   // paper or program that defines it
  AnyPolicy (*decode)(const Decoder& parameters);
};

class PolicyRegistry {
 public:
  PolicyRegistry();  // the policies that Tidemark ships
  // Adds the policies of a shared library that exports
  //   extern "C" const tidemark::PolicyEntry* tidemark_policies(std::uint32_t abi, std::size_t*
  //   count);
  // which returns null for an ABI it was not built for. The library stays loaded until the program
  // ends. Throws UserError: missing file, missing symbol, other ABI, a name that is taken.
  void load_plugin(const std::string& path);

  [[nodiscard]] const PolicyEntry* find(std::string_view name) const;
  [[nodiscard]] std::span<const PolicyEntry> entries() const { return entries_; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::vector<PolicyEntry> entries_;
};

}  // namespace tidemark
