// tidemark search: finds the best point of a scenario's sweep under its goal.
#include "scenarios/studies/search/search.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/points_table.hpp"
#include "cli/text/search_words.hpp"
#include "plots/table.hpp"
#include "scenarios/studies/search/search_document.hpp"

namespace tidemark {

void SearchCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName,
                              "the fastest point of a scenario's sweep that keeps to its goal");
  app->footer(R"(A goal names figures of the result document, of policies and of the device:
  goal: {minimize: time.step, subject_to: ["memory.device_used <= 0.95 * hardware.hbm.capacity"]}
  goal: {maximize: throughput.tokens_per_second, subject_to: ["memory.host.peak < 64GiB"]}
  goal: {minimize: [time.per_token, memory.device_used]}   every compromise between them
Without a goal the most samples per second win. What does not fit is never the answer.
Points are not simulated whose kernels or live bytes alone show that they are no answer; a micro-batch
or a sequence that is swept is bisected for the largest that can fit.

Examples:
  tidemark search scenario.yaml
  tidemark search scenario.yaml -s training.sequence=4096 --top 20

Exit codes: 0 a point keeps to the goal; 1 none does; 2 bad input; 3 internal error.)");
  input.add_options(*app, false);
  app->add_option("--top", top, "how many of the best to show")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app->add_flag("--every-point", every_point, "simulate points that cannot be an answer, too");
  app->add_flag("--json", json,
                "print the result document, every point that was simulated, and nothing else");
  app->add_option("-j,--threads", threads, "points that run at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

int SearchCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  SearchResult found;
  {
    Progress progress(console, "points");
    found = search(
        document, environment, thread_count(threads),
        // The table does not show what would be the smallest device for a step that fits.
        {.simulation = {.smallest_capacity_of_fitting = json,
                        .convergence_limit = kConvergenceLimit},
         .every_point = every_point,
         .answers = top},
        {.progress = [&](std::size_t done, std::size_t total) { progress.report(done, total); },
         .finished = {}});
  }
  if (json) {
    print(json_text(search_document(found)) + '\n');
  } else {
    const std::size_t width = console.terminal ? console.width : 0;
    std::vector<PointResult> best;
    const std::vector<std::size_t>& answers =
        found.goal.objectives.size() > 1 ? found.front : found.ranking;
    for (std::size_t i = 0; i < std::min<std::size_t>(top, answers.size()); ++i)
      best.push_back(found.points[answers[i]].result);
    if (best.empty()) {  // the reasons follow
      for (std::size_t i = 0; i < std::min<std::size_t>(top, found.points.size()); ++i)
        best.push_back(found.points[i].result);
    }
    const std::string table =
        best.empty() ? "" : points_table(best, console.colour, width, TableEnd::kNone);
    const std::string close = close_runs(std::count_if(
        best.begin(), best.end(), [](const PointResult& point) { return is_close(point); }));
    print(table + (close.empty() ? "" : wrap_lines('\n' + close + '\n', width)) +
          wrap_lines(verdict_of(found, top, console.colour), width));
  }
  return found.ranking.empty() ? kExitDoesNotFit : kExitFits;
}

}  // namespace tidemark
