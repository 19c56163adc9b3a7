#include "cli/commands/compare.hpp"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <span>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/figures.hpp"
#include "cli/output/html_page.hpp"
#include "cli/output/output_folder.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/compare_table.hpp"
#include "cli/text/published.hpp"
#include "cli/text/wording.hpp"
#include "plots/comparison_charts.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/compare_document.hpp"
#include "scenarios/studies/compare_parts.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace compare_detail {
namespace {

constexpr const char* kCompareExamples =
    R"(A scenario says what to compare; budgets are bytes, or shares of the peak without policies:
  compare:
    policies: [[], [checkpoint_every: {period: 1}], [chen_sqrt], [optimal: {}]]
    budgets: [40%, 60%, 40GiB]
A budget is held against the live bytes at the peak of the step. Policies that solve for a budget are
asked for each budget; the others are run once and judged by every budget.

Examples:
  tidemark compare scenario.yaml
  tidemark compare scenario.yaml -o out       report.html, results.json, compare.csv, overhead.svg,
                                              pareto.svg, both also as PDF
  tidemark compare gpt2 --gpu h100 -s training.micro_batch=8 --budget 70% --budget 90%
  tidemark compare gpt2 --gpu h100 -s training.micro_batch=8 --budget 8GiB --policy optimal
  tidemark compare scenario.yaml --budget 70%     the usual policies, and those of the scenario
  tidemark compare scenario.yaml -s compare.budgets='[8GiB, 12GiB]' -s compare.iterations=20000

Exit codes: 0 every point was evaluated; 2 bad input; 3 internal error.)";

ProvenLeast proven_least(const Comparison& comparison) {
  const LeastOverheads found = least_overheads(comparison);
  ProvenLeast least{.schedule_class = found.schedule_class};
  for (const auto& [budget, overhead] : found.by_budget)
    least.by_budget.emplace_back(budget, overhead);
  return least;
}

void add_budget_svg(OutputFolder& output, const Comparison& comparison,
                    const std::string& reproduce) {
  std::vector<BudgetPoint> points;
  for (const ComparePoint& point : comparison.points) {
    if (!point.budget) continue;
    const bool kept = point.result.status == PointStatus::kFits ||
                      point.result.status == PointStatus::kOutOfMemory;
    points.push_back({.policy = policies_label(point),
                      .budget = *point.budget,
                      .overhead = kept ? point.overhead : std::nullopt});
  }
  if (points.empty()) return;
  const ProvenLeast least = proven_least(comparison);
  SvgChart chart = budget_chart(comparison.name, points, least);
  chart.reproduce = reproduce;
  add_chart(output, "overhead", chart);
  write_budget_csv(output.add("overhead.svg.csv"), points, least);
}

void add_tradeoff_svg(OutputFolder& output, const Comparison& comparison,
                      const std::string& reproduce) {
  std::vector<TradeOff> runs;
  std::vector<std::size_t> seen;
  for (const ComparePoint& point : comparison.points) {
    const bool known = std::find(seen.begin(), seen.end(), point.evaluation) != seen.end();
    const bool planned = !point.plan || point.plan->infeasible.empty();
    if (known || !planned || point.result.status == PointStatus::kError) continue;
    seen.push_back(point.evaluation);
    const auto steps = static_cast<double>(point.result.run.step.count());
    // A run that exceeds a budget may still keep a larger one.
    runs.push_back({.name = run_label(comparison, point),
                    .memory = point.result.run.live.bytes,
                    .seconds = comparison.cost_graph ? steps : steps * 1e-9,
                    .fits = point.result.status != PointStatus::kOutOfMemory});
  }
  if (runs.size() < 2) return;
  SvgChart chart = pareto_chart(comparison.name, runs, Bytes(0),
                                comparison.cost_graph ? "cost" : "time of a step");
  chart.x.title = "live bytes at the peak";
  if (comparison.cost_graph) chart.y.unit = AxisUnit::kNumber;
  chart.reproduce = reproduce;
  add_chart(output, "pareto", chart);
  write_pareto_csv(output.add("pareto.svg.csv"), runs,
                   comparison.cost_graph ? "cost" : "seconds_per_step");
}

