// tidemark fit: finds the largest value of a key with which a scenario fits.
#include "scenarios/studies/fit.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/output_folder.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/advice.hpp"
#include "cli/text/fit_table.hpp"
#include "cli/text/points_table.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/words.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/elastic/finder_study.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace fit_detail {
namespace {

// Returns the rows that show how memory grows: the doublings that fit, the answer, the next.
std::vector<PointResult> shown_points(const Fit& found, std::int64_t step) {
  std::vector<PointResult> points;
  std::int64_t doubled = step;
  for (std::size_t i = 0; i < found.tried.size(); ++i) {
    const FitPoint& point = found.tried[i];
    const bool doubling = point.value == doubled;
    if (doubling) doubled *= 2;
    const bool below = found.largest && i <= *found.largest;
    if ((doubling && below) || i == found.largest || i == found.next)
      points.push_back(point.result);
  }
  return points;
}

std::string verdict(const Fit& found, const FitOptions& options, const Console& console) {
  std::string text = "\n";
  const FitPoint& best = found.tried[*found.largest];
  text += fmt::format("{} {} is the largest that fits: {} of {} ({}), {} a step", options.key,
                      bold(fmt::to_string(best.value), console.colour),
                      format_bytes(best.result.device_needed()), format_bytes(best.result.capacity),
                      share_of(best.result.device_needed(), best.result.capacity),
                      format_duration(best.result.run.step));
  if (!found.next) {
    text += fmt::format(".\nThat is where the search ends (--limit {}); larger ones may fit.\n",
                        options.limit);
    const auto live = [](const FitPoint& point) { return point.result.run.live.bytes.count; };
    if (std::all_of(found.tried.begin(), found.tried.end(),
                    [&](const FitPoint& point) { return live(point) == live(best); })) {
      text += fmt::format("{} does not change the peak: it is the same with every value tried.\n",
                          options.key);
    }
    return text;
  }
  const FitPoint& next = found.tried[*found.next];
  if (next.result.status == PointStatus::kError) {
    return text + fmt::format(
                      ".\n{} cannot be built: {}.\nThe search ends there; larger ones that "
                      "can be built may fit.\n",
                      next.value, reason_of(next.result));
  }
  text += fmt::format(".\n{} does not: {}.\n", next.value, reason_of(next.result));
  if (found.excluded_from && *found.excluded_from > next.value) {
    text += fmt::format("From {} on the live bytes alone are too many", *found.excluded_from);
    text += found.untried == 0
                ? "; all between were tried.\n"
                : fmt::format("; of those between, {} were not tried.\n", found.untried);
  }
  return text;
}

const BatchFinder& finder_named(const std::string& name) {
  std::vector<std::string> names;
  for (const BatchFinder& finder : batch_finders()) {
    if (finder.name == name) return finder;
    names.emplace_back(finder.name);
  }
  const std::string hint = did_you_mean(name, names);
  throw UserError(
      fmt::format("--finder: there is no finder {}{}", tidemark::quoted_excerpt(name),
                  hint.empty() ? fmt::format("; finders: {}", fmt::join(names, ", ")) : hint));
}

std::string finder_choice() {
  std::vector<std::string_view> names;
  for (const BatchFinder& finder : batch_finders())
    names.push_back(finder.name);
  return choice_type(names);
}

// Returns the finder as the command line has it.
BatchFinder chosen_finder(const FitCommand& command) {
  BatchFinder finder = finder_named(command.finder);
  if (command.finder_start > 0) finder.first = command.finder_start;
  if (command.finder_margin >= 0) {
    if (finder.rule != FinderRule::kBinsearch) {
      throw UserError(
          fmt::format("--finder-margin: {} has no margin; lightning_binsearch has", finder.name));
    }
    finder.margin_percent = command.finder_margin;
  }
  return finder;
}

// Says what the finder tries and returns, beside the largest value that fits.
std::string finder_verdict(const FinderStudy& study, const FitOptions& options, bool colour) {
  std::string text = fmt::format(
      "{} tries {} {}, {} of steps:", bold(study.finder.name, colour), study.trials.size(),
      study.trials.size() == 1 ? "batch" : "batches", format_duration(study.time));
  for (const FinderTrial& trial : study.trials)
    text += fmt::format(" {}{}", trial.batch, trial.went_through ? "" : " (fails)");
  text += '\n';
  if (!study.fits) return text + "It gives up.\n";
  text += fmt::format("It returns {} = {}", options.key, bold(fmt::to_string(study.found), colour));
  return text + (*study.fits ? ".\n" : ", which does not fit.\n");
}

nlohmann::ordered_json finder_json(const FinderStudy& study) {
  nlohmann::ordered_json trials = nlohmann::ordered_json::array();
  for (const FinderTrial& trial : study.trials) {
    trials.push_back({{"value", trial.batch},
                      {"fits", trial.went_through},
                      {"time", seconds(trial.time)},
                      {"reason", trial.went_through ? nlohmann::ordered_json(nullptr)
                                                    : nlohmann::ordered_json(trial.reason)}});
  }
  return {{"name", study.finder.name},
          {"source", study.finder.source},
          {"first", study.finder.first},
          {"trials", std::move(trials)},
          {"found", study.fits ? nlohmann::ordered_json(study.found) : nullptr},
          {"fits", study.fits ? nlohmann::ordered_json(*study.fits) : nullptr},
          {"time", seconds(study.time)}};
}

nlohmann::ordered_json fit_json(const Fit& found, const FitOptions& options) {
  const auto value_at = [&](std::optional<std::size_t> index) {
    return index ? nlohmann::ordered_json(found.tried[*index].value)
                 : nlohmann::ordered_json(nullptr);
  };
  return {{"key", options.key},
          {"largest", value_at(found.largest)},
          {"next", value_at(found.next)},
          {"reason", found.next ? nlohmann::ordered_json(reason_of(found.tried[*found.next].result))
                                : nlohmann::ordered_json(nullptr)},
          {"excluded_from", found.excluded_from ? nlohmann::ordered_json(*found.excluded_from)
                                                : nlohmann::ordered_json(nullptr)},
          {"untried", found.untried}};
}

std::string text_of(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string document_of(const Fit& found, const FitOptions& options,
                        const std::optional<FinderStudy>& study) {
  std::vector<PointResult> points;
  for (const FitPoint& point : found.tried)
    points.push_back(point.result);
  nlohmann::ordered_json document = result_document(points);
  document["fit"] = fit_json(found, options);
  if (study) document["fit"]["finder"] = finder_json(*study);
  return text_of(document);
}

// Returns of each point of a sweep the largest value that fits, else the smallest one.
std::vector<PointResult> answers_of(std::span<const PointFit> fits) {
  std::vector<PointResult> points;
  for (const PointFit& row : fits) {
    if (row.error.empty()) {
      points.push_back(row.fit.tried[row.fit.largest.value_or(0)].result);
      continue;
    }
    PointResult& failed = points.emplace_back();
    failed.overrides = row.overrides;
    failed.status = PointStatus::kError;
    failed.error = row.error;
  }
  return points;
}

std::string document_of(std::span<const PointFit> fits, const FitOptions& options) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PointFit& row : fits) {
    if (row.error.empty()) {
      rows.push_back(fit_json(row.fit, options));
    } else {
      rows.push_back({{"key", options.key}, {"largest", nullptr}, {"error", row.error}});
    }
  }
  nlohmann::ordered_json document = result_document(answers_of(fits));
  document["fits"] = std::move(rows);
  return text_of(document);
}

