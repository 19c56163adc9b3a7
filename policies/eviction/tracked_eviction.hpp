// The common part of eviction policies on a device: they follow which blocks are there, which are
// evicted and what computing those again would cost, in the same tables as a replay of a log.
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
  void accessed(BlockId block, Duration now) final { costs_->access(block.value, now.count()); }
  void made(BlockId block) final { change(block, &EvictedCosts::materialize); }
  void restored(BlockId block) final { change(block, &EvictedCosts::materialize); }
  void evicted(BlockId block) final { change(block, &EvictedCosts::evict); }
  void released(BlockId block, bool for_ever) final {
    // As in DTR's simulator, what is banished is evicted first: the classes beside it merge.
    if (!for_ever || costs_->material(block.value)) change(block, &EvictedCosts::evict);
    if (for_ever) change(block, &EvictedCosts::banish);
  }

 protected:
  [[nodiscard]] EvictedCosts& costs() { return *costs_; }

 private:
  void change(BlockId block, void (EvictedCosts::*to)(std::uint32_t)) {
    ((*costs_).*to)(block.value);
    costs_->changed().clear();  // nothing is filed by its bound here
  }

  EvictionSettings settings_;
  Neighbourhood neighbourhood_;
  StorageEdges edges_;
  std::optional<EvictedCosts> costs_;
};

}  // namespace tidemark
