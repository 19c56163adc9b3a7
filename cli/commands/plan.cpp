#include "cli/commands/plan.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/option_values.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/import/cost_graph.hpp"
#include "policies/plan_policies.hpp"
#include "policies/solver/plan_policy.hpp"
#include "policies/solver/plan_request.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/short_form.hpp"
#include "sim/step/compile.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace plan_detail {
namespace {

// Says what is wrong with a number that may be 0; empty where nothing is.
std::string count_fault(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) return fmt::format("expected an integer of at least 0, found {}", text);
  std::int64_t count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  return read.ec == std::errc() ? std::string() : fmt::format("{} is too large", text);
}

std::string class_choice() {
  std::vector<std::string_view> names;
  for (const ScheduleClass schedule_class : kScheduleClasses)
    names.emplace_back(name_of(schedule_class));
  return choice_type(names);
}

ScheduleClass parse_class(const std::string& text) {
  std::vector<std::string> names;
  for (const ScheduleClass schedule_class : kScheduleClasses) {
    if (text == name_of(schedule_class)) return schedule_class;
    names.emplace_back(name_of(schedule_class));
  }
  std::string hint = did_you_mean(text, names);
  if (hint.empty()) hint = fmt::format("; choose from {}", fmt::join(names, ", "));
  throw UserError(
      fmt::format("--class: there is no class {}{}", tidemark::quoted_excerpt(text), hint));
}

// Parses "optimal", or as in a scenario: "checkpoint_every: {period: 2}". Parameters of the request
// take precedence over the options.
PlanFunction parse_policy(const std::string& text, std::string& name, PlanRequest& request) {
  const Value document = parse_document(text, "--policy");
  const bool bare = document.is_scalar();
  if (!bare && (!document.is_mapping() || document.entries.size() != 1)) {
    throw UserError("--policy: expected a name, or 'name: {parameter: value}'");
  }
  name = bare ? document.scalar : document.entries.front().key;
  const PlanPolicy* policy = find_plan_policy(name);
  if (policy == nullptr) {
    std::vector<std::string> names;
    for (const PlanPolicy& known : plan_policies())
      names.emplace_back(known.name);
    throw UserError(fmt::format("--policy: there is no policy {} for cost graphs{}\npolicies: {}",
                                tidemark::quoted_excerpt(name), did_you_mean(name, names),
                                fmt::join(names, ", ")));
  }
  const Decoder parameters = bare ? Decoder() : Decoder(document.entries.front().value, name);
  PlanFunction plan = policy->decode(parameters);
  request = decode_request(parameters, *policy, request);
  parameters.finish();
  return plan;
}

std::string policy_lines() {
  std::string text = "Policies:\n";
  for (const PlanPolicy& policy : plan_policies())
    text += fmt::format("  {:<18}  {}\n", policy.name, policy.summary);
  return text;
}

struct Planned {
  CostGraph costs;
  bool timed = false;  // costs are nanoseconds of a step; else the graph's own units
};

// Returns the graph of a file with nodes, or one micro-batch of a scenario's or a model's step.
Planned planned_graph(const ScenarioInput& input, const Console& console) {
  const std::string& name = input.names.front();
  const bool piped = is_open_file_of_process(name);
  if (input.gpu.empty() && is_file(name) && (name.ends_with(".json") || piped) &&
      !is_onnx_file(name)) {
    const Value document = read_document(name);
    // The decoder names the place of what a graph lacks; for another kind of file the error says
    // that it is one.
    if (document.find("nodes") != nullptr || document.find("fixed_bytes") != nullptr) {
      return {.costs = decode_cost_graph(Decoder(document))};
    }
    if (!piped) {
      throw UserError(fmt::format(
          "{} is no cost graph: it has no nodes and no fixed_bytes; for a model, add --gpu NAME",
          name));
    }
  }
  const Scenario scenario = input.first_point(input.environment(console));
  if (!scenario.turns.empty()) {
    throw UserError(
        {}, "training.turns",
        "a plan is about one loss and its backward: plan the model of a turn by itself");
  }
  return {.costs = cost_graph_of(scenario, build_training(scenario).training),
          .timed = static_cast<bool>(scenario.source.forward)};
}

