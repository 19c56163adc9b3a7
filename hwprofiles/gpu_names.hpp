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

// Returns the profile that `name` means, or all that it may mean. A name that leaves the form open
// means the SXM module, and the one without an addition to its name: "h100" is h100-sxm-80gb, not
// h100-pcie-80gb or h100-sxm-96gb-2.4tb. Sizes of memory are never guessed.
[[nodiscard]] std::vector<std::string> profiles_meant(std::string_view name,
                                                      std::span<const std::string> profiles);

}  // namespace tidemark
