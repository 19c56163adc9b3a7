// torch.cuda.memory_stats() under its own names.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/core/units.hpp"

namespace tidemark {

// One figure over time: a number of things or of bytes. `allocated` and freed() add up all its
// rises and falls.
template <class Quantity>
struct TorchStatistic {
  Quantity current{};
  Quantity peak{};
  Quantity allocated{};

  [[nodiscard]] Quantity freed() const { return allocated - current; }

  void rise(Quantity amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void fall(Quantity amount) { current -= amount; }
  void add(Quantity amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += std::max(amount, Quantity{});
  }
};

// A figure by pool, as in "allocated_bytes.small_pool.peak".
template <class Quantity>
struct TorchPoolStatistic {
  TorchStatistic<Quantity> all;
  TorchStatistic<Quantity> small_pool;
  TorchStatistic<Quantity> large_pool;

  // `amount` is not negative.
  void rise(bool large, Quantity amount) {
    all.rise(amount);
    (large ? large_pool : small_pool).rise(amount);
  }
  void fall(bool large, Quantity amount) {
    all.fall(amount);
    (large ? large_pool : small_pool).fall(amount);
  }
  void add(bool large, Quantity amount) {
    all.add(amount);
    (large ? large_pool : small_pool).add(amount);
  }
};

struct TorchStatistics {
  TorchPoolStatistic<std::int64_t> allocation;  // blocks handed out
  TorchPoolStatistic<std::int64_t> segment;     // taken with cudaMalloc
  TorchPoolStatistic<std::int64_t> active;      // handed out, or freed and waiting for events
  TorchPoolStatistic<std::int64_t>
      inactive_split;  // free blocks that share a segment with another block
  TorchPoolStatistic<Bytes> allocated_bytes;
  TorchPoolStatistic<Bytes> reserved_bytes;
  TorchPoolStatistic<Bytes> active_bytes;
  TorchPoolStatistic<Bytes> inactive_split_bytes;
  TorchPoolStatistic<Bytes> requested_bytes;          // not rounded; falls when a free is complete
  TorchStatistic<std::int64_t> oversize_allocations;  // blocks of at least max_split_size
  TorchStatistic<std::int64_t> oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;  // cudaMalloc, or one map call of an expandable segment
  std::int64_t num_device_free = 0;
};

}  // namespace tidemark
