// What online eviction knows of one storage. A choice reads nearly all of it, of storages anywhere
// in the program: one cache line holds it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace tidemark {

// The classes of evicted storages beside a storage, if they are known: then only their costs are
// looked up. A class that has merged since is found through its node.
struct ClassesBeside {
  static constexpr std::uint32_t kMost = 3;
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();
  std::array<std::uint32_t, kMost> node{};
  std::uint32_t count = kUnknown;
};

struct alignas(64) StorageRecord {
  std::int64_t cost = 0;  // of its own operators
  std::int64_t last_access = 0;
  std::int64_t bound = 0;     // lower bound of the cost of evicting it
  std::uint32_t version = 0;  // counts the changes of what the storage watches
  // The last walk that counted the storage. Neighbourhood::kClasses: the node where find() begins
  // while the storage is evicted, else the last departure from a class that lowered the bound.
  std::uint32_t at = 0;
  ClassesBeside beside;        // Neighbourhood::kClasses only
  std::int64_t bytes = 0;      // EvictionPool: size
  std::uint64_t sequence = 0;  // EvictionPool: place in the pool, 0 outside
};

}  // namespace tidemark
