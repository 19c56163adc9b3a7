// Whom to evict when an allocation fails. The engine asks; the policy sees blocks, never the
// engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

// A resident block that may be dropped and computed again.
struct EvictableBlock {
  BlockId block;
  Bytes bytes;
  std::int64_t address = -1;  // within the allocator; -1 where it has none
  Duration last_access{};     // of the issue clock
  Duration recompute_cost{};  // of the operator that makes it
};

struct MemoryView {
  Duration now{};
  Bytes requested;
  std::span<const EvictableBlock> evictable;  // unpinned and restorable, by block id
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // The index into view.evictable of the block to drop. Called again until the request fits; never
  // with an empty view.
  [[nodiscard]] virtual std::size_t choose(const MemoryView& view) = 0;
};

}  // namespace tidemark
