// The settings of optimizer state and updates on the host, for policies that place them there.
#pragma once

#include <cstdint>
#include <memory>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

struct OffloadOptimizerOptions {
  double ratio = 1;                // share of the elements, from the first parameter on
  bool overlap = true;             // an operator per parameter, or for NVMe double buffering
  Tier tier = Tier::kHost;         // tier of the state
  bool streams_gradients = false;  // they are copied as backward makes them, and live on the host
  bool delayed = false;            // the update is a step late
  Elements sub_group{1'000'000'000};
};

[[nodiscard]] std::unique_ptr<TrainingRewrite> make_offload_optimizer(
    const OffloadOptimizerOptions& options);

}  // namespace tidemark
