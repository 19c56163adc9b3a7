// The choice of the allocation to evict when another one fails. The engine calls the policy, which
// sees allocations, never the engine.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "policies/plan/policy_base.hpp"

namespace tidemark {

// The effect of the program's last release of an allocation that can be recomputed.
enum class DeallocationMode : std::uint8_t {
  kEager,   // freed at once; comes back if something evicted is computed from it
  kIgnore,  // nothing: it stays until the policy chooses it
  kBanish,  // freed permanently once nothing evicted depends on it; values computed from it then
            // stay
};

// A resident allocation that may be dropped and recomputed.
struct EvictableAllocation {
  AllocationId allocation;
  Bytes bytes;
  Bytes address{-1};          // place within the allocator; -1 where it has none
  Bytes free_neighbours;      // free memory that adjoins it on both sides
  Duration last_access{};     // time on the clock of MemoryView::now
  Duration recompute_cost{};  // cost of the operator that makes it
  std::int32_t restores = 0;  // number of recomputations so far
};

// A stretch of the allocator's memory.
struct MemoryPiece {
  static constexpr std::uint32_t kFree = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kHeld = kFree - 1;

  Bytes address;
  Bytes bytes;
  std::uint32_t content = kHeld;  // index into MemoryView::evictable, or one of the above
  bool adjoins = false;           // begins where the piece before it ends, and both can become one
};

struct MemoryView {
  // Compute time issued so far, repetitions included: the clock of DTR's simulator.
  Duration now{};
  Bytes requested;
  // Allocations that are not locked and can be recomputed, in the order in which they became so.
  std::span<const EvictableAllocation> evictable;
  // Memory of the pool that serves the request, by address; only if the policy looks at addresses.
  std::span<const MemoryPiece> pieces;
};

// An edge between allocations: the launch makes `to` from `from`.
struct RecipeInput {
  std::uint32_t launch = 0;
  AllocationId from;
  AllocationId to;
};

// The facts about a program that a policy may know before it runs.
struct EvictionProgram {
  std::size_t allocations = 0;
  std::span<const Duration> cost;        // cost of the operator that makes each allocation
  std::span<const RecipeInput> recipes;  // edges between recomputable allocations, by launch
};

class EvictionPolicy : public Policy {
 public:
  // It decides nothing before the step runs.
  [[nodiscard]] bool decides_by_structure() const final { return true; }
  [[nodiscard]] bool looks_at_capacity() const final { return true; }
  // Returns a policy with the same settings. Each run follows its allocations with a copy of its
  // own, so that several runs may share the one of a scenario.
  [[nodiscard]] virtual std::unique_ptr<EvictionPolicy> copy() const = 0;
  [[nodiscard]] virtual DeallocationMode mode() const { return DeallocationMode::kEager; }
  // The run is given up when recomputation takes more than this many times the program's own
  // compute time, less one.
  [[nodiscard]] virtual double thrash_factor() const { return 10; }
  [[nodiscard]] virtual bool looks_at_addresses() const { return false; }

  // Begins a run and forgets an earlier one.
  virtual void begin(const EvictionProgram& /*program*/) {}
  // Events of allocations that can be recomputed. Time is that of MemoryView::now.
  virtual void accessed(AllocationId /*allocation*/, Duration /*now*/) {}
  virtual void made(AllocationId /*allocation*/) {}      // made by the program
  virtual void restored(AllocationId /*allocation*/) {}  // recomputed
  virtual void evicted(AllocationId /*allocation*/) {}   // evicted by choose()
  // The program releases the allocation, and its memory is freed. `permanently`: it cannot come
  // back.
  virtual void released(AllocationId /*allocation*/, bool /*permanently*/) {}

  // Chooses the allocations to drop, as indices into view.evictable, which is not empty. Called
  // again until the request fits. None: the policy gives up, and the run is out of memory.
  [[nodiscard]] virtual std::vector<std::size_t> choose(const MemoryView& view) = 0;
};

}  // namespace tidemark
