// Tests ask here whether to run more rounds and larger inputs of the same property.
#pragma once

#include <cstdlib>

namespace tidemark::test {

// True where the environment sets TIDEMARK_LONG_TESTS. Without, the suite takes two minutes on two
// cores, and a few tests that take 15 seconds to some minutes are skipped with a message.
[[nodiscard]] inline bool runs_long_tests() {
  return std::getenv("TIDEMARK_LONG_TESTS") != nullptr;
}

}  // namespace tidemark::test