// Writes results.json and the pictures into the command's folder.
void write_files(const FitCommand& command, const std::string& results,
                 std::span<const PointResult> answers, std::span<const PlotRequest> requests) {
  std::vector<std::string> words;
  if (command.key != FitCommand().key) words = {"--maximize", command.key};
  if (command.multiple_of > 1)
    words.insert(words.end(), {"--multiple-of", fmt::to_string(command.multiple_of)});
  if (command.limit != FitCommand().limit)
    words.insert(words.end(), {"--limit", fmt::to_string(command.limit)});
  const std::vector<std::string> plots = command.plots.words();
  words.insert(words.end(), plots.begin(), plots.end());
  OutputFolder output(command.folder);
  output.add("results.json") << results;
  add_plots(output, requests, answers, command.input.reproduce(FitCommand::kName, words));
  output.commit_replacing();
  say_written(output);
}

// Finds the largest value for each point of a sweep.
int fit_sweep(const Value& document, const Environment& environment, const FitOptions& options,
              const FitCommand& command, const Console& console) {
  if (!command.finder.empty()) {
    throw UserError(
        "--finder: a library's finder is tried on one scenario; leave the sweep out with "
        "-s sweep=null");
  }
  const std::vector<PlotRequest> requests =
      parse_plots(command.plots.texts, std::span(&document, 1), command.folder, options.key);
  std::vector<PointFit> fits;
  {
    const Waiting waiting(console, "searching", std::chrono::nanoseconds(0));
    fits = fit_points(document, environment, options);
  }
  std::string results;
  if (command.json || !command.folder.empty()) results = document_of(fits, options);
  if (!command.folder.empty()) write_files(command, results, answers_of(fits), requests);
  print(command.json
            ? results
            : fit_table(fits, options, console.colour, console.terminal ? console.width : 0));
  const bool some = std::any_of(fits.begin(), fits.end(),
                                [](const PointFit& row) { return row.fit.largest.has_value(); });
  const bool built =
      std::any_of(fits.begin(), fits.end(), [](const PointFit& row) { return row.error.empty(); });
  return some ? kExitFits : built ? kExitDoesNotFit : kExitBadInput;
}

}  // namespace
}  // namespace fit_detail

void FitCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "the largest batch, or other number, with which it fits");
  app->footer(R"(Every value is simulated, none is extrapolated.

Examples:
  tidemark fit gpt2-xl --gpu a100-sxm-80gb
  tidemark fit gpt2-xl --gpu v100-sxm-32gb --gpu a100-sxm-80gb     one row for each
  tidemark fit sweep.yaml                                          likewise for each point
  tidemark fit sweep.yaml -o out --plot x=hardware,by=policies     draw what each point holds
  tidemark fit scenario.yaml --maximize training.sequence --multiple-of 128
  tidemark fit scenario.yaml --maximize model.layers --limit 200
  tidemark fit scenario.yaml --finder lightning_binsearch    what that finder would try and return

Exit codes: 0 some value fits; 1 none does; 2 bad input; 3 internal error.)");
  input.add_options(*app, false, true);
  app->add_option("-o,--output", folder,
                  "write results.json and the pictures of --plot into this folder")
      ->type_name("DIR");
  plots.attach(*app, true);
  app->add_option("--maximize", key, "any key of the scenario that is an integer")
      ->type_name("KEY")
      ->capture_default_str();
  app->add_option("--multiple-of", multiple_of, "only such values, from the first on")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--limit", limit, "the largest value that is tried")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str();
  app->add_option(
         "--finder", finder,
         "also run a library's batch-size finder; accelerate_halving is Accelerate's before "
         "1.0")
      ->type_name(fit_detail::finder_choice());
  app->add_option("--finder-start", finder_start, "its first batch (default: the library's)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->type_name("N");
  app->add_option("--finder-margin", finder_margin,
                  "lightning_binsearch: percent taken off what it finds (default: 5)")
      ->check(CLI::Range(0, 99))
      ->type_name("N");
  app->add_option("-j,--threads", threads,
                  "points of a sweep, or the last two searches for a plan, that run at the same "
                  "time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_flag("--json", json, "print the result document, every value tried, and nothing else");
}

int FitCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  if (limit < multiple_of) {
    throw UserError(
        fmt::format("--limit: {} is below the first value, --multiple-of {}", limit, multiple_of));
  }
  FitOptions options{.key = key,
                     .multiple_of = multiple_of,
                     .limit = limit,
                     .simulate = {.convergence_limit = kConvergenceLimit, .suggestions = true},
                     .threads = thread_count(threads)};
  check_writable(folder);
  if (sweep_points(document).size() > 1)
    return fit_detail::fit_sweep(document, environment, options, *this, console);
  // One point has no sweep.
  static_cast<void>(parse_plots(plots.texts, std::span(&document, 1), folder, key));
  std::optional<BatchFinder> of_library;
  if (!finder.empty()) of_library = fit_detail::chosen_finder(*this);
  Fit found;
  std::optional<FinderStudy> study;
  {
    const Waiting waiting(console, "searching", std::chrono::nanoseconds(0));
    found = fit(document, environment, options);
    if (of_library) study = study_finder(document, environment, options, *of_library);
  }
  std::string results;
  if (json || !folder.empty()) results = fit_detail::document_of(found, options, study);
  if (!folder.empty()) fit_detail::write_files(*this, results, {}, {});
  if (json) {
    print(results);
  } else {
    const std::size_t width = console.terminal ? console.width : 0;
    const std::vector<PointResult> points = fit_detail::shown_points(found, multiple_of);
    std::string text = points.empty() ? std::string() : points_table(points, console.colour, width);
    text += found.largest ? wrap_lines(fit_detail::verdict(found, options, console), width)
                          : '\n' + explain_failure(found.tried.front().result, environment,
                                                   console.colour, console.width);
    if (study) {
      text += '\n' + wrap_lines(fit_detail::finder_verdict(*study, options, console.colour), width);
    }
    print(text);
  }
  return found.largest ? kExitFits : kExitDoesNotFit;
}

}  // namespace tidemark