// The charts of the runs of a comparison, by evaluation; filled from its threads.
class Charts {
 public:
  void add(std::size_t evaluation, const DetailedPoint& point) {
    PointCharts charts = charts_of(point);
    const std::lock_guard lock(mutex_);
    if (evaluation >= charts_.size()) charts_.resize(evaluation + 1);
    charts_[evaluation] = std::move(charts);
  }
  [[nodiscard]] std::span<const PointCharts> all() const { return charts_; }

 private:
  std::mutex mutex_;
  std::vector<PointCharts> charts_;
};

void write_files(const ReportFiles& files, const Comparison& comparison,
                 const std::string& document, const Charts& charts) {
  if (files.folder.empty()) return;
  OutputFolder output(files.folder);
  output.add("results.json") << document;
  write_compare_csv(output.add("compare.csv"), comparison);
  add_budget_svg(output, comparison, files.reproduce);
  add_tradeoff_svg(output, comparison, files.reproduce);
  if (files.wants("html")) {
    HtmlPage(comparison, charts.all(), files.reproduce).write(output.add("report.html"));
  }
  output.commit_replacing();
  say_written(output);
}

// Whether a list has an item that reads like `value`.
bool has_item(const Value* list, const Value& value) {
  if (list == nullptr) return false;
  return std::any_of(list->items.begin(), list->items.end(), [&](const Value& other) {
    return short_setting(other) == short_setting(value);
  });
}

// Returns the values of an option that may be repeated as a list, each once; mistakes in them name
// the option.
Value list_of(const std::vector<std::string>& texts, const std::string& option, bool of_lists) {
  Value list = mapping_value({option, 1, 1});
  list.kind = Value::Kind::kSequence;
  for (const std::string& text : texts) {
    const bool is_list = !of_lists || text.starts_with('[');
    Value value = parse_document(is_list ? text : fmt::format("[{}]", text), option);
    if (!has_item(&list, value)) list.items.push_back(std::move(value));
  }
  return list;
}

// Adds the scenario's own policies to the lists that are compared. Where the file has `chosen` its
// lists, they stay as they are, and a warning says that the scenario's own are not among them.
void add_own(Value& document, bool chosen, const Environment& environment, const Console& console) {
  const Value own = own_policies(document, environment).deciding;
  const Value* compare = document.find("compare");
  const Value* lists = compare == nullptr ? nullptr : compare->find("policies");
  if (own.items.empty() || lists == nullptr || has_item(lists, own)) return;
  if (chosen) {
    print_warning(console, fmt::format("{}, which the scenario lists under policies, is not "
                                       "compared; list it under compare.policies, too",
                                       short_setting(own)));
    return;
  }
  Value more = *lists;
  more.items.push_back(own);
  apply_override(document, {"compare.policies", std::move(more)});
}

// Sets the comparison's budgets and policies that the command line gives. What is given no policies
// at all is compared under the usual ones. Returns whether the file chooses the lists itself.
bool add_options(Value& document, const std::vector<std::string>& budgets,
                 const std::vector<std::string>& policies, bool is_model) {
  const std::vector<std::string> usual{"[]", "checkpoint_every: {period: 1}", "offload_activations",
                                       "chen_greedy", "optimal"};
  const Value* compare = document.find("compare");
  const bool has_policies = compare != nullptr && compare->find("policies") != nullptr;
  if (!policies.empty()) {
    std::vector<std::string> lists{"[]"};
    lists.insert(lists.end(), policies.begin(), policies.end());
    apply_override(document, {"compare.policies", list_of(lists, "--policy", true)});
  } else if (!has_policies && (is_model || !budgets.empty())) {
    apply_override(document, {"compare.policies", list_of(usual, "--policy", true)});
  }
  if (!budgets.empty())
    apply_override(document, {"compare.budgets", list_of(budgets, "--budget", false)});
  return has_policies && policies.empty();
}

// A comparison as it is printed.
struct Compared {
  nlohmann::ordered_json document;
  std::string text;
  int exit_code = kExitFits;
};

