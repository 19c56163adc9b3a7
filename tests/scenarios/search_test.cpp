#include "scenarios/studies/search/search.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::search_test {
namespace {

double value_of(const std::string& text) {
  return Expression(text, false).value([](std::string_view name) -> double {
    if (name == "a.b") return 7;
    if (name == "s") return 2;
    throw UserError("there is no such figure");
  });
}

std::string fault_of(const std::string& text, bool comparison) {
  try {
    static_cast<void>(Expression(text, comparison));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

Value scenario(const std::string& goal) {
  return parse_document(
      fmt::format(
          "{{model: {{preset: gpt2, layers: 3}}, hardware: v100-sxm-16gb, training: "
          "{{sequence: 512}}, sweep: {{matrix: {{training.micro_batch: [1, 4, 16, 256], "
          "training.optimizer: [sgd, nonsense], policies: [[], [checkpoint_every: {{}}]]}}}}"
          "{}}}",
          goal),
      "test.yaml");
}

SearchOptions every_point() {
  return {.simulation = {}, .every_point = true};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("expressions follow the rules of arithmetic and know units") {
    CHECK(value_of("1 + 2 * 3") == 7);
    CHECK(value_of("(1 + 2) * 3 - -1") == 10);
    CHECK(value_of("8 / 2 / 2") == 2);
    CHECK(value_of("a.b*2") == 14);
    CHECK(value_of("0.5 * 2GiB") == static_cast<double>(kGiB.count));
    CHECK(value_of("90s") == 90);
    CHECK(value_of("1e9") == 1e9);
    CHECK(value_of("2.5e-3 * 1e+3") == 2.5);
    CHECK(value_of("1ms") == doctest::Approx(1e-3));
    CHECK(value_of("2GB/s") == 2e9);
    CHECK(value_of("8/s") == 4);  // a figure called s
    CHECK(value_of("312TFLOP/s") == 312e12);
    const auto holds = [](const std::string& text) {
      return Expression(text, true).holds([](std::string_view) { return std::nan(""); });
    };
    CHECK(holds("1 <= 1"));
    CHECK(holds("2 > 1"));
    CHECK_FALSE(holds("1 < 1"));
    CHECK_FALSE(holds("1 >= 1 + 1"));
    // No comparison holds for a missing figure.
    CHECK_FALSE(holds("a <= 1"));
    CHECK_FALSE(holds("a >= 1"));

    CHECK(fault_of("1 +", false).find("character 4") == 0);
    CHECK(fault_of("1 2", false).find("character 3") == 0);
    CHECK(fault_of("80G", false).find("80G is no quantity") != std::string::npos);
    CHECK(fault_of("a", true).find("expected <= or >=") != std::string::npos);
    CHECK(fault_of("a = 1", true).find("expected <= or >=") != std::string::npos);
    CHECK(fault_of("a <= 1", false).find("expected the end") != std::string::npos);
    CHECK(fault_of(std::string(500, '('), false).find("parentheses") != std::string::npos);
  }

  TEST_CASE("what is compared or added is of one unit") {
    struct Case {
      const char* text;
      FigureUnit unit;
    };
    const Case good[] = {
        {"memory.device_used <= 72GiB", FigureUnit::kBytes},
        {"memory.device_used <= 0.95 * hardware.hbm.capacity", FigureUnit::kBytes},
        {"memory.device_used <= 0.95 * 80e9", FigureUnit::kBytes},  // bytes, as results say them
        {"memory.device_used + 2 * 1GiB < (72GiB - 3MB)", FigureUnit::kBytes},
        {"memory.device_used > 0", FigureUnit::kBytes},
        {"memory.device_used - 700MiB <= 0", FigureUnit::kBytes},
        {"memory.device_used / 1e9 <= 72", FigureUnit::kNone},  // in GB
        {"memory.device_used / 1024 / 1024 / 1024 <= 72", FigureUnit::kNone},
        {"memory.device_used / (1024 * 1024 * 1024) <= 72", FigureUnit::kNone},
        {"1e-9 * memory.device_used <= 72", FigureUnit::kNone},
        {"1000 * time.step + memory.device_used / 1e9 <= 100", FigureUnit::kNone},
        {"memory.device_used <= 72 * 1024 * 1024 * 1024", FigureUnit::kBytes},
        {"memory.device_used / hardware.hbm.capacity <= 0.95", FigureUnit::kNone},
        {"time.step <= 2", FigureUnit::kSeconds},
        {"-time.step >= -2s", FigureUnit::kSeconds},
        {"memory.device_used / time.step <= 1TB/s", FigureUnit::kNone},
        {"policies.optimal.gap <= 0.05", FigureUnit::kNone},
        {"memory.peak.step <= 1", FigureUnit::kNone},
        {"memory.peak.time <= 1s", FigureUnit::kSeconds}};
    for (const Case& c : good) {
      CAPTURE(c.text);
      CHECK(Expression(c.text, true).unit() == c.unit);
    }
    const auto refused = [&](const char* text, const char* part) {
      CAPTURE(text);
      CHECK_THROWS_WITH_AS(Expression(text, true), doctest::Contains(part), std::invalid_argument);
    };
    refused("memory.device_used <= 72",
            "the number 72 beside bytes has no unit; write it with its unit");
    refused("memory.device_used <= 0 + 72", "the number 72 beside bytes has no unit");
    refused("memory.device_used <= 72 * 2^30", "expected the end");
    refused("80 - 8 > memory.device_used", "the number 72 beside bytes has no unit");
    refused("memory.device_used - 4 < 72GiB", "the number 4 beside bytes has no unit");
    refused("memory.device_used < 3s", "bytes stand beside seconds");
    refused("time.step <= 1GiB", "bytes stand beside seconds");
    refused("time.step + memory.device_used <= 1", "bytes stand beside seconds");
  }

  TEST_CASE("mistakes in a goal are reported where they are") {
    const auto refused = [&](const std::string& goal, const std::string& part) {
      const std::string error =
          error_of([&] { static_cast<void>(decode(scenario_text("goal: " + goal + "\n"))); });
      CAPTURE(error);
      CHECK(error.find(part) != std::string::npos);
      CHECK(error.find("s.yaml:") == 0);
    };
    refused("{minimize: time.stp}", "goal.minimize: there is no figure 'time.stp'; did you mean");
    refused("{minimize: time.step, maximize: time.step}", "one of minimize and maximize");
    refused("{}", "one of minimize and maximize");
    refused("{minimize: time.step, subject: []}", "goal.subject: unknown key");
    refused("{minimize: time.step, subject_to: [1GiB]}", "goal.subject_to[0]: character");
    refused("{minimize: hardware.hbm.speed}", "there is no figure 'hardware.hbm.speed'");
    refused("fast", "expected {minimize");
    refused("{minimize: []}", "goal.minimize: expected a figure or a list of figures");
    refused("{minimize: [time.step, time.stp]}", "goal.minimize[1]: there is no figure");
    refused("{minimize: [time.step, cost]}", "a cost needs hardware.price");
  }
}

TEST_SUITE("property") {
  TEST_CASE("a search ranks the points that fit and keep to the goal, and no others") {
    const SearchResult found = search(
        scenario(
            ", goal: {minimize: time.step / throughput.samples_per_second, subject_to: "
            "[\"memory.device_used <= 0.3 * hardware.hbm.capacity\", \"time.recompute >= 0\"]}"),
        environment(), 2, every_point());
    REQUIRE(found.points.size() == 16);
    const double limit = 0.3 * static_cast<double>(found.points.front().result.capacity.count);
    std::size_t feasible = 0;
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < found.points.size(); ++i) {
      const SearchPoint& point = found.points[i];
      const PointResult& result = point.result;
      const bool fits = result.status == PointStatus::kFits;
      const auto used = static_cast<double>(result.context.count + result.run.reserved.bytes.count);
      const bool expected = fits && used <= limit;
      CHECK(point.feasible == expected);
      feasible += expected ? 1U : 0U;
      left_out += fits && !expected ? 1U : 0U;
      if (!fits) continue;
      CHECK(point.objectives.front() ==
            doctest::Approx(std::chrono::duration<double>(result.run.step).count() /
                            result.samples_per_second));
    }
    CHECK(found.ranking.size() == feasible);
    CHECK(feasible >= 3);
    CHECK(left_out >= 1);
    for (std::size_t k = 1; k < found.ranking.size(); ++k) {
      CHECK(found.points[found.ranking[k - 1]].objectives <=
            found.points[found.ranking[k]].objectives);
    }
    for (const SearchPoint& point : found.points) {
      if (point.result.status == PointStatus::kError) continue;
      CHECK(point.feasible == point.breaks.empty());
      for (const Breach& breach : point.breaks) {
        const auto used = static_cast<double>(point.result.device_used().count);
        if (breach.constraint) {
          CHECK(breach.by == doctest::Approx(used - limit));
        } else {
          CHECK(point.result.status == PointStatus::kOutOfMemory);
          CHECK(breach.by == (point.result.smallest_capacity - point.result.capacity).count);
        }
        CHECK(breach.by > 0);
      }
    }
    CHECK(found.front == std::vector{found.ranking.front()});
    // Without a goal: the most samples per second.
    const SearchResult fastest = search(scenario(""), environment(), 2, every_point());
    REQUIRE(!fastest.ranking.empty());
    for (const SearchPoint& point : fastest.points) {
      if (point.feasible) {
        CHECK(point.result.samples_per_second <=
              fastest.points[fastest.ranking.front()].result.samples_per_second);
      }
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("of several objectives the answers are those that no other point dominates") {
    const SearchResult found = search(
        scenario(", goal: {minimize: [time.per_sample, memory.device_used, memory.peak_live]}"),
        environment(), 2, every_point());
    const std::vector<SearchPoint>& points = found.points;
    std::size_t dominated = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool listed = std::find(found.front.begin(), found.front.end(), i) != found.front.end();
      bool best = points[i].feasible;
      for (const SearchPoint& other : points) {
        if (!best || !other.feasible) continue;
        const auto& mine = points[i].objectives;
        bool none_worse = true;
        for (std::size_t k = 0; k < 3; ++k)
          none_worse = none_worse && other.objectives[k] <= mine[k];
        best = !none_worse || other.objectives == mine;
      }
      CAPTURE(i);
      CHECK(listed == best);
      dominated += points[i].feasible && !best ? 1U : 0U;
    }
    CHECK(found.front.size() >= 2);
    CHECK(dominated >= 1);
    // The goal's own figures are found, also where the caller has no use for them.
    SearchOptions brief = every_point();
    brief.simulation.smallest_capacity_of_fitting = false;
    const auto smallest = [&](const std::string& goal) {
      return search(scenario(", goal: {minimize: " + goal + "}"), environment(), 1, brief)
          .points[0]
          .result.smallest_capacity.count;
    };
    CHECK(smallest("time.step") == 0);
    CHECK(smallest("[time.step, memory.smallest_capacity]") > 0);
    // One objective alone has the first of them as its answer.
    CHECK(search(scenario(", goal: {minimize: time.per_sample}"), environment(), 2, every_point())
              .ranking.front() == found.front.front());
  }
}

TEST_SUITE("unit") {
  TEST_CASE("figures of policies that only some points have, and points that cannot be read") {
    const auto with = [](const std::string& goal) {
      return parse_document(
          fmt::format(
              "{{model: {{preset: gpt2, layers: 2}}, hardware: v100-sxm-16gb, training: "
              "{{sequence: 128}}, sweep: {{matrix: {{training.micro_batch: [0, 1], policies: "
              "[[], [optimal: {{budget: 8GiB, iterations: 10}}]]}}}}, goal: {}}}",
              goal),
          "test.yaml");
    };
    // The first point is an error; of the others one has a plan.
    const SearchResult found =
        search(with("{minimize: time.step, subject_to: [policies.optimal.gap <= 0.5]}"),
               environment(), 1, every_point());
    REQUIRE(found.points.size() == 4);
    CHECK(found.points[0].result.status == PointStatus::kError);
    REQUIRE(found.points[2].breaks.size() == 1);
    CHECK(found.points[2].breaks.front().constraint == 0);
    CHECK(std::isnan(found.points[2].breaks.front().by));  // it has no plan
    CHECK(found.ranking == std::vector<std::size_t>{3});
    CHECK(
        search(with("{minimize: policies.optimal.gap}"), environment(), 1, every_point()).ranking ==
        std::vector<std::size_t>{3});
    const auto refused = [&](const std::string& figure, const std::string& part) {
      const std::string error = error_of([&] {
        static_cast<void>(
            search(with("{minimize: " + figure + "}"), environment(), 1, every_point()));
      });
      CAPTURE(error);
      CHECK(error.find("test.yaml:1:") == 0);
      CHECK(error.find(part) != std::string::npos);
    };
    refused("policies.optimol.gap", "no point has the policy 'optimol'; did you mean 'optimal'");
    refused("policies.optimal.gapp", "no point has the figure 'policies.optimal.gapp'");
    refused("policies.optimal", "no point has the figure 'policies.optimal'");
  }
}

}  // namespace tidemark::search_test
