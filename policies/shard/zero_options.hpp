// The settings of DeepSpeed's ZeRO, with its defaults (deepspeed/runtime/zero/config.py).
#pragma once

#include <cstdint>

#include "graph/ir/storage.hpp"

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
  std::int64_t live_parameters = 1'000'000'000;
  Tier parameters_home = Tier::kDevice;  // stage 3: of the partitions
  Tier optimizer_home = Tier::kDevice;   // elsewhere: the host updates
};

}  // namespace tidemark
