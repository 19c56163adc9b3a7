// Evaluators of a comparison: they compute the figures of its lists.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/studies/compare.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

// Evaluates lists of policies; each call is independent of the others.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  [[nodiscard]] virtual PointResult keep_all() const = 0;
  // Evaluates a list once per budget, ascending; without budgets once. Calls `done` after each.
  [[nodiscard]] virtual std::vector<SimulatedPoint> evaluate(
      std::size_t list, const std::vector<Bytes>& ascending,
      const std::function<void()>& done) const = 0;
  // Returns a text for the problem that the list's policies solve under this budget: the same where
  // they share a cost graph.
  [[nodiscard]] virtual std::string problem(std::size_t list,
                                            std::optional<Bytes> budget) const = 0;
};

// Simulates on the scenario's device; `base` is the document without policies. `detailed` keeps the
// runs. Throws UserError for a model that cannot be built. `spec` and `environment` outlive it.
[[nodiscard]] std::unique_ptr<const Evaluator> device_evaluator(Value base, const CompareSpec& spec,
                                                                const Environment& environment,
                                                                bool detailed);
// Evaluates schedules on the scenario's cost graph.
[[nodiscard]] std::unique_ptr<const Evaluator> cost_graph_evaluator(const Scenario& scenario,
                                                                    const CompareSpec& spec);

// Whether a point that could be built stays within so many live bytes.
[[nodiscard]] inline bool within(const PointResult& point, Bytes budget) {
  return point.status != PointStatus::kError && point.run.live.bytes <= budget;
}

}  // namespace tidemark
