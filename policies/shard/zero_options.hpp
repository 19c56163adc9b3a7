// The settings of DeepSpeed's ZeRO, with its defaults (deepspeed/runtime/zero/config.py).
#pragma once

#include <cstdint>

namespace tidemark {

struct ZeroOptions {
  int stage = 1;
  std::int64_t reduce_bucket = 500'000'000;  // elements
  bool overlap = false;                      // overlap_comm
  // Stage 3, in elements.
  std::int64_t prefetch_bucket = 50'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  std::int64_t persistent_below = 100'000;
  std::int64_t sub_group = 1'000'000'000;
};

}  // namespace tidemark
