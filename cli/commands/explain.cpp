// tidemark explain: shows every byte of the peak.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/advice.hpp"
#include "cli/text/explanation.hpp"
#include "scenarios/studies/more_gpus.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace explain_detail {
namespace {

std::string in_words(const DetailedPoint& point, const std::optional<MoreGpus>& more_gpus,
                     const Environment& environment, const ExplainCommand& command,
                     const Console& console) {
  std::string text = explanation(point, {.top = command.top,
                                         .all = command.all,
                                         .colour = console.colour,
                                         .width = console.terminal ? console.width : 0,
                                         .more_gpus = more_gpus});
  if (point.result.status != PointStatus::kFits)
    text += '\n' + explain_failure(point.result, environment, console.colour, console.width);
  return text;
}

}  // namespace
}  // namespace explain_detail

void ExplainCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "show every term of a scenario's peak");
  app->footer(R"(Examples:
  tidemark explain scenario.yaml
  tidemark explain gpt2 --gpu a100-sxm-80gb --top 50
  tidemark explain scenario.yaml -s training.micro_batch=8    one point of a sweep: set its keys)");
  input.add_options(*app, false, true);
  app->add_flag("--json", json, "print the result document with all tensors and layers");
  app->add_option("--top", top, "tensors and layers to list")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app->add_flag("--all", all, "list every tensor and every layer");
}

int ExplainCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  // Only the base of a sweep is explained; keys of a point are given with -s. Several GPUs are
  // explained one after the other.
  std::vector<Value> bases{without_sweep(document)};
  if (!input.other_gpus.empty()) {
    bases.clear();
    for (const PointDocument& point : point_documents(document))
      bases.push_back(point.document);
  } else if (sweep_points(document).size() > 1) {
    print_warning(console,
                  "this scenario has a sweep; its base is explained, without the sweep's changes "
                  "(choose a point with -s KEY=VALUE)");
  }
  std::vector<PointResult> results;
  nlohmann::ordered_json documents;
  std::string text;
  for (const Value& base : bases) {
    const DetailedPoint point =
        simulate_in_detail(base, 0, environment,
                           {.convergence_limit = kConvergenceLimit,
                            .suggestions = true,
                            .largest_tensors = static_cast<std::size_t>(-1)});
    const std::optional<MoreGpus> more_gpus = on_twice_the_gpus(point, environment);
    if (json) {
      nlohmann::ordered_json one = explanation_json(point, more_gpus);
      if (documents.is_null()) {
        documents = std::move(one);
      } else {
        documents["points"].push_back(std::move(one["points"][0]));
      }
    } else {
      text += (text.empty() ? "" : "\n") +
              explain_detail::in_words(point, more_gpus, environment, *this, console);
    }
    for (const std::string& warning : point.result.warnings)
      print_warning(console, warning);
    results.push_back(point.result);
  }
  print(json ? documents.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n'
             : text);
  return exit_code(results);
}

}  // namespace tidemark
