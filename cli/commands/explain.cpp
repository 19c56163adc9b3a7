// tidemark explain: shows every byte of the peak.
#include <span>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/advice.hpp"
#include "cli/text/explanation.hpp"

namespace tidemark {

void ExplainCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "show every term of a scenario's peak");
  app->footer(R"(Examples:
  tidemark explain scenario.yaml
  tidemark explain gpt2 --gpu a100-sxm-80gb --top 50
  tidemark explain scenario.yaml -s training.micro_batch=8    one point of a sweep: set its keys)");
  input.add_options(*app, false);
  app->add_flag("--json", json, "print the result document with all tensors and layers");
  app->add_option("--top", top, "tensors and layers to list")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app->add_flag("--all", all, "list every tensor and every layer");
}

int ExplainCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  Value document = input.load().front();
  if (sweep_points(document).size() > 1) {
    print_warning(console,
                  "this scenario has a sweep; its base is explained, without the sweep's changes "
                  "(choose a point with -s KEY=VALUE)");
  }
  // Only the base is explained; keys of a point are given with -s.
  document = without_sweep(std::move(document));
  const DetailedPoint point = simulate_in_detail(document, 0, environment,
                                                 {.convergence_limit = kConvergenceLimit,
                                                  .suggestions = true,
                                                  .largest_tensors = static_cast<std::size_t>(-1)});
  if (json) {
    print(explanation_json(point));
  } else {
    std::string text = explanation(point, {.top = top,
                                           .all = all,
                                           .colour = console.colour,
                                           .width = console.terminal ? console.width : 0});
    if (point.result.status != PointStatus::kFits) {
      text += '\n' + explain_failure(point.result, environment, console.colour, console.width);
    }
    print(text);
  }
  return exit_code(std::span(&point.result, 1));
}

}  // namespace tidemark
