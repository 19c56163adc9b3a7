// Live bytes along a program order under a plan, as far as they can be predicted without running
// it. Policies with a budget plan against this curve.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/plan/policy.hpp"

namespace tidemark {

// Bytes that are live while each operator runs: storages, workspaces, memory of frames. Without
// allocator rounding, copies in flight and the values of recomputation that is still to be
// inserted.
class MemoryCurve {
 public:
  enum class Counts : std::uint8_t {
    kAll,
    kVisitors,  // only storages whose home is not the device
  };
  MemoryCurve(const PolicyContext& context, const ResidencyPlan& plan,
              Counts counts = Counts::kAll);

  [[nodiscard]] Bytes at(Position p) const { return bytes_[p.index()]; }
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] Position peak_at() const;  // the first of equals
  // Returns the first position of [first, end) with more than `budget`; `end` when there is none.
  [[nodiscard]] Position first_above(Position first, Position end, Bytes budget) const;
  // Adds bytes to the positions [first, end).
  void add(Position first, Position end, Bytes bytes);
  // Returns the earliest position in [first, end] from which on `bytes` more stay within `budget`
  // until before `end`; `end` where even the last operator before it has no room.
  [[nodiscard]] Position earliest_fit(Position first, Position end, Bytes bytes,
                                      Bytes budget) const;

 private:
  static constexpr std::size_t kStretch = 256;  // positions
  void note_peak(std::size_t stretch);

  std::vector<Bytes> bytes_;
  std::vector<Bytes> most_;  // the most in each stretch of positions
};

// Returns the memory that a plan may use where the scenario gives no budget: the device without the
// process overhead.
[[nodiscard]] Bytes device_budget(const PolicyContext& context);

// Returns the budget to hold a curve against: less by what a trial run of the plan takes beyond its
// curve, such as library workspaces. A given budget limits live bytes, else the limit is what the
// allocator reserves on the device.
[[nodiscard]] Bytes curve_budget(const PolicyContext& context, const ResidencyPlan& plan,
                                 const std::optional<Bytes>& budget);

}  // namespace tidemark
