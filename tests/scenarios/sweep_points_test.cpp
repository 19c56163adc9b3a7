#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::sweep_points_test {
namespace {

// Returns the points of a scenario on line 1 and 2, with a sweep from line 3 on.
std::vector<std::vector<Override>> points_of(const std::string& sweep) {
  return sweep_points(parse_document(scenario_text(sweep), "s.yaml"));
}

// Returns "training.steps=1 training.accumulate=2; ...": each point with its scalars.
std::string written(const std::string& sweep) {
  std::string text;
  for (const std::vector<Override>& point : points_of(sweep)) {
    if (!text.empty()) text += "; ";
    for (std::size_t i = 0; i < point.size(); ++i) {
      const std::string key = point[i].key.substr(point[i].key.find('.') + 1);
      text += (i == 0 ? "" : " ") + key + "=" + point[i].value.scalar;
    }
  }
  return text;
}

std::string sweep_refusal(const std::string& sweep) {
  return error_of([&] { static_cast<void>(points_of(sweep)); });
}

TEST_SUITE("unit") {
  TEST_CASE("without a sweep there is one point that changes nothing") {
    REQUIRE(points_of("").size() == 1);
    CHECK(points_of("").front().empty());
    CHECK(points_of("sweep:\n").size() == 1);
  }

  TEST_CASE("the matrix is a product whose first key is the slowest") {
    CHECK(written("sweep: {matrix: {training.steps: [1, 2], training.accumulate: [1, 2, 4]}}\n") ==
          "steps=1 accumulate=1; steps=1 accumulate=2; steps=1 accumulate=4; "
          "steps=2 accumulate=1; steps=2 accumulate=2; steps=2 accumulate=4");
  }

  TEST_CASE("a range stands for its numbers") {
    const auto numbers = [](const std::string& range) {
      return written("sweep: {matrix: {training.steps: " + range + "}}\n");
    };
    CHECK(numbers("{from: 2, to: 4}") == "steps=2; steps=3; steps=4");
    CHECK(numbers("{from: 3, to: 3}") == "steps=3");
    CHECK(numbers("{from: 1, to: 10, step: 4}") == "steps=1; steps=5; steps=9");
    CHECK(numbers("{from: 1, to: 12, times: 2}") == "steps=1; steps=2; steps=4; steps=8");
    CHECK(numbers("{from: 0.5, to: 0.9, step: 0.1}") ==
          "steps=0.5; steps=0.6; steps=0.7; steps=0.8; steps=0.9");
    CHECK(written("sweep:\n"
                  "  matrix: {training.steps: {from: 1, to: 3}}\n"
                  "  exclude: [{training.steps: 2}]\n") == "steps=1; steps=3");
    const auto refused = [](const std::string& range, const std::string& part) {
      const std::string error = sweep_refusal("sweep: {matrix: {training.steps: " + range + "}}\n");
      CAPTURE(error);
      CHECK(error.find("s.yaml:3:") == 0);
      CHECK(error.find(part) != std::string::npos);
    };
    refused("{from: 4, to: 2}", "sweep.matrix.training.steps.to: is below from, 4");
    refused("{from: 1}", "sweep.matrix.training.steps");
    refused("{from: 1, to: 4, step: 0}", "step: must be above 0");
    refused("{from: 1, to: 4, times: 1}", "times: must be above 1");
    refused("{from: 0, to: 4, times: 2}", "from: must be above 0");
    refused("{from: 1, to: 4, step: 1, times: 2}", "not both");
    refused("{from: 1, to: 4, stepp: 1}", "stepp: unknown key");
    refused("{from: 1, to: 1e9}", "more than the 1000000 values");
    refused("{micro_batch: [1, 2]}", "expected a list of values or {from: 1, to: 64}");
  }

  TEST_CASE("exclude drops the points where all of its keys match") {
    CHECK(written("sweep:\n"
                  "  matrix: {training.steps: [1, 2], training.accumulate: [1, 2]}\n"
                  "  exclude: [{training.steps: 2, training.accumulate: 1}]\n") ==
          "steps=1 accumulate=1; steps=1 accumulate=2; steps=2 accumulate=2");
    CHECK(written("sweep:\n"
                  "  matrix: {training.steps: [1, 2], training.accumulate: [1, 2]}\n"
                  "  exclude: [{training.steps: 2}, {training.accumulate: 2}]\n") ==
          "steps=1 accumulate=1");
  }

  TEST_CASE("values are compared as YAML means them") {
    const std::string matrix = "sweep:\n  matrix: {training.dropout: [0.5, 0.10, null]}\n";
    CHECK(written(matrix + "  exclude: [{training.dropout: 0.1}, {training.dropout: 5e-1}]\n") ==
          "dropout=");
    CHECK(sweep_refusal(matrix + "  exclude: [{training.dropout: '0.5'}]\n") ==
          "s.yaml:5:32: sweep.exclude[0].training.dropout: the matrix does not have this value, so "
          "nothing would be excluded");
    CHECK(sweep_refusal("sweep: {matrix: {training.steps: [1, 2, 1]}}\n") ==
          "s.yaml:3:41: sweep.matrix.training.steps[2]: this value is listed twice");
    CHECK(sweep_refusal("sweep: {matrix: {model: [{preset: gpt2, layers: 2}, {layers: 2, preset: "
                        "'gpt2'}]}}\n") ==
          "s.yaml:3:53: sweep.matrix.model[1]: this value is listed twice");
    CHECK(points_of("sweep: {matrix: {name: [1, '1', true, 'true', one]}}\n").size() == 5);
  }

  TEST_CASE("include adds points after the matrix, also with keys of their own") {
    CHECK(written("sweep:\n"
                  "  matrix: {training.steps: [1, 2]}\n"
                  "  include: [{training.accumulate: 8}, {}]\n") ==
          "steps=1; steps=2; accumulate=8; ");
    CHECK(points_of("sweep:\n"
                    "  include:\n"
                    "    - {name: none, policies: []}\n"
                    "    - {name: all, policies: [checkpoint_every: {period: 1}, revolve]}\n")
              .size() == 2);
  }

  TEST_CASE("a policy's parameter can be swept, with or without the list of policies") {
    CHECK(
        written("policies: [revolve]\nsweep: {matrix: {policies.revolve.checkpoints: [1, 2]}}\n") ==
        "revolve.checkpoints=1; revolve.checkpoints=2");
    CHECK(points_of("sweep:\n  matrix:\n    policies: [[revolve], [revolve, checkpoint_every]]\n"
                    "    policies.revolve.checkpoints: [1, 2]\n")
              .size() == 4);
    CHECK(sweep_refusal("sweep: {matrix: {policies.revolve.checkpoints: [1]}}\n") ==
          "s.yaml:3:18: sweep.matrix.policies.revolve.checkpoints: policy 'revolve' is not listed "
          "under policies; no policies are listed");
    CHECK(sweep_refusal("policies: [revolve, revolve]\n"
                        "sweep: {matrix: {policies.revolve.checkpoints: [1]}}\n")
              .find("is listed twice (lines 3 and 3)") != std::string::npos);
  }

  TEST_CASE("keys that reach nothing are errors") {
    CHECK(sweep_refusal("sweep: {matrix: {training.micro_bacth: [1]}}\n") ==
          "s.yaml:3:18: sweep.matrix.training.micro_bacth: unknown key; did you mean "
          "'micro_batch'?");
    CHECK(sweep_refusal("sweep: {matrix: {trainin.steps: [1]}}\n") ==
          "s.yaml:3:18: sweep.matrix.trainin.steps: 'trainin' cannot be swept; did you mean "
          "'training'?");
    CHECK(
        sweep_refusal("sweep: {matrix: {report.dir: [a]}}\n") ==
        "s.yaml:3:18: sweep.matrix.report.dir: 'report' cannot be swept; keys that can begin with "
        "name, model, hardware, training, allocator, policies");
    CHECK(sweep_refusal("sweep: {matrix: {training..steps: [1]}}\n") ==
          "s.yaml:3:18: sweep.matrix.training..steps: unknown key");
    CHECK(sweep_refusal("sweep: {include: [{training.step: 1}]}\n") ==
          "s.yaml:3:20: sweep.include[0].training.step: unknown key; did you mean 'steps'?");
    CHECK(sweep_refusal("sweep: {matrx: {training.steps: [1]}}\n") ==
          "s.yaml:3:9: sweep.matrx: unknown key; did you mean 'matrix'?");
    CHECK(sweep_refusal(
              "sweep:\n  matrix: {training.steps: [1]}\n  exclude: [{training.step: 1}]\n") ==
          "s.yaml:5:14: sweep.exclude[0].training.step: not a key of the matrix; did you mean "
          "'training.steps'?");
  }

  TEST_CASE("keys of the scenario right under sweep are told to stand in the matrix") {
    const std::string refused = sweep_refusal("sweep: {training.micro_batch: [1, 2]}\n");
    CHECK(refused.find("s.yaml:3:9: sweep.training.micro_batch: unknown key; write sweep: {matrix: "
                       "{training.micro_batch: [...]}}") == 0);
    CHECK(sweep_refusal("sweep: {matrx: {training.micro_batch: [1]}}\n")
              .find("did you mean 'matrix'?") != std::string::npos);
  }

  TEST_CASE("sweeps without points are errors") {
    CHECK(sweep_refusal("sweep: {}\n") ==
          "s.yaml:3:8: sweep: expected matrix: {key: [values]} or include: [{key: value}]");
    CHECK(sweep_refusal("sweep: {matrix: {}}\n") ==
          "s.yaml:3:17: sweep.matrix: expected {key: [values], ...}, found nothing");
    CHECK(sweep_refusal("sweep: {matrix: {training.steps: []}}\n") ==
          "s.yaml:3:18: sweep.matrix.training.steps: the list is empty, so there are no points");
    CHECK(sweep_refusal("sweep: {matrix: {training.steps: 4}}\n") ==
          "s.yaml:3:34: sweep.matrix.training.steps: expected a list of values or {from: 1, to: "
          "64}, found '4'; write "
          "[4]");
    CHECK(
        sweep_refusal("sweep: {matrix: {training.steps: [1]}, exclude: [{training.steps: 1}]}\n") ==
        "s.yaml:3:49: sweep.exclude: every point is excluded");
    CHECK(sweep_refusal("sweep: {matrix: {training.steps: [1]}, exclude: [{}]}\n") ==
          "s.yaml:3:50: sweep.exclude[0]: this would exclude every point");
    CHECK(sweep_refusal("sweep: {matrix: {training.steps: [1]}, include: {training.steps: 2}}\n") ==
          "s.yaml:3:49: sweep.include: expected a list of points, found a mapping; begin each with "
          "'- '");
    CHECK(sweep_refusal("sweep: {include: [4]}\n") ==
          "s.yaml:3:19: sweep.include[0]: expected {key: value, ...}, found '4'");
    CHECK(sweep_refusal("sweep: [1]\n") == "s.yaml:3:8: sweep: expected a mapping, found a list");
  }

  TEST_CASE("a sweep of more than a million points is an error") {
    std::string numbers = "[1";
    for (int i = 2; i <= 1001; ++i)
      numbers += ", " + std::to_string(i);
    numbers += "]";
    CHECK(sweep_refusal("sweep:\n  matrix:\n    training.micro_batch: " + numbers +
                        "\n    training.accumulate: " + numbers + "\n") ==
          "s.yaml:6:5: sweep.matrix.training.accumulate: the keys up to this one already make "
          "1002001 points; at most 1000000 can be swept");
  }
}

}  // namespace
}  // namespace tidemark::sweep_points_test
