// What policies of every kind answer.
#pragma once

#include <optional>
#include <string_view>

#include "graph/core/units.hpp"

namespace tidemark {

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  // Live bytes that a step is to stay within; none where the device is the limit, and of policies
  // that take no budget.
  [[nodiscard]] virtual std::optional<Bytes> budget() const { return std::nullopt; }
  // Gives the policy a budget in place of the one that it has, before it plans. False where it
  // takes none.
  [[nodiscard]] virtual bool set_budget(Bytes /*budget*/) { return false; }
};

}  // namespace tidemark
