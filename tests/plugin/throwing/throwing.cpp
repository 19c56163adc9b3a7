// A plugin with faults of its own: it throws where its policies are asked for, or, with
// TIDEMARK_THROW_AT_LOAD set, already while the library is loaded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "policies/registry.hpp"

namespace {

struct Thrower {
  Thrower() {
    if (std::getenv("TIDEMARK_THROW_AT_LOAD") != nullptr) throw std::runtime_error("no licence");
  }
};
const Thrower kThrower;  // NOLINT(cert-err58-cpp): this is its purpose

}  // namespace

extern "C" const tidemark::PolicyEntry* tidemark_policies(std::uint32_t /*abi*/,
                                                          std::size_t* /*count*/) {
  throw std::runtime_error("no policies today");
}