// Parses bytes, or a share of what computing every node once takes.
Bytes parse_budget(const std::string& text, const RematProblem& problem) {
  if (!text.ends_with('%')) return parse_option("budget", text, parse_bytes);
  const std::string number = text.substr(0, text.size() - 1);
  const double percent = parse_option("budget", number, [&](const std::string& share) {
    double value = 0;
    const auto read = std::from_chars(share.data(), share.data() + share.size(), value);
    if (read.ec != std::errc() || read.ptr != share.data() + share.size() || !(value > 0) ||
        value > 100) {
      throw std::invalid_argument(
          fmt::format("expected bytes, or a share above 0 % and up to 100 %, found {}", text));
    }
    return value;
  });
  Schedule once(problem.size());
  std::iota(once.begin(), once.end(), NodeIndex{0});
  return Bytes(std::llround(static_cast<double>(evaluate(problem, once).peak) * percent / 100));
}

struct Answer {
  const CostGraph& graph;
  const RematProblem& problem;
  const PlanRequest& request;
  const PlanResult& result;
  std::string policy;
  double seconds;
  bool timed;  // as Planned::timed
};

nlohmann::ordered_json document_of(const Answer& a) {
  nlohmann::ordered_json document{{"tidemark", kVersion},
                                  {"status", name_of(a.result.status)},
                                  {"policy", a.policy},
                                  {"class", name_of(a.request.schedule_class)},
                                  {"cost", nullptr},
                                  {"lower_bound", nullptr},
                                  {"base_cost", a.problem.base_cost},
                                  {"peak", nullptr},
                                  {"budget", a.request.budget.count},
                                  {"solve_seconds", a.seconds},
                                  {"order", nullptr}};
  if (a.result.lower_bound) document["lower_bound"] = *a.result.lower_bound;
  if (a.result.solution) {
    document["cost"] = a.result.solution->evaluation.cost;
    document["peak"] = a.result.solution->evaluation.peak;
    document["order"] = a.result.solution->schedule;
  }
  if (!a.result.reason.empty()) document["reason"] = a.result.reason;
  if (!a.result.note.empty()) document["note"] = a.result.note;
  return document;
}

std::string percent_over(std::int64_t cost, std::int64_t base) {
  if (base == 0) return {};
  const double share = static_cast<double>(cost - base) / static_cast<double>(base);
  return fmt::format(", {:.3f} % over computing every node once", 100 * share);
}

std::string cost_text(const Answer& a, std::int64_t cost) {
  return a.timed ? format_duration(Duration(cost)) : grouped(cost);
}

// Lists what is recomputed, layer by layer; all other values are kept until their last use.
std::string recomputed(const CostGraph& graph, const Schedule& schedule) {
  constexpr std::size_t kShown = 40;  // layers, and values of each
  std::vector<std::string> layers;
  std::map<std::string, std::vector<std::string>> nodes;  // by layer
  std::vector<char> computed(graph.nodes.size(), 0);
  for (const NodeIndex node : schedule) {
    if (std::exchange(computed[node], 1) == 0) continue;
    const CostNode& made = graph.nodes[CostNodeId(node)];
    if (made.operator_kind.empty()) continue;
    const std::string prefix = made.layer + ": ";
    std::vector<std::string>& list = nodes[made.layer];
    if (list.empty()) layers.push_back(made.layer);
    list.push_back(made.name.starts_with(prefix) ? made.name.substr(prefix.size()) : made.name);
  }
  std::string text;
  bool all = layers.size() <= kShown;
  for (std::size_t i = 0; i < std::min(layers.size(), kShown); ++i) {
    const std::string& layer = layers[i];
    std::vector<std::string>& list = nodes[layer];
    if (list.size() > kShown) {
      const std::size_t more = list.size() - (kShown - 1);
      list.resize(kShown - 1);
      list.push_back(fmt::format("and {} more", grouped(static_cast<std::int64_t>(more))));
      all = false;
    }
    text += fmt::format("  {:<11}  {}{}{}\n", i == 0 ? "recomputes" : "", layer,
                        layer.empty() ? "" : ": ", fmt::join(list, ", "));
  }
  if (layers.size() > kShown)
    text += fmt::format("               and in {} more layers\n", layers.size() - kShown);
  if (!all) text += "               --json has the whole order\n";
  return text;
}

