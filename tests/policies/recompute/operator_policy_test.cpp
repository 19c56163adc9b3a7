// Policies that choose by kind of operator decide alike on a step and on its cost graph.
#include "policies/recompute/operator_policy.hpp"

#include <map>
#include <set>
#include <variant>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "policies/recompute/entries.hpp"

namespace tidemark::operator_policy_test {

namespace {

// Chooses every second operator of the layers whose number is even.
class EverySecond final : public OperatorPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "every_second"; }
  [[nodiscard]] std::vector<bool> recomputed(
      std::span<const ForwardOperator> operators) const override {
    std::vector<bool> chosen;
    for (std::size_t i = 0; i < operators.size(); ++i)
      chosen.push_back(i % 2 == 1 && operators[i].layer % 2 == 0 && !operators[i].passed_on);
    return chosen;
  }
};

struct LayerOperator {
  std::string layer;
  std::string kind;
};

// A chain of forward operators, two to a block, and their backward nodes; all of 1 byte. Node i
// costs 2^i, so that the sum tells which are recomputed.
RematProblem chain(const std::vector<LayerOperator>& operators, bool blocks) {
  CostGraph graph;
  const auto n = static_cast<std::uint32_t>(operators.size());
  for (std::uint32_t v = 0; v < n; ++v) {
    graph.nodes.push_back(
        {.name = "n",
         .layer = operators[v].layer,
         .operator_kind = operators[v].kind,
         .cost = std::int64_t{1} << v,
         .bytes = Bytes(1),
         .deps = v == 0 ? std::vector<CostNodeId>{} : std::vector{CostNodeId(v - 1)},
         .block = blocks ? static_cast<int>(v / 2) : kNoBlock});
  }
  for (std::uint32_t v = n; v-- > 0;) {
    std::vector<CostNodeId> deps = {CostNodeId(v)};
    if (v + 1 < n) deps.push_back(CostNodeId(2 * n - 2 - v));
    graph.nodes.push_back(
        {.name = "b", .kind = Phase::kBackward, .cost = 1, .bytes = Bytes(1), .deps = deps});
  }
  return remat_problem(graph);
}

std::int64_t repeated(const OperatorPolicy& policy, const RematProblem& problem) {
  return evaluate(problem, policy.schedule(problem)).cost - problem.base_cost;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the choice on a cost graph sees operators by layer, block and kind") {
    // Layers a and c are numbers 0 and 2; positions 1, 3, 5 are the second of each.
    const std::vector<LayerOperator> operators = {{"a", "x"}, {"a", "y"}, {"b", "x"},
                                                  {"b", "y"}, {"c", "x"}, {"c", "y"}};
    // The last is still there when the first backward node, right behind it, reads it.
    CHECK(repeated(EverySecond(), chain(operators, false)) == 2);
    // The second node of a block is its output, which stays; of the last block the next reader is
    // in backward, and its last forward node counts.
    CHECK(repeated(EverySecond(), chain(operators, true)) == 0);
  }

  TEST_CASE("a kind is recomputed in every layer and outside of them") {
    const RematProblem problem =
        chain({{"", "linear"}, {"", "gelu"}, {"h", "gelu"}, {"", "linear"}}, false);
    const Value value = parse_document("{recompute: [gelu]}", "test");
    const PlanResult plan =
        selective_plan().decode(Decoder(value))(problem, {.budget = Bytes(1000)});
    REQUIRE(plan.solution);
    CHECK(plan.solution->evaluation.cost - problem.base_cost == 2 + 4);
  }

  TEST_CASE("every other operator of a saved kind is recomputed with the rest") {
    // Saved are the first and the third linear; what lies between is recomputed together.
    const RematProblem problem = chain(
        {{"", "linear"}, {"", "gelu"}, {"", "linear"}, {"", "gelu"}, {"", "linear"}, {"", "gelu"}},
        false);
    const auto more = [&](const char* parameters) {
      const Value value = parse_document(parameters, "test");
      const PlanResult plan =
          selective_plan().decode(Decoder(value))(problem, {.budget = Bytes(1000)});
      REQUIRE(plan.solution);
      return plan.solution->evaluation.cost - problem.base_cost;
    };
    CHECK(more("{save: [linear]}") == 2 + 8);
    CHECK(more("{save: [linear], every_other: [linear]}") == 2 + 4 + 8);
    CHECK_THROWS_AS(more("{save: [linear], every_other: [gelu]}"), UserError);
    CHECK_THROWS_AS(more("{recompute: [gelu], every_other: [gelu]}"), UserError);
  }

  TEST_CASE("a policy has the same name and source for steps and for cost graphs") {
    const std::pair<const PolicyEntry*, const PlanPolicy*> kBoth[] = {
        {&checkpoint_every_entry(), &checkpoint_every_plan()},
        {&megatron_selective_entry(), &megatron_selective_plan()},
        {&revolve_entry(), &revolve_plan()},
        {&selective_entry(), &selective_plan()}};
    for (const auto& [entry, plan] : kBoth) {
      CAPTURE(entry->name);
      CHECK(entry->name == plan->name);
      const AnyPolicy policy = entry->decode(Decoder(), {});
      CHECK(std::visit([](const auto& p) { return p->name(); }, policy) == entry->name);
    }
  }
}

}  // namespace tidemark::operator_policy_test
