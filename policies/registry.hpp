// All policies by the names of the scenario file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/plan/entry.hpp"

namespace tidemark {

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
