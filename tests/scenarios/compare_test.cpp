// Policies against budgets on one graph.
#include "scenarios/studies/compare.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/import/cost_graph.hpp"
#include "policies/solver/optimal.hpp"
#include "scenarios/studies/compare_document.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::scenarios_compare_test {
namespace {

constexpr const char* kSmallModel =
    "model: {preset: vgg16}\nhardware: v100-sxm-16gb\n"
    "training: {micro_batch: 8, image: 64, precision: fp32, optimizer: sgd}\n";

std::string cost_graph_text(const std::string& name) {
  return "model: {graph: " + test::data_path("rematerialization/") + name + ".json}\n";
}

Comparison compared(const std::string& text, int threads = 1) {
  return compare(parse_document(text, "s.yaml"), environment(), threads);
}

std::string compare_refusal(const std::string& text) {
  return error_of(
      [&] { static_cast<void>(decode_compare(parse_document(text, "s.yaml"), environment())); });
}

// Checks invariants of every comparison: budgets are kept, bounds are below, more memory never
// hurts.
void check_invariants(const Comparison& comparison) {
  std::map<std::size_t, std::vector<const ComparePoint*>> lists;
  for (const ComparePoint& point : comparison.points) {
    CAPTURE(point.list);
    CAPTURE(point.budget->count);
    const bool fits = point.result.status == PointStatus::kFits;
    CHECK(fits == (reason_of(point).empty()));
    if (fits) CHECK(point.result.run.live.bytes <= *point.budget);
    if (fits && point.plan) {
      CHECK(point.plan->peak <= *point.budget);
      if (point.plan->lower_bound) CHECK(*point.plan->lower_bound <= point.plan->cost);
      CHECK(point.plan->base_cost.count() <= point.plan->cost.count());
      const bool least = point.plan->lower_bound && point.plan->cost <= *point.plan->lower_bound;
      CHECK((point.plan->status == PlanStatus::kOptimal) == least);
    }
    if (point.best) CHECK(fits);
    lists[point.list].push_back(&point);
  }
  for (auto& [list, points] : lists) {
    std::sort(points.begin(), points.end(),
              [](const ComparePoint* a, const ComparePoint* b) { return *a->budget < *b->budget; });
    for (std::size_t i = 1; i < points.size(); ++i) {
      const ComparePoint& less = *points[i - 1];
      const ComparePoint& more = *points[i];
      CAPTURE(list);
      CAPTURE(*more.budget);
      if (less.result.status == PointStatus::kFits) {
        CHECK(more.result.status == PointStatus::kFits);
        CHECK(more.result.run.step <= less.result.run.step);
      }
      if (less.plan && more.plan && less.plan->lower_bound && more.plan->lower_bound) {
        CHECK(*more.plan->lower_bound <= *less.plan->lower_bound);
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("whoever wants the runs behind a comparison gets each once, with its figures") {
    const Value document =
        parse_document(std::string(kSmallModel) +
                           "compare: {policies: [[], [checkpoint_every: {period: 1}], [optimal]], "
                           "budgets: [100%, 70%, 85%], iterations: 50}\n",
                       "s.yaml");
    std::mutex mutex;
    std::map<std::size_t, std::shared_ptr<const DetailedPoint>> runs;
    std::size_t told = 0;
    CompareListener listener;
    listener.detail = [&](std::size_t evaluation, std::shared_ptr<const DetailedPoint> point) {
      const std::lock_guard lock(mutex);
      runs[evaluation] = std::move(point);
      ++told;
    };
    const Comparison comparison = compare(document, environment(), 2, listener);
    CHECK(told == 5);  // two lists that do not solve, one that does for three budgets
    for (const ComparePoint& point : comparison.points) {
      CAPTURE(point.list);
      CAPTURE(point.budget->count);
      REQUIRE(runs.contains(point.evaluation));
      std::int64_t peak = 0;
      for (const TimelinePoint& at : runs[point.evaluation]->detail.timeline.points)
        peak = std::max(peak, at.live.count);
      CHECK(peak == point.result.run.live.bytes.count);
    }
    // Without listeners the comparison is the same.
    const Comparison alone = compare(document, environment(), 1);
    REQUIRE(alone.points.size() == comparison.points.size());
    for (std::size_t i = 0; i < alone.points.size(); ++i)
      CHECK(alone.points[i].result.run.step == comparison.points[i].result.run.step);
  }

  TEST_CASE("every list is held against every budget of a simulated step") {
    const Comparison comparison = compared(
        std::string(kSmallModel) +
        "compare: {policies: [[], [chen_greedy], [checkpoint_every: {period: 1}], [optimal]], "
        "budgets: [100%, 2GiB, 97%, 94%, 1MiB], iterations: 300}\n");
    REQUIRE(comparison.points.size() == 20);
    check_invariants(comparison);
    // Keeping everything takes exactly the peak without policies, which is the first budget.
    CHECK(comparison.points[0].result.status == PointStatus::kFits);
    CHECK(comparison.points[0].overhead == 0);
    CHECK(comparison.points[2].result.status == PointStatus::kInfeasible);
    // With room to spare optimal repeats nothing (at exactly the peak it may: a plan counts a
    // little more than the step takes); with a MiB nothing fits, and the reason says by how much.
    const ComparePoint& all = comparison.points[16];
    CHECK(all.overhead == 0);
    CHECK(all.gap == 0);
    const ComparePoint& none = comparison.points[19];
    CHECK(none.result.status == PointStatus::kInfeasible);
    CHECK(reason_of(none).find("alone takes") != std::string::npos);
    // A list that does not use a budget is evaluated once for all of them.
    CHECK(comparison.points[0].evaluation == comparison.points[4].evaluation);
    CHECK(comparison.points[15].evaluation != comparison.points[16].evaluation);
  }

  TEST_CASE("bounds proven for one model are not shared with another that costs the same") {
    const Comparison comparison = compared(
        "model: {preset: gpt, layers: 4, width: 256, heads: 4, vocab: 256}\n"
        "hardware: a100-sxm-80gb\n"
        "training: {micro_batch: 4, sequence: 128, precision: fp32, optimizer: adamw}\n"
        "compare: {policies: [[optimal], [offload_parameters, optimal], "
        "[offload_optimizer: {ratio: 1}, optimal]], budgets: [70%, 90%], iterations: 50}\n");
    REQUIRE(comparison.points.size() == 6);
    for (const ComparePoint& point : comparison.points) {
      REQUIRE(point.plan);
      CAPTURE(point.list);
      CHECK(point.plan->base_cost.count() == comparison.points[0].plan->base_cost.count());
      if (point.gap) CHECK(*point.gap >= 0);
    }
    check_invariants(comparison);
    // With the optimizer's state off device there is room for more, so less has to be recomputed.
    CHECK(comparison.points[5].plan->cost.count() < comparison.points[1].plan->cost.count());
  }

  TEST_CASE("nothing is called proven of a list with another policy that decides about memory") {
    const Comparison comparison = compared(
        "model: {preset: gpt, layers: 4, width: 256, heads: 4, vocab: 256}\n"
        "hardware: {gpu: a100-sxm-80gb, host: {dispatch: 10us}}\n"
        "training: {micro_batch: 16, sequence: 128, precision: fp32, optimizer: adamw}\n"
        "compare: {policies: [[optimal], [optimal, offload_activations], [offload_optimizer, "
        "optimal]], budgets: [60%, 80%], iterations: 50}\n");
    REQUIRE(comparison.points.size() == 6);
    check_invariants(comparison);
    for (const ComparePoint& point : comparison.points) {
      CAPTURE(point.list);
      CAPTURE(point.budget->count);
      REQUIRE(point.plan);
      REQUIRE(point.plan->infeasible.empty());
      // The plan is the whole list, and its bound is one of the step that was simulated.
      CHECK(point.least_overhead.has_value() == (point.list == 0));
      // A rewrite changes what is planned for; another plan changes what was planned.
      CHECK(point.gap.has_value() == (point.list != 1));
    }
  }

  TEST_CASE("no simulated step is below its bound, in shares of one step") {
    int bounded = 0;
    std::vector<std::string_view> models{
        "{preset: gpt, layers: 3, width: 128, heads: 2, vocab: 512}", "resnet18"};
    if (test::runs_long_tests())
      models.emplace_back("{preset: gpt, layers: 6, width: 1024, heads: 8, vocab: 256}");
    for (const std::string_view model : models) {
      for (const int batch : test::runs_long_tests() ? std::vector{1, 32} : std::vector{32}) {
        const Comparison comparison = compared(fmt::format(
            "model: {}\nhardware: a100-sxm-80gb\ntraining: {{micro_batch: {}, optimizer: sgd}}\n"
            "compare: {{policies: [[optimal], [chen_greedy], [rotor], [min_cut]], budgets: [{}], "
            "iterations: 30, time_limit: 5s}}\n",
            model, batch, test::runs_long_tests() ? "70%, 90%" : "70%"));
        for (const ComparePoint& point : comparison.points) {
          if (!point.least_overhead || !point.overhead) continue;
          CAPTURE(std::string(model));
          CAPTURE(batch);
          CAPTURE(point.list);
          CHECK(*point.overhead >= *point.least_overhead);
          ++bounded;
        }
      }
    }
    CHECK(bounded > 0);
  }

  TEST_CASE("Chen's sqrt(n) over layers takes less where a dropout's mask stands last in them") {
    const Comparison comparison = compared(
        "model: {preset: gpt, layers: 9, width: 256, heads: 4, vocab: 256}\n"
        "hardware: a100-sxm-80gb\n"
        "training: {micro_batch: 8, sequence: 128, dropout: 0.1, precision: fp32}\n"
        "compare: {policies: [[chen_sqrt: {over: layers}]], budgets: [100%]}\n");
    REQUIRE(comparison.points.size() == 1);
    REQUIRE(comparison.points[0].plan);
    CHECK(comparison.points[0].result.run.recompute.count() > 0);
    CHECK(4 * comparison.points[0].plan->peak.count < 3 * comparison.base.run.live.bytes.count);
  }

  TEST_CASE("a comparison does not depend on the number of threads") {
    std::string text(kSmallModel);
    text +=
        "compare: {policies: [[chen_greedy], [optimal], [min_cut], [rotor]], budgets: [97%, 95%], "
        "iterations: 200}\n";
    CHECK(compare_document(compared(text, 1)) == compare_document(compared(text, 4)));
  }

  TEST_CASE("plans of a cost graph are its solver's, and need no device") {
    const std::string name = "unet_d2_n10";
    const Comparison comparison =
        compared(cost_graph_text(name) +
                 "compare: {policies: [[], [chen_sqrt], [chen_greedy], [optimal], [optimal: "
                 "{class: unrestricted}]], budgets: [60%, 80%, 100%, 1]}\n");
    REQUIRE(comparison.points.size() == 20);
    check_invariants(comparison);
    const RematProblem problem =
        remat_problem(read_cost_graph(test::data_path("rematerialization/") + name + ".json"));
    for (const ComparePoint& point : comparison.points) {
      if (point.list < 3) continue;
      const ScheduleClass schedule_class =
          point.list == 3 ? ScheduleClass::kFixed : ScheduleClass::kUnrestricted;
      const PlanResult alone =
          plan_optimal(problem, {.budget = *point.budget, .schedule_class = schedule_class});
      CAPTURE(point.budget->count);
      CHECK((alone.status == PlanStatus::kOptimal) == (point.result.status == PointStatus::kFits));
      if (alone.status != PlanStatus::kOptimal) continue;
      CHECK(point.plan->cost.count() == alone.solution->evaluation.cost);
      CHECK(point.plan->status == PlanStatus::kOptimal);
      CHECK(point.gap == 0);
    }
    CHECK(comparison.base.run.live.bytes == *comparison.points[2].budget);
  }

  TEST_CASE("a policy that is not for the graph is a row with its reason") {
    const Comparison comparison =
        compared(cost_graph_text("randdag_s11_n8") +
                 "compare: {policies: [[revolve], [chen_greedy]], budgets: [100%, 90%]}\n");
    REQUIRE(comparison.points.size() == 4);
    CHECK(comparison.points[0].result.status == PointStatus::kError);
    CHECK_FALSE(reason_of(comparison.points[0]).empty());
    CHECK(comparison.points[2].result.status == PointStatus::kFits);
  }

  TEST_CASE("a budget of the policy's own stands") {
    const Comparison comparison =
        compared(cost_graph_text("chain_n6") +
                 "compare: {policies: [[optimal: {budget: 1000000}], [min_cut: {budget: 0.5}]], "
                 "budgets: [100%, 1]}\n");
    CHECK(comparison.points[0].plan->budget.count == 1000000);
    CHECK(comparison.points[0].result.status == PointStatus::kFits);
    CHECK(comparison.points[1].result.status == PointStatus::kInfeasible);
  }

  TEST_CASE("whoever takes a budget gets it: a plugin's rewrite, two policies of one list") {
    Environment own = default_environment();
    own.policies.load_plugin(test::example_rewrite_path());
    const auto run = [&](const std::string& lists, const std::string& budgets) {
      return compare(parse_document(std::string(kSmallModel) + "compare: {policies: [" + lists +
                                        "], budgets: [" + budgets + "], iterations: 20}\n",
                                    "s.yaml"),
                     own, 1);
    };
    const auto given = [&](const std::string& list) {
      const Value document =
          parse_document(std::string(kSmallModel) + "policies: " + list + "\n", "s.yaml");
      return simulate_points(document, own, 1, {.smallest_capacity = false}).front();
    };
    // 538 MB of parameters: a budget of 200 MiB makes most of them leave, one of 4 GiB none.
    const Comparison alone = run("[parameters_within], [parameters_within: {}]", "4GiB, 200MiB");
    REQUIRE(alone.points.size() == 4);
    for (const std::size_t list : {0U, 2U}) {
      const PointResult& all = alone.points[list].result;
      const PointResult& few = alone.points[list + 1].result;
      CHECK(all.run.step == alone.base.run.step);
      CHECK(few.run.step == given("[parameters_within: {budget: 200MiB}]").run.step);
      CHECK(few.run.step > all.run.step);
    }
    // Next to a plan both get the budget. Each budget has a model of its own, so a bound proven for
    // one is not shared with the other.
    const Comparison both =
        run("[parameters_within, optimal], [{parameters_within: {budget: 4GiB}}, {optimal: null}], "
            "[{parameters_within: }, {min_cut: {budget: 0.5}}]",
            "100%, 97%, 600MiB");
    REQUIRE(both.points.size() == 9);
    check_invariants(both);
    for (const ComparePoint& point : both.points) {
      CAPTURE(point.list);
      CAPTURE(point.budget->count);
      REQUIRE(point.plan);
      if (point.list < 2 && point.result.status == PointStatus::kFits)
        CHECK(point.plan->budget == *point.budget);
      if (point.list == 2) CHECK(point.plan->budget > *point.budget);  // the device's, for a share
    }
    // A policy that keeps its own budget takes none of the comparison's; the other one does.
    const Comparison one = run(
        "[parameters_within: {budget: 200MiB}, keep_all], [parameters_within: {budget: 200MiB}]",
        "4GiB, 3GiB");
    REQUIRE(one.points.size() == 4);
    for (const ComparePoint& point : one.points)
      CHECK(point.result.run.step == alone.points[1].result.run.step);
    CHECK(one.points[1].plan->budget.count == 3 * kGiB.count);
    CHECK_FALSE(one.points[3].plan);
  }

  TEST_CASE("mistakes of a comparison are reported where they are") {
    const std::string model = kSmallModel;  // three lines
    CHECK(compare_refusal(model).find("compare: the scenario says nothing to compare; add") !=
          std::string::npos);
    CHECK(compare_refusal(model + "compare: {policies: [[], [optimale]], budgets: [1GiB]}\n") ==
          "s.yaml:4:27: compare.policies[1][0]: there is no policy 'optimale'; did you mean "
          "'optimal'?");
    CHECK(compare_refusal(model + "compare: {policies: [[optimal: {bugdet: 3}]]}\n") ==
          "s.yaml:4:33: compare.policies[0].optimal.bugdet: unknown key; did you mean 'budget'?");
    CHECK(compare_refusal(model + "compare: {policies: [optimal]}\n") ==
          "s.yaml:4:22: compare.policies[0]: expected a list of policies such as [optimal: {}], "
          "found 'optimal'");
    CHECK(compare_refusal(model + "compare: {policies: [[]], budgets: [80G]}\n")
              .starts_with("s.yaml:4:37: compare.budgets[0]:"));
    CHECK(compare_refusal(model + "compare: {policies: [[]], budgets: [150%]}\n")
              .starts_with("s.yaml:4:37: compare.budgets[0]: expected a size such as 40GiB, or a "
                           "share"));
    CHECK(compare_refusal(model + "compare: {policies: [[]], budget: [1GiB]}\n") ==
          "s.yaml:4:27: compare.budget: unknown key; did you mean 'budgets'?");
    CHECK(compare_refusal(model + "compare: {budgets: [1GiB]}\n").find("'policies' is missing") !=
          std::string::npos);
    CHECK(
        compare_refusal(model + "compare: {policies: [[]]}\nsweep: {matrix: {name: [a, b]}}\n") ==
        "s.yaml:5:1: sweep: a comparison is of one graph; leave the sweep out with -s sweep=null");
    const std::string graph = cost_graph_text("chain_n4");
    CHECK(compare_refusal(graph + "compare: {policies: [[offload_activations]], budgets: [9]}\n")
              .starts_with("s.yaml:2:23: compare.policies[0]: there is no policy "
                           "'offload_activations' for cost graphs"));
    CHECK(compare_refusal(graph + "compare: {policies: [[optimal, rotor]], budgets: [9]}\n") ==
          "s.yaml:2:22: compare.policies[0]: a schedule of a cost graph is one policy's");
    CHECK(compare_refusal(graph + "compare: {policies: [[optimal]]}\n")
              .find("'budgets' is missing") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidemark::scenarios_compare_test
