// Chooses when an offloaded value comes back, whatever policy has moved it.
//
//   compute    | B5 | B4 | B3 | B2 |            the value is needed by B2
//   on_demand            .    <copy>            compute waits for the whole copy
//   2 (blocks)      <copy>                      two blocks ahead
//   just_in_time          <copy>                as late as the link's rate allows
//   earliest   <copy>                           as soon as the memory is there
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

enum class PrefetchRule : std::uint8_t {
  kOwn,         // the published rule of the policy that moves the value
  kOnDemand,    // issued by the operator that needs it
  kBlocks,      // when the backward of the block `distance` blocks before begins; 0 is on demand
  kOperators,   // `distance` operators ahead
  kJustInTime,  // the latest operator from which the predicted compute until the use covers the
                // copy, and those that need the link behind it before their own uses; not before
                // the backward of its micro-batch (torch's activation_reload_prefetch, pytorch
                // #167880, with a queue); under a budget not before there is room
  kEarliest,    // as soon as the predicted live bytes stay within the budget until the use; what
                // fits all along stays
};

struct Prefetch {
  PrefetchRule rule = PrefetchRule::kOwn;
  int distance = 0;
  // Live bytes that a plan may use. kEarliest without one does not raise the peak of fetching on
  // demand.
  std::optional<Bytes> budget;
};

// Reads `prefetch` (own | on_demand | 2 | 8 operators | just_in_time | earliest) and `budget`.
[[nodiscard]] Prefetch decode_prefetch(const Decoder& decoder, std::string_view fallback = "own");

// A policy that moves values within a budget and takes a rule for when they come back.
class PrefetchingPolicy : public ResidencyPolicy {
 public:
  [[nodiscard]] std::optional<Bytes> budget() const final { return prefetch_.budget; }
  [[nodiscard]] bool set_budget(Bytes budget) final {
    prefetch_.budget = budget;
    return true;
  }

 protected:
  explicit PrefetchingPolicy(Prefetch prefetch) : prefetch_(prefetch) {}
  [[nodiscard]] const Prefetch& fetching() const { return prefetch_; }

 private:
  Prefetch prefetch_;
};

// Sets fetch_at of each departure by the rule; with kOwn they keep theirs. `plan` holds the
// decisions of other policies. With kEarliest, departures that need not leave are removed.
void place_fetches(const PolicyContext& context, const ResidencyPlan& plan,
                   const Prefetch& prefetch, std::vector<Departure>& departures);

}  // namespace tidemark
