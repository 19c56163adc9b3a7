// Runs that answer for devices of another capacity: a step that never lacked memory on one device
// runs alike on every other that has as much as it reserves.
//
//   capacity   20   25   30   40 GiB
//   reserved   23 ----------------->
//              fails   |    as at 25, nothing is run
//                      runs
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "scenarios/read/scenario.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// Returns the key of a step, equal for scenarios that differ in the capacity of their device alone.
// Empty where a policy or a rule of the allocator may look at the capacity, so that a run on one
// device says nothing about another.
[[nodiscard]] std::string shared_run_key(const Scenario& scenario);

// The runs of the points of one sweep. May be used by several threads.
class SharedRuns {
 public:
  // Returns the figures of the point where the step with its `key` has run on a device of another
  // capacity and never lacked memory. The result's overrides are those of the other point.
  [[nodiscard]] std::optional<PointResult> find(const std::string& key,
                                                const Scenario& scenario) const;
  // Keeps the figures of a point with a key for others. `point` must live as long as this object.
  void keep(const std::string& key, const PointResult& point);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, const PointResult*> runs_;  // by shared_run_key
};

}  // namespace tidemark
