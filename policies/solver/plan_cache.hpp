// A cache of plans by their inputs, so that none is made twice: a scenario that is compiled again,
// with more steps or another allocator, needs the same plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "policies/solver/plan_result.hpp"

namespace tidemark {

class PlanCache {
 public:
  // Returns what `make` returns for this problem and request; it is called only once for each
  // problem (by its content), request and `policy`, also when several threads want it. `policy` is
  // a name with its parameters. An exception of `make` is passed on, and it is called again the
  // next time.
  [[nodiscard]] PlanResult plan(std::string_view policy, const RematProblem& problem,
                                const PlanRequest& request,
                                const std::function<PlanResult()>& make);
  // Returns the number of plans that have been made.
  [[nodiscard]] std::int64_t made() const;

 private:
  struct Plan {
    std::once_flag once;
    PlanResult result;
  };
  using Plans = std::map<std::string, Plan, std::less<>>;  // plans by policy and request

  mutable std::mutex mutex_;
  std::map<std::string, Plans, std::less<>> plans_;  // plans by the content of the problem
  std::int64_t made_ = 0;
};

}  // namespace tidemark