std::string text_of(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// Compares, and writes what the document or the command line asks for into `folder`.
Compared run_one(const CompareCommand& command, Value document, const std::string& folder,
                 const Environment& environment, const Console& console) {
  const std::vector<std::string>& budgets = command.budgets;
  const std::vector<std::string>& policies = command.policies;
  const bool chosen = add_options(document, budgets, policies, !command.input.gpu.empty());
  add_own(document, chosen, environment, console);
  static_cast<void>(decode_compare(document, environment));
  std::vector<std::string> options;
  for (const std::string& budget : budgets)
    options.insert(options.end(), {"--budget", budget});
  for (const std::string& policy : policies)
    options.insert(options.end(), {"--policy", policy});
  const ReportFiles files = report_files(comparable(document, environment), folder, environment,
                                         command.input.reproduce(CompareCommand::kName, options));
  const std::string& into = files.folder;
  check_free(into);
  const bool html = !into.empty() && files.wants("html");
  Charts charts;
  Comparison comparison;
  {
    Progress progress(console, "points");
    CompareListener listener{
        .progress = [&](std::size_t done, std::size_t total) { progress.report(done, total); }};
    if (html) {
      listener.detail = [&](std::size_t evaluation,
                            const std::shared_ptr<const DetailedPoint>& point) {
        charts.add(evaluation, *point);
      };
    }
    comparison = compare(document, environment, thread_count(command.threads), listener);
  }
  nlohmann::ordered_json full = compare_document(comparison);
  const std::vector<std::string> published = published_of(std::span(&document, 1));
  if (!published.empty()) full["published"] = published;
  write_files(files, comparison, text_of(full), charts);
  const std::size_t width = console.terminal ? console.width : 0;
  Compared compared{.document = std::move(full),
                    .text = compare_table(comparison, console.colour, width) +
                            wrap_lines(published_text(published, console.colour), width)};
  std::vector<PointResult> results;
  for (const ComparePoint& point : comparison.points)
    results.push_back(point.result);
  if (exit_code(results) == kExitBadInput) compared.exit_code = kExitBadInput;
  return compared;
}

}  // namespace
}  // namespace compare_detail

void CompareCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "policies against memory budgets on one graph");
  app->footer(compare_detail::kCompareExamples);
  input.add_options(*app, false, true);
  app->add_option(
         "-o,--output", folder,
         "write report.html, results.json, compare.csv, overhead.svg and pareto.svg into this "
         "folder")
      ->type_name("DIR");
  app->add_option("--budget", budgets,
                  "a budget of live bytes, 12GiB or 50%; repeatable, instead of compare.budgets")
      ->type_name("SIZE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--policy", policies,
                  "a policy, or a list [A, B] of them, as in YAML; repeatable, instead of "
                  "compare.policies")
      ->type_name("POLICY")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app->add_flag("--json", json, "print the result document and nothing else");
  app->add_option("-j,--threads", threads,
                  "lists of policies that run at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

int CompareCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  if (input.other_gpus.empty()) {
    const compare_detail::Compared compared =
        compare_detail::run_one(*this, document, folder, environment, console);
    print(json ? compare_detail::text_of(compared.document) : compared.text);
    return compared.exit_code;
  }
  // One comparison for each GPU, in a folder of its own.
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string text;
  int code = kExitFits;
  for (const PointDocument& point : point_documents(document)) {
    const std::string gpu = short_setting(point.overrides.front().value);
    const std::string into = folder.empty() ? "" : (std::filesystem::path(folder) / gpu).string();
    compare_detail::Compared compared =
        compare_detail::run_one(*this, point.document, into, environment, console);
    compared.document["gpu"] = gpu;
    all.push_back(std::move(compared.document));
    text += (text.empty() ? "" : "\n") + bold(gpu, console.colour) + "\n" + compared.text;
    code = std::max(code, compared.exit_code);
  }
  print(json ? compare_detail::text_of({{"comparisons", std::move(all)}}) : text);
  return code;
}

}  // namespace tidemark
