// The interface that policies of every kind share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/core/units.hpp"

namespace tidemark {

// Limits that a study of many steps gives to the searches of all policies.
struct SearchLimits {
  std::int64_t iterations = 0;
  Duration time = {};  // wall-clock time of one plan
};

// The programs that train on several GPUs, which differ in what a policy does not say: the loss,
// the home of gradients.
enum class TrainingSystem : std::uint8_t { kTorch, kDeepSpeed, kMegatron };

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;

  // Returns the system that the policy is a part of; none where it goes with any.
  [[nodiscard]] virtual std::optional<TrainingSystem> system() const { return std::nullopt; }

  // Returns the live bytes that a step is to stay within; none where the device is the limit, and
  // for policies that take no budget.
  [[nodiscard]] virtual std::optional<Bytes> budget() const { return std::nullopt; }
  // Gives the policy another budget, before it plans. False if it takes none.
  [[nodiscard]] virtual bool set_budget(Bytes /*budget*/) { return false; }
  // Limits the policy's search, before it plans, unless its parameters do. Returns whether it is
  // limited by this; policies that do not search are not.
  virtual bool limit_search(const SearchLimits& /*limits*/) { return false; }
  // Whether it changes a step that trains nothing, such as an evaluation: policies for gradients,
  // updates and what is kept for backward do not. `computes_loss`: the step ends with the loss.
  [[nodiscard]] virtual bool acts_in_evaluation(bool /*computes_loss*/) const { return true; }
  // Whether all that it decides before a step runs follows from the structure of the graph
  // (graph/analysis/same_structure.hpp) and the text of its parameters: not from sizes, times, the
  // device or trial runs. It is then asked once for all graphs of a structure.
  [[nodiscard]] virtual bool decides_by_structure() const { return false; }
  // Whether it may decide otherwise on a device that differs in its capacity alone: by a budget
  // that is the device's, or by trial runs. A run of the step then answers for no other capacity.
  [[nodiscard]] virtual bool looks_at_capacity() const { return !decides_by_structure(); }
  // Returns a sentence where the policy does less than its name suggests; empty otherwise.
  [[nodiscard]] virtual std::string_view remark() const { return {}; }
};

}  // namespace tidemark
