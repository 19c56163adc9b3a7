// The allocators by the names of the scenario file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/allocators/entries.hpp"

namespace tidemark {

class AllocatorRegistry {
 public:
  AllocatorRegistry();  // the allocators that Tidemark ships

  // Throws InternalError for a name that is taken.
  void add(AllocatorEntry entry);

  [[nodiscard]] const AllocatorEntry* find(std::string_view name) const;
  // Returns the allocator of a scenario that names none.
  [[nodiscard]] const AllocatorEntry& default_entry() const { return entries_.front(); }
  [[nodiscard]] std::span<const AllocatorEntry> entries() const { return entries_; }
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  std::vector<AllocatorEntry> entries_;
};

}  // namespace tidemark
