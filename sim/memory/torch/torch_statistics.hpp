// torch.cuda.memory_stats() under its own names.
#pragma once

#include <array>
#include <cstdint>

namespace tidemark {

// One figure over time. `allocated` and `freed` add up all its rises and falls.
struct TorchStatistic {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t freed = 0;

  void add(std::int64_t amount) {
    current += amount;
    if (current > peak) peak = current;
    (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
  }
};

// A figure by pool, as in "allocated_bytes.small_pool.peak".
struct TorchPoolStatistic {
  TorchStatistic all;
  TorchStatistic small_pool;
  TorchStatistic large_pool;

  void add(bool large, std::int64_t amount) {
    all.add(amount);
    (large ? large_pool : small_pool).add(amount);
  }
};

struct TorchStatistics {
  TorchPoolStatistic allocation;      // blocks handed out
  TorchPoolStatistic segment;         // taken with cudaMalloc
  TorchPoolStatistic active;          // handed out, or freed and waiting for events
  TorchPoolStatistic inactive_split;  // free blocks that share a segment with another block
  TorchPoolStatistic allocated_bytes;
  TorchPoolStatistic reserved_bytes;
  TorchPoolStatistic active_bytes;
  TorchPoolStatistic inactive_split_bytes;
  TorchPoolStatistic requested_bytes;   // before rounding; falls when a free is complete
  TorchStatistic oversize_allocations;  // blocks of at least max_split_size
  TorchStatistic oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;  // cudaMalloc, or one map call of an expandable segment
  std::int64_t num_device_free = 0;
};

}  // namespace tidemark