std::string summary(const Answer& a, const std::string& name) {
  const PlanResult& r = a.result;
  std::string text =
      fmt::format("{}: {} nodes, class {}, solved in {:.2f} s\n", name, grouped(a.problem.size()),
                  name_of(a.request.schedule_class), a.seconds);
  text += fmt::format("  status       {}\n", name_of(r.status));
  for (const std::string& line : {r.reason, r.note}) {
    if (!line.empty()) text += fmt::format("               {}\n", line);
  }
  if (r.solution) {
    const Evaluation& evaluation = r.solution->evaluation;
    text += fmt::format("  cost         {}{}\n", cost_text(a, evaluation.cost),
                        percent_over(evaluation.cost, a.problem.base_cost));
    text += fmt::format("  repeats      {}\n",
                        grouped(static_cast<std::int64_t>(r.solution->schedule.size()) -
                                static_cast<std::int64_t>(a.problem.size())));
    text += fmt::format("  peak         {} bytes ({})\n", grouped(evaluation.peak),
                        format_bytes(Bytes(evaluation.peak)));
  }
  text += fmt::format("  budget       {} bytes ({})\n", grouped(a.request.budget.count),
                      format_bytes(a.request.budget));
  if (r.lower_bound) {
    text += fmt::format("  lower bound  {}", cost_text(a, *r.lower_bound));
    if (r.solution && r.solution->evaluation.peak <= a.request.budget.count && *r.lower_bound > 0) {
      const auto bound = static_cast<double>(*r.lower_bound);
      text += fmt::format("; gap {:.3f} %",
                          100 * (static_cast<double>(r.solution->evaluation.cost) - bound) / bound);
    }
    text += '\n';
  }
  return r.solution ? text + recomputed(a.graph, r.solution->schedule) : text;
}

}  // namespace
}  // namespace plan_detail

void PlanCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "which values of a step to keep, which to recompute");
  app->footer(plan_detail::policy_lines() + R"(
SCENARIO may be a cost graph: {"name", "fixed_bytes", "nodes": [{"id", "name", "kind", "cost", "bytes",
"workspace", "deps"}]}; policies that choose by kind go by "layer" and "operator" of a node, where they
are missing by its name, "LAYER: OPERATOR". Of a scenario or a model, one micro-batch is planned for, as `tidemark graph
--cost-graph` writes it; the scenario's own policies are left out. The budget includes fixed_bytes. The
time limit is wall-clock time and ends the search; what is returned is always evaluated, with what is
proven about it.

Examples:
  tidemark plan graph.json --policy optimal --budget 40GiB
  tidemark plan graph.json --policy "checkpoint_every: {period: 2}" --budget 40GiB
  tidemark plan graph.json --policy optimal --class unrestricted --budget 200 --time-limit 30s --json
  tidemark plan resnet50 --gpu a100-sxm-80gb -s training.micro_batch=32 --budget 60%)");
  input.add_options(*app, false);
  app->add_option("--policy", policy, "how to choose")->capture_default_str();
  app->add_option(
         "--budget", budget,
         "the most bytes that may be resident, or as 60% of what computing every node once "
         "takes")
      ->required()
      ->type_name("BYTES|%");
  app->add_option("--class", schedule_class, "which schedules may be chosen")
      ->type_name(plan_detail::class_choice())
      ->capture_default_str();
  app->add_option("--time-limit", time_limit, "for solving")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--iterations", iterations,
                  "of the search, in place of a time limit: the same plan everywhere")
      ->check(&plan_detail::count_fault);
  app->add_option("--seed", seed, "of the search's random choices")
      ->check(&plan_detail::count_fault)
      ->capture_default_str();
  app->add_flag("--json", json, "for scripts");
}

int PlanCommand::execute(const Console& console) const {
  PlanRequest request{
      .schedule_class = plan_detail::parse_class(schedule_class),
      .time_limit = std::min<Duration>(parse_option("time-limit", time_limit, parse_duration),
                                       std::chrono::hours(24 * 365)),
      .iterations = iterations,
      .seed = seed};
  if (iterations > 0 && app->get_option("--time-limit")->empty())
    request.time_limit = std::chrono::hours(24 * 365);
  std::string policy_name;
  const PlanFunction solve_with = plan_detail::parse_policy(policy, policy_name, request);
  const plan_detail::Planned planned = plan_detail::planned_graph(input, console);
  const RematProblem problem = remat_problem(planned.costs);
  const Bytes asked = plan_detail::parse_budget(budget, problem);
  if (const std::string fault = planned.timed ? forgotten_unit(asked) : ""; !fault.empty())
    throw UserError(fmt::format("--budget: {}", fault));
  if (request.budget == Bytes(0)) request.budget = asked;
  const auto begin = std::chrono::steady_clock::now();
  const PlanResult result = [&] {
    const Waiting waiting(console, "solving", request.time_limit);
    return solve_with(problem, request);
  }();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const plan_detail::Answer answer{planned.costs, problem,         request,      result,
                                   policy_name,   seconds.count(), planned.timed};
  print(json ? json_text(plan_detail::document_of(answer), -1) + '\n'
             : plan_detail::summary(answer, planned.costs.name));
  return has_schedule(result.status) ? kExitFits : kExitDoesNotFit;
}

}  // namespace tidemark
