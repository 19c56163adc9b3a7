// GPUs by the names that people write: "H100", "A100-80GB", "RTX 4090", "NVIDIA H100 80GB HBM3".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

// Returns the profiles whose names have every part of `name` that says something, in their order:
// "A100 80GB" is a100-sxm-80gb; "a100" is each of the two. Case, separators, the maker's names and
// the kind of memory do not count.
[[nodiscard]] std::vector<std::string> profiles_like(std::string_view name,
                                                     std::span<const std::string> profiles);

}  // namespace tidemark
