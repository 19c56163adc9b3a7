#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "policies/solver/checkmate_lp.hpp"
#include "policies/solver/checkmate_relaxation.hpp"
#include "policies/solver/optimal.hpp"
#include "policies/solver/step_costs.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/compare.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/compile.hpp"

namespace tidemark::bench {
namespace {

// Returns where the instances are; they are not part of the repository, and without them there are
// no figures.
std::filesystem::path graph_instances() {
  return shared_path("cases/rematerialization");
}

// Adds the seconds of the slowest plan of the small instances, and how many are proven.
void add_small(std::vector<Figure>& figures) {
  double slowest = 0;
  int proven = 0;
  int plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(graph_instances())) {
    if (entry.path().extension() != ".json") continue;
    const RematProblem problem = remat_problem(read_cost_graph(entry.path().string()));
    std::ifstream file(entry.path());
    const auto recorded = nlohmann::json::parse(file);
    for (const auto& one : recorded.at("cases")) {
      for (const ScheduleClass schedule_class : kScheduleClasses) {
        PlanResult plan;
        const double seconds = median_seconds(1, [&] {
          plan = plan_optimal(problem, {.budget = Bytes(one.at("budget").get<std::int64_t>()),
                                        .schedule_class = schedule_class});
        });
        slowest = std::max(slowest, seconds);
        const bool sure =
            plan.status == PlanStatus::kOptimal || plan.status == PlanStatus::kInfeasible;
        proven += sure ? 1 : 0;
        ++plans;
      }
    }
  }
  figures.push_back(
      {.name = "plan.small.slowest", .value = slowest, .unit = "s", .required = "< 20"});
  figures.push_back({.name = "plan.small.proven",
                     .value = static_cast<double>(proven) / std::max(plans, 1),
                     .unit = "",
                     .required = ">= 1"});
}

struct Published {
  const char* graph;
  std::int64_t budget;  // bytes; `share` of the peak without recomputation
  const char* share;
  const char* gap;  // required gap, in percent
};

// The largest instances that are proven optimal, and the gaps of harder ones after ten seconds; no
// optimum of the irregular ones is known.
constexpr Published kPublished[] = {
    {"segnet", 11966330573, "60", "<= 0.3"},       {"unet", 12575676826, "60", "<= 0.3"},
    {"resnet50", 22835613696, "60", "<= 0.1"},     {"resnet50", 11417806848, "30", "<= 2"},
    {"mobilenet", 10410316800, "30", "<= 2"},      {"random_layered_250", 102788, "70", ""},
    {"random_layered_1000", 486896, "80", "<= 2"},
};

constexpr Published kRounded[] = {
    {"mobilenet", 17350528000, "50", ""},
    {"resnet50", 19029678080, "50", ""},
    {"random_layered_500", 227552, "80", ""},
    {"random_layered_250", 102788, "70", ""},
};

// Plans gpt2's micro-batch by operators at half of its peak, ten seconds: `tidemark graph SCENARIO
// --cost-graph` writes the same graph.
void add_gpt2(std::vector<Figure>& figures) {
  for (const char* precision : {"fp16_autocast", "bf16_mixed"}) {
    const Value document = parse_document(
        std::string("version: 1\nmodel: gpt2\nhardware: a100-sxm-80gb\n"
                    "training: {micro_batch: 8, sequence: 1024, attention: math, precision: ") +
            precision + "}\n",
        "bench");
    const Scenario scenario = decode_scenario(document, default_environment({}));
    const TrainedModel model = build_training(scenario);
    const CostTable costs = price(model.training, CostModel(scenario.device));
    const RematProblem problem = remat_problem(
        step_costs(model.training, micro_batch_of(model.training), costs.device, false).graph);
    Schedule once(problem.size());
    std::iota(once.begin(), once.end(), NodeIndex{0});
    const PlanResult plan =
        plan_optimal(problem, {.budget = Bytes(evaluate(problem, once).peak / 2),
                               .time_limit = std::chrono::seconds(10)});
    const std::string name = std::string("plan.gpt2.") + precision + ".50_percent";
    figures.push_back({.name = name + ".nodes", .value = static_cast<double>(problem.size())});
    if (!plan.solution) continue;
    const auto bound = static_cast<double>(*plan.lower_bound);
    const double gap = 100 * (static_cast<double>(plan.solution->evaluation.cost) / bound - 1);
    figures.push_back({.name = name + ".gap", .value = gap, .unit = "%", .required = "<= 1"});
  }
}

// Plans by Checkmate's rounding on training graphs of hundreds of nodes: seconds, and cost over
// computing every node once. Its time limit is the one that the published graphs require.
void add_checkmate(std::vector<Figure>& figures) {
  for (const Published& published : kRounded) {
    const auto path = graph_instances() / "published" / (std::string(published.graph) + ".json");
    if (!std::filesystem::exists(path)) continue;
    const RematProblem problem = remat_problem(read_cost_graph(path.string()));
    PlanResult plan;
    const double seconds = median_seconds(1, [&] {
      plan = plan_checkmate_lp(problem, {.budget = Bytes(published.budget),
                                         .schedule_class = ScheduleClass::kCheckmate,
                                         .time_limit = std::chrono::seconds(30)});
    });
    const std::string prefix =
        std::string("plan.checkmate_lp.") + published.graph + "." + published.share + "_percent";
    figures.push_back(
        {.name = prefix + ".seconds", .value = seconds, .unit = "s", .required = "<= 30"});
    if (plan.status != PlanStatus::kFeasible && plan.status != PlanStatus::kOptimal) continue;
    const double overhead = 100 * (static_cast<double>(plan.solution->evaluation.cost) /
                                       static_cast<double>(problem.base_cost) -
                                   1);
    figures.push_back({.name = prefix + ".overhead", .value = overhead, .unit = "%"});
  }
}

// Plans and simulates four policies under five budgets on ResNet-50, on one thread.
void add_comparison(std::vector<Figure>& figures) {
  const Value document = parse_document(
      "model: resnet50\nhardware: a100-sxm-80gb\n"
      "training: {micro_batch: 32, precision: fp32, optimizer: sgd}\n"
      "compare: {policies: [[], [checkpoint_every: {period: 1}], [chen_greedy], [optimal]], "
      "budgets: [40%, 55%, 70%, 85%, 100%], iterations: 200}\n",
      "bench");
  // Each run gets an environment of its own, so that it finds no plans of the run before.
  const double seconds =
      median_seconds(3, [&] { static_cast<void>(compare(document, default_environment(), 1)); });
  figures.push_back({.name = "compare.resnet50.20_points.seconds", .value = seconds, .unit = "s"});
}

// Simulates points one after the other that differ in nothing that a plan depends on: with one
// cache of plans, and each with a cache of its own. Models are built for each in both.
void add_plan_cache(std::vector<Figure>& figures) {
  constexpr const char* kAllocators[] = {"torch", "bfc", "ideal", "packed"};
  constexpr int kSteps[] = {2, 4};
  const auto seconds_of = [&](bool shares) {
    return median_seconds(1, [&] {
      Environment environment = default_environment();
      for (const char* allocator : kAllocators) {
        for (const int steps : kSteps) {
          if (!shares) environment = default_environment();
          const Value document = parse_document(
              std::string("model: resnet50\nhardware: a100-sxm-80gb\nallocator: ") + allocator +
                  "\ntraining: {micro_batch: 32, precision: fp32, optimizer: sgd, steps: " +
                  std::to_string(steps) +
                  "}\npolicies: [optimal: {budget: 2GiB, iterations: 200}]\n",
              "bench");
          static_cast<void>(
              simulate_points(document, environment, 1, {.smallest_capacity = false}));
        }
      }
    });
  };
  const double shared = seconds_of(true);
  const double own = seconds_of(false);
  figures.push_back({.name = "plan.cache.8_points.seconds", .value = shared, .unit = "s"});
  figures.push_back({.name = "plan.cache.8_points.without", .value = own, .unit = "s"});
  figures.push_back({.name = "plan.cache.8_points.ratio", .value = own / shared});
}

}  // namespace

std::vector<Figure> plan_figures() {
  std::vector<Figure> figures;
  add_comparison(figures);
  add_plan_cache(figures);
  add_gpt2(figures);
  if (!std::filesystem::exists(graph_instances())) return figures;
  add_small(figures);
  add_checkmate(figures);
  for (const Published& published : kPublished) {
    const auto path = graph_instances() / "published" / (std::string(published.graph) + ".json");
    if (!std::filesystem::exists(path)) continue;
    const RematProblem problem = remat_problem(read_cost_graph(path.string()));
    PlanResult plan;
    const double seconds = median_seconds(
        1, [&] { plan = plan_optimal(problem, {.budget = Bytes(published.budget)}); });
    const std::string prefix =
        std::string("plan.") + published.graph + "." + published.share + "_percent";
    figures.push_back({.name = prefix + ".seconds", .value = seconds, .unit = "s"});
    if (!plan.solution) continue;
    const auto bound = static_cast<double>(*plan.lower_bound);
    const double gap = 100 * (static_cast<double>(plan.solution->evaluation.cost) / bound - 1);
    figures.push_back(
        {.name = prefix + ".gap", .value = gap, .unit = "%", .required = published.gap});
  }
  return figures;
}

}  // namespace tidemark::bench
