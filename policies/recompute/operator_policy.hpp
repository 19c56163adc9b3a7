// Recomputation by kind of operator. A policy of this kind is one class that chooses among the
// operators of forward; the choice is carried out on a training graph's step or on a cost graph.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/plan/policy.hpp"
#include "policies/remat/problem.hpp"

namespace tidemark {

// An operator of forward as operator policies see it.
struct ForwardOperator {
  std::string_view kind;   // "linear", "softmax", ...; empty for what is no operator
  std::size_t layer = 0;   // operators of one layer share the number
  int block = 0;           // repeated block that it belongs to
  bool in_block = true;    // belongs to a repeated block, or to a graph without any
  bool passed_on = false;  // its result is the block's output, which is kept
  bool reads_parameter = false;
};

class OperatorPolicy : public ResidencyPolicy {
 public:
  [[nodiscard]] bool decides_by_structure() const final { return true; }
  // Drops the values that the chosen operators of each block make for backward.
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const final;
  // Returns the schedule of a cost graph that keeps the results of all other forward nodes; they
  // are chosen by CostNode::operator_kind.
  [[nodiscard]] Schedule schedule(const RematProblem& problem) const;

 protected:
  // Returns, for each operator in program order, whether it is recomputed.
  [[nodiscard]] virtual std::vector<bool> recomputed(
      std::span<const ForwardOperator> operators) const = 0;
  // Whether eager code holds the results of all operators that are not recomputed until the block
  // has been, also those that backward does not read.
  [[nodiscard]] virtual bool caches_results() const { return false; }

  // The checks throw UserError if the model, or the cost graph, lacks the operators that the policy
  // is for. `known`: the kinds of its forward operators. `chosen`: whether any is recomputed.
  virtual void check_model(const std::set<std::string>& /*known*/, int /*blocks*/) const {}
  virtual void check_model_choice(bool /*chosen*/) const {}
  virtual void check_cost_graph(const std::set<std::string>& /*known*/) const {}
  virtual void check_cost_graph_choice(bool /*chosen*/) const {}
};

}  // namespace tidemark
