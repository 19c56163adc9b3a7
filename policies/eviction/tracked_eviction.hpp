// The common part of eviction policies on a device: they follow which allocations are there, which
// are evicted and what recomputing those would cost, in the same tables as a replay of a log.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/eviction/online/evicted_costs.hpp"
#include "policies/plan/eviction.hpp"

namespace tidemark {

struct EvictionSettings {
  DeallocationMode mode = DeallocationMode::kEager;
  double thrash_factor = 10;
};

class TrackedEviction : public EvictionPolicy {
 public:
  TrackedEviction(const EvictionSettings& settings, Neighbourhood neighbourhood)
      : settings_(settings), neighbourhood_(neighbourhood) {}

  [[nodiscard]] DeallocationMode mode() const final { return settings_.mode; }
  [[nodiscard]] double thrash_factor() const final { return settings_.thrash_factor; }

  void begin(const EvictionProgram& program) override;
  void accessed(AllocationId allocation, Duration now) final {
    costs_->access(allocation.value, now.count());
  }
  void made(AllocationId allocation) final { change(allocation, &EvictedCosts::materialize); }
  void restored(AllocationId allocation) final { change(allocation, &EvictedCosts::materialize); }
  void evicted(AllocationId allocation) final { change(allocation, &EvictedCosts::evict); }
  void released(AllocationId allocation, bool permanently) final {
    // As in DTR's simulator, what is banished is evicted first: the neighbouring classes merge.
    if (!permanently || costs_->material(allocation.value))
      change(allocation, &EvictedCosts::evict);
    if (permanently) change(allocation, &EvictedCosts::banish);
  }

 protected:
  [[nodiscard]] EvictedCosts& costs() { return *costs_; }

 private:
  void change(AllocationId allocation, void (EvictedCosts::*to)(std::uint32_t)) {
    ((*costs_).*to)(allocation.value);
    costs_->changed().clear();  // nothing is filed by its bound here
  }

  EvictionSettings settings_;
  Neighbourhood neighbourhood_;
  StorageEdges edges_;
  std::optional<EvictedCosts> costs_;
};

}  // namespace tidemark
