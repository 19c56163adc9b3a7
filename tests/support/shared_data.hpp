// Recordings and benchmarks that are not part of the repository: $TIDEMARK_SHARED, by default the
// folder `shared` next to the checkout. Tests that need them say so and are skipped without.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "tests/support/paths.hpp"

namespace tidemark {

inline std::filesystem::path shared_path(std::string_view below) {
  const char* given = std::getenv("TIDEMARK_SHARED");
  const std::filesystem::path root =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(test::source_path()) / ".." / "shared";
  return root / below;
}

}  // namespace tidemark
