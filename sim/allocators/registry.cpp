#include "sim/allocators/registry.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

AllocatorRegistry::AllocatorRegistry()
    : entries_{
          torch_allocator_entry(),
          bfc_allocator_entry(),
          packed_allocator_entry(),
          ideal_allocator_entry(),
      } {}

void AllocatorRegistry::add(AllocatorEntry entry) {
  if (find(entry.traits.name) != nullptr) {
    throw InternalError(fmt::format("there are two allocators '{}'", entry.traits.name));
  }
  entries_.push_back(std::move(entry));
}

const AllocatorEntry* AllocatorRegistry::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const AllocatorEntry& entry) { return entry.traits.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::string_view> AllocatorRegistry::names() const {
  std::vector<std::string_view> names;
  for (const AllocatorEntry& entry : entries_)
    names.push_back(entry.traits.name);
  return names;
}

}  // namespace tidemark
