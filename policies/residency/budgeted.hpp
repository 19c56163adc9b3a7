// Policies that are told how many live bytes a step may take.
#pragma once

#include <optional>

#include "graph/core/units.hpp"

namespace tidemark {

class Budgeted {
 public:
  virtual ~Budgeted() = default;
  // None where the device is the limit. A step with more live bytes misses the budget.
  [[nodiscard]] virtual std::optional<Bytes> budget() const = 0;
};

}  // namespace tidemark
