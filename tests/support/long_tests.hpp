// What a test leaves out unless it is asked for: more rounds and larger inputs of the same
// property.
#pragma once

#include <cstdlib>

namespace tidemark::test {

// True where the environment sets TIDEMARK_LONG_TESTS. Without, the suite takes two minutes on two
// cores, and tests that take longer than all others together are skipped with a message.
[[nodiscard]] inline bool runs_long_tests() {
  return std::getenv("TIDEMARK_LONG_TESTS") != nullptr;
}

}  // namespace tidemark::test
