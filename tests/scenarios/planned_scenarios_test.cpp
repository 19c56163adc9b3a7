// Plans of checkpoint placement on a device: what they promise beside what the simulation takes.
#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/compile.hpp"
#include "scenarios/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace {

// In place operators, running statistics, matrix products with their library's workspace,
// convolutions with theirs, accumulation over micro-batches.
constexpr const char* kModels[] = {
    "model: {preset: gpt2, layers: 3}, training: {micro_batch: 2, sequence: 128, steps: 2}",
    "model: {preset: llama-2-7b, vocab: 1000, layers: 2, width: 256, heads: 4, kv_heads: 4, ffn: "
    "512}, "
    "training: "
    "{micro_batch: 1, sequence: 128, accumulate: 2, steps: 3}",
    "model: resnet18, training: {micro_batch: 4, steps: 2}",
    "model: unet, training: {micro_batch: 1, image: 64, steps: 2}",
};

PointResult point_of(const std::string& model, const std::string& policy) {
  const Scenario scenario =
      decode(fmt::format("{{{}, hardware: a100-sxm-40gb, policies: [{}]}}", model, policy));
  return simulate(scenario, build_training(scenario), {});
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("keep_all is no policy") {
    for (const char* model : kModels) {
      CAPTURE(model);
      const PointResult kept = point_of(model, "keep_all");
      const PointResult plain = point_of(model, "");
      CHECK(kept.run.live.bytes == plain.run.live.bytes);
      CHECK(kept.run.reserved.bytes == plain.run.reserved.bytes);
      CHECK(kept.run.step == plain.run.step);
      CHECK(kept.smallest_capacity == plain.smallest_capacity);
    }
  }

  TEST_CASE("a plan's peak holds in the simulation, libraries' workspaces included") {
    int repeats = 0;
    for (const char* model : kModels) {
      CAPTURE(model);
      const PointResult plain = point_of(model, "keep_all");
      REQUIRE(plain.policies.front().plan);
      const std::int64_t all = plain.policies.front().plan->peak;
      for (const char* policy : {"optimal", "rockmate", "min_cut", "chen_greedy"}) {
        for (const int percent : {97, 90, 80, 70}) {
          CAPTURE(policy);
          CAPTURE(percent);
          const std::int64_t budget = all / 100 * percent;
          const PointResult point =
              point_of(model, fmt::format("{}: {{budget: {}, iterations: 30}}", policy, budget));
          REQUIRE(point.policies.front().plan);
          const PlanFigures& plan = *point.policies.front().plan;
          CHECK((point.status == PointStatus::kInfeasible) == !plan.infeasible.empty());
          const auto of = [&](Phase phase) {
            return point.run.phase_live[static_cast<std::size_t>(phase)].bytes;
          };
          CHECK(std::max(of(Phase::kForward), of(Phase::kBackward)) <= plan.peak);
          if (plan.infeasible.empty()) CHECK(plan.peak <= budget);
          repeats += point.policies.front().recomputed_operators > 0 ? 1 : 0;
        }
      }
    }
    CHECK(repeats > 10);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a plan counts the library's workspace exactly where the framework has one") {
    const std::string gpt =
        "model: {preset: gpt2, layers: 1}, training: {micro_batch: 1, sequence: 64";
    const auto peak = [&](const std::string& framework) {
      return point_of(gpt + framework + "}", "keep_all").policies.front().plan->peak;
    };
    const Scenario scenario = decode("{" + gpt + "}, hardware: a100-sxm-40gb}");
    const Bytes workspace = libraries_of(scenario).matmul;
    REQUIRE(workspace > Bytes(0));
    CHECK(device_of(scenario).framework.cublas_workspace == workspace);
    const Scenario ideal = decode("{" + gpt + ", framework: ideal}, hardware: a100-sxm-40gb}");
    CHECK(device_of(ideal).framework.cublas_workspace == Bytes(0));
    CHECK(peak("") > peak(", framework: ideal"));
  }

  TEST_CASE("optimizer state that lives on the host takes nothing of the budget") {
    const PointResult here = point_of(kModels[0], "keep_all");
    const PointResult host = point_of(kModels[0], "keep_all, offload_optimizer: {ratio: 1}");
    const std::int64_t saved = here.policies.front().plan->peak - host.policies.front().plan->peak;
    CHECK(saved == here.run.phase_live[static_cast<std::size_t>(Phase::kBackward)].bytes -
                       host.run.phase_live[static_cast<std::size_t>(Phase::kBackward)].bytes);
    CHECK(saved > 0);
  }

  TEST_CASE("an infeasible budget names the operator and the bytes it takes alone") {
    const PointResult point = point_of(kModels[0], "optimal: {budget: 1MiB, iterations: 10}");
    REQUIRE(point.status == PointStatus::kInfeasible);
    const PlanFigures& plan = *point.policies.front().plan;
    CHECK(plan.status == "infeasible");
    CHECK(plan.infeasible.find(" alone takes ") != std::string::npos);
    CHECK(plan.infeasible.find(" bytes ") != std::string::npos);
    CHECK(plan.infeasible.find("node ") == std::string::npos);
    CHECK(point.failure.front().reason.find("no plan fits within the budget of 1 MiB") !=
          std::string::npos);
  }

  TEST_CASE("what is not proven infeasible is not said to be") {
    const PointResult all = point_of(kModels[2], "keep_all");
    const PointResult point = point_of(
        kModels[2], fmt::format("keep_all: {{budget: {}}}", all.policies.front().plan->peak - 1));
    REQUIRE(point.status == PointStatus::kInfeasible);
    CHECK(point.policies.front().plan->status == "unknown");
    CHECK(point.failure.front().reason.find("found no plan that fits") != std::string::npos);
  }

  TEST_CASE("a policy that a model is not fit for says which one and where") {
    const std::string model = "model: lstm_lm, training: {micro_batch: 1}";
    const std::string error =
        error_of([&] { point_of(model, "chen_sqrt: {over: layers, budget: 1GiB}"); });
    CHECK(error.find("policies.chen_sqrt: over: layers is for models with") != std::string::npos);
  }

  TEST_CASE("selective without operators to choose from says what to give") {
    for (const char* policy : {"selective", "selective: {}", "selective: {recompute: []}"}) {
      CAPTURE(policy);
      const std::string error = error_of([&] { point_of(kModels[0], policy); });
      CHECK(error.find("policies.selective") != std::string::npos);
      CHECK(error.find("recompute: [gelu, dropout]") != std::string::npos);
    }
    CHECK(error_of([&] { point_of(kModels[0], "selective: {save: []}"); }) == "accepted");
  }
}

}  // namespace tidemark
