// An allocator's entry in the registry, and those that Tidemark ships, one file each. Adding an
// allocator is such a file, a line below and a line in registry.cpp.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "sim/allocators/allocator_model.hpp"

namespace tidemark {

// The form of a parameter that is given as a text, for `tidemark describe`.
struct ParameterForm {
  std::string_view parameter;
  std::string_view form;
};

struct AllocatorEntry {
  AllocatorTraits traits;
  // Reads the keys next to `kind` of a scenario's `allocator`. Throws UserError.
  std::unique_ptr<const AllocatorModel> (*decode)(const Decoder& allocator) = nullptr;
  std::vector<ParameterForm> forms;
};

[[nodiscard]] AllocatorEntry torch_allocator_entry();
[[nodiscard]] AllocatorEntry bfc_allocator_entry();
[[nodiscard]] AllocatorEntry packed_allocator_entry();
[[nodiscard]] AllocatorEntry ideal_allocator_entry();

}  // namespace tidemark
