// The time of a step by kernel and by layer adds up to what the compute stream works.
#include "scenarios/results/time_terms.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "scenarios/read/scenario.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::time_terms_test {
namespace {

struct Run {
  Scenario scenario;
  PointDetail detail;
  PointResult result;
  explicit Run(const std::string& policies)
      : scenario(decode("{version: 1, model: {preset: gpt2, layers: 3, vocab: 4096}, hardware: "
                        "{gpu: v100-sxm-16gb}, training: {micro_batch: 2, sequence: 256}, "
                        "policies: " +
                        policies + "}")) {
    detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
    result = simulate(scenario, *detail.model, {.smallest_capacity = false}, &detail);
  }
};

Duration sum_of_all(const std::vector<TimeTerm>& terms) {
  return std::accumulate(terms.begin(), terms.end(), Duration(0),
                         [](Duration sum, const TimeTerm& term) { return sum + term.total(); });
}

TEST_SUITE("unit") {
  TEST_CASE("each list of terms adds up to the busy time of compute, longest first") {
    for (const std::string policies : {"[]", "[checkpoint_every: {period: 1}]"}) {
      CAPTURE(policies);
      const Run run(policies);
      const TimeTerms terms = time_terms(run.result, run.detail);
      CHECK(terms.step == run.result.run.step);
      CHECK(terms.busy == run.result.run.busy[static_cast<std::size_t>(Stream::kCompute)]);
      Duration recomputed{};
      for (const auto* list : {&terms.by_operator, &terms.by_module, &terms.by_pattern}) {
        CHECK(sum_of_all(*list) == terms.busy);
        CHECK(std::is_sorted(list->begin(), list->end(),
                             [](const auto& a, const auto& b) { return a.total() > b.total(); }));
      }
      for (const TimeTerm& term : terms.by_operator)
        recomputed += term.recompute;
      CHECK(recomputed == run.result.run.recompute);
      CHECK((recomputed > Duration(0)) == (policies != "[]"));
    }
  }

  TEST_CASE("layers that repeat are together, and the loss is one of them") {
    const Run run("[]");
    const TimeTerms terms = time_terms(run.result, run.detail);
    const auto named = [](const std::vector<TimeTerm>& list, const std::string& name) {
      return std::find_if(list.begin(), list.end(),
                          [&](const TimeTerm& term) { return term.name == name; });
    };
    CHECK(named(terms.by_pattern, "loss") != terms.by_pattern.end());
    CHECK(named(terms.by_pattern, "h.0.mlp") == terms.by_pattern.end());
    const auto together = named(terms.by_pattern, "h.*.mlp");
    REQUIRE(together != terms.by_pattern.end());
    Duration each{};
    std::size_t kernels = 0;
    for (const char* name : {"h.0.mlp", "h.1.mlp", "h.2.mlp"}) {
      const auto module = named(terms.by_module, name);
      REQUIRE(module != terms.by_module.end());
      each += module->total();
      kernels += module->count;
    }
    CHECK(together->total() == each);
    CHECK(together->count == kernels);
  }
}

}  // namespace
}  // namespace tidemark::time_terms_test
