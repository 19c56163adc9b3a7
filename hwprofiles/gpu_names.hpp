// GPUs by the names that people write: "H100", "A100-80GB", "RTX 4090", "NVIDIA H100 80GB HBM3".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

// Returns whether a text for a GPU is the path of a profile: it has a slash and is not the name
// that HIP gives to the two cards of one die, "AMD Instinct MI250X/MI250", or it ends in .yaml or
// .yml.
[[nodiscard]] bool is_profile_path(std::string_view text);

// Returns whether both names say the same chip, and memory and form where both say one: "NVIDIA
// GeForce RTX 4080" and "rtx-4080-16gb", also where no profile has such a name.
[[nodiscard]] bool name_one_gpu(std::string_view one, std::string_view other);

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

// Returns what to say of a GPU that has no profile: a name that is spelt alike, or the nearest GPU
// that has one and how the two differ, as "; the nearest is rtx-a6000-48gb (the same chip with
// faster memory): ..."; empty where none is near. Another memory or form of a known GPU is nearest
// to that one, other chips to those of their kind in the table of gpu_names.cpp.
[[nodiscard]] std::string nearest_gpu(std::string_view name, std::span<const std::string> profiles);

}  // namespace tidemark
