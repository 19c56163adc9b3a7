#include "policies/remat/keep_set.hpp"

#include <doctest/doctest.h>

#include "tests/policies/remat/remat_cases.hpp"

namespace tidemark::keep_set_test {
namespace {

using testing::peak_without_repeats;

}  // namespace

TEST_SUITE("unit") {
  // weight cast -> linear -> dropout, whose mask is a node of its own behind the next cast
  TEST_CASE("casts of weights and what only backward reads hide no articulation point") {
    CostGraph graph;
    graph.name = "autocast";
    const auto add = [&](const char* name, std::int64_t cost, std::int64_t bytes,
                         std::vector<CostNodeId> deps, bool off_main_path) {
      return graph.nodes.push_back({.name = name,
                                    .operator_kind = name,
                                    .cost = cost,
                                    .bytes = Bytes(bytes),
                                    .deps = std::move(deps),
                                    .off_main_path = off_main_path});
    };
    constexpr int kLayers = 9;
    std::vector<CostNodeId> casts;
    std::vector<CostNodeId> masks;
    std::vector<CostNodeId> outputs;
    CostNodeId cast = add("cast", 1, 4, {}, true);
    for (int layer = 0; layer < kLayers; ++layer) {
      casts.push_back(cast);
      std::vector<CostNodeId> inputs{cast};
      if (layer > 0) inputs.push_back(outputs.back());
      const CostNodeId linear = add("linear", 10, 8, inputs, false);
      outputs.push_back(add("dropout", 2, 8, {linear}, false));
      if (layer + 1 < kLayers) cast = add("cast", 1, 4, {}, true);
      masks.push_back(add("mask", 0, 2, {linear}, true));
    }
    std::vector<CostNodeId> before{outputs.back()};
    for (int layer = kLayers; layer-- > 0;) {
      std::vector<CostNodeId> deps = before;
      deps.push_back(masks[static_cast<std::size_t>(layer)]);
      deps.push_back(casts[static_cast<std::size_t>(layer)]);
      if (layer > 0 && layer + 1 < kLayers)
        deps.push_back(outputs[static_cast<std::size_t>(layer) - 1]);
      before = {graph.nodes.push_back({.name = "backward",
                                       .kind = Phase::kBackward,
                                       .cost = 20,
                                       .bytes = Bytes(8),
                                       .deps = deps})};
    }
    const RematProblem problem = remat_problem(graph);
    std::vector<NodeIndex> expected;
    for (const NodeIndex node : forward_nodes(problem)) {
      const std::string& kind = problem.operator_kind[node];
      if (kind == "linear" || kind == "dropout") expected.push_back(node);
    }
    expected.pop_back();  // the output
    CHECK(articulation_nodes(problem) == expected);
    const auto dropouts = every(expected, 2);  // the last layer's is the output
    const Schedule schedule = segment_schedule(problem, dropouts);
    const Evaluation figures = evaluate(problem, schedule);
    CHECK(figures.peak < peak_without_repeats(problem));
    // All but the kept and the last segment's output once more: nine casts and nine linears.
    CHECK(figures.cost - problem.base_cost == kLayers * (1 + 10) + 2);
    CHECK(!class_fault(problem, schedule, ScheduleClass::kCheckmate));
  }
}

}  // namespace tidemark::keep_set_test
