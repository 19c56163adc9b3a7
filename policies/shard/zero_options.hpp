// The settings of DeepSpeed's ZeRO, with its defaults (deepspeed/runtime/zero/config.py).
#pragma once

#include <optional>

#include "graph/core/units.hpp"
#include "graph/ir/storage.hpp"

namespace tidemark {

struct ZeroOptions {
  int stage = 1;
  Elements reduce_bucket{500'000'000};
  bool overlap = false;  // overlap_comm
  // Stage 3.
  Elements prefetch_bucket{50'000'000};
  Elements max_reuse_distance{1'000'000'000};
  Elements persistent_below{100'000};
  Elements sub_group{1'000'000'000};
  Elements live_parameters{1'000'000'000};
  // Neighbours that share a second partition of the parameters, in the type of compute, which
  // backward gathers from (zero_hpz_partition_size): at least 2. Absent: there is none.
  std::optional<int> secondary_ranks;
  Tier parameters_home = Tier::kDevice;  // stage 3: of the partitions
  Tier optimizer_home = Tier::kDevice;   // elsewhere: the host updates
};

}  // namespace tidemark
