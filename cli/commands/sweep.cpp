// tidemark sweep: simulates every point of a scenario's sweep into a folder, in pieces where it is
// long.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/command.hpp"
#include "cli/output/interruption.hpp"
#include "cli/output/reports.hpp"
#include "cli/output/results_sqlite.hpp"
#include "cli/text/points_table.hpp"
#include "cli/text/published.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "plots/report/html_report.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/journal/sweep_journal.hpp"
#include "scenarios/studies/journal/sweep_lock.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace sweep_detail {
namespace {

// Returns a number of a Slurm array.
std::int64_t slurm_number(const char* name, std::int64_t otherwise) {
  const std::string text = environment_variable(name);
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  if (read.ec == std::errc() && read.ptr == end && value >= 0 && value < kMost) return value;
  throw UserError(fmt::format("{}: expected a number, found {}; choose the points with --shard I/N",
                              name, tidemark::quoted_excerpt(text)));
}

// Returns the shard of a task of a Slurm array, "3/8"; empty outside of one. The task knows only
// the first and the last id of its array and their number: ids are taken to be evenly spaced. Where
// they are not, no two tasks take the same shard, and those that cannot know theirs say so.
std::string slurm_shard() {
  const std::string task = environment_variable("SLURM_ARRAY_TASK_ID");
  const std::string tasks = environment_variable("SLURM_ARRAY_TASK_COUNT");
  if (task.empty() || tasks.empty()) return {};
  const std::int64_t id = slurm_number("SLURM_ARRAY_TASK_ID", 0);
  const std::int64_t count = slurm_number("SLURM_ARRAY_TASK_COUNT", 1);
  const std::int64_t first = slurm_number("SLURM_ARRAY_TASK_MIN", 0);
  std::int64_t step = std::max<std::int64_t>(slurm_number("SLURM_ARRAY_TASK_STEP", 1), 1);
  const std::int64_t last =
      slurm_number("SLURM_ARRAY_TASK_MAX", first + step * std::max<std::int64_t>(count - 1, 0));
  // Slurm gives a step of 1 for a list of ids, as in --array=1,4,7.
  const std::int64_t steps = count - 1;
  const bool even = steps > 0 ? last > first && (last - first) % steps == 0 : last == first;
  if (even && steps > 0) step = (last - first) / steps;
  const std::int64_t index = (id - first) / step;
  if (even && id >= first && (id - first) % step == 0 && index < count)
    return fmt::format("{}/{}", index, count);
  throw UserError(fmt::format(
      "SLURM_ARRAY_TASK_ID is {}, one of {} ids from {} to {} that are not evenly spaced, so the "
      "task cannot know which shard is its own; write sbatch --array=0-{}, or give each task its "
      "shard: --shard I/{} with I from 0 to {}",
      id, count, first, last, std::max<std::int64_t>(steps, 0), count, steps));
}

Shard shard_of(std::string text) {
  if (text.empty()) {
    text = slurm_shard();
    if (text.empty()) return {};
    print_note(fmt::format("shard {}, as the Slurm array has it (--shard 0/1: all points)", text));
  }
  try {
    return parse_shard(text);
  } catch (const std::invalid_argument& error) {
    throw UserError(fmt::format("--shard: {}", error.what()));
  }
}

int show(std::span<const PointResult> points, const std::vector<std::string>& published, bool json,
         const Console& console) {
  const std::size_t width = console.terminal ? console.width : 0;
  if (json) {
    write_document(print, points, published);
  } else {
    print(points_table(points, console.colour, width) +
          wrap_lines(published_text(published, console.colour), width));
  }
  return exit_code(points) == kExitDoesNotFit ? kExitFits : exit_code(points);
}

// The points of a sweep are many, so that they are put into a database, too.
ReportFiles sweep_files(std::string folder, std::string reproduce) {
  ReportFiles files = default_report_files(std::move(folder), std::move(reproduce));
  if (has_sqlite()) files.formats.emplace_back("sqlite");
  return files;
}

int merge_shards(const SweepCommand& command, const Console& console) {
  const std::vector<std::string>& names = command.input.names;
  if (!names.empty() || !command.folder.empty()) {
    throw UserError(
        fmt::format("merge takes DIR and nothing before it, found {}",
                    tidemark::quoted_excerpt(names.empty() ? command.folder : names.front())));
  }
  const MergedSweep merged = merge_journals(command.merged_folder);
  for (const std::string& damage : merged.damage)
    print_warning(console, fmt::format("{}; other lines have their points", damage));
  ReportFiles files = sweep_files(command.merged_folder, {});
  files.point_command = merged.command;
  PointsReport(std::move(files)).write(merged.points);
  return show(merged.points, merged.published, command.merged_json, console);
}

// Simulates points again for their charts: an earlier sweep, or a run on a device of another
// capacity, has left their figures, but no run of their own.
void add_charts(PointsReport& report, const std::vector<std::size_t>& indices,
                const Value& document, const Environment& environment, int threads,
                std::size_t points) {
  if (indices.empty()) return;
  std::vector<bool> wanted(points, false);
  for (const std::size_t i : indices)
    wanted[i] = true;
  PointsListener listener;
  listener.detail = [&](std::size_t i, const SimulatedPoint& point) { report.add(i, point); };
  static_cast<void>(simulate_points(document, environment, threads, {.smallest_capacity = false},
                                    listener, wanted));
}

}  // namespace
}  // namespace sweep_detail

void SweepCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "simulate every point of a scenario's sweep into a folder");
  app->footer(
      R"(Each point is written to points.jsonl as soon as it is done. After a kill,
--resume goes on from there; it also takes over the points of a sweep that has
changed since, as long as nothing that they follow from has. Shards may run on
several machines that share DIR.

Examples:
  tidemark sweep scenario.yaml -o out -j 8
  tidemark sweep scenario.yaml -o out --resume
  tidemark sweep scenario.yaml -o out --shard 0/3    likewise 1/3 and 2/3, then
  tidemark sweep merge out

Exit codes: 0 every point was evaluated; 2 bad input; 3 internal error.)");
  input.add_options(*app, false);
  app->get_option("SCENARIO")->required(false);  // otherwise `merge` would be taken for a scenario
  app->add_option(
         "-o,--output", folder,
         "write points.jsonl, results.json, results.csv, results.sqlite and report.html into "
         "this folder")
      ->type_name("DIR");
  app->add_option("--shard", shard, "only every N-th point, counted from 0")
      ->type_name("I/N")
      ->default_str("of the Slurm array's task, else all points");
  plots.attach(*app);
  app->add_flag("--resume", resume, "take over the points that DIR has already");
  app->add_flag(
      "--smallest-capacity", smallest_capacity,
      "find for each point the smallest device that it would fit into; takes about as long "
      "again");
  app->add_flag("--json", json, "print the result document and nothing else");
  app->add_option("-j,--threads", threads, "points that run at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));

  merge = app->add_subcommand("merge", "put the shards of a sweep together");
  merge->footer(
      R"(Writes results.json, results.csv, results.sqlite and report.html (without charts of single points)
into DIR.

Example:
  tidemark sweep merge out)");
  merge->add_option("DIR", merged_folder, "where the shards were written")->required();
  merge->add_flag("--json", merged_json, "print the result document and nothing else");
}

namespace sweep_detail {
namespace {

// Leaves out the known points that are simulated again: all of them unless the sweep is resumed,
// and those without the smallest capacity where that is asked for.
void forget_points(const SweepCommand& command, const Console& console, KnownPoints& known) {
  if (!command.resume && !known.empty()) {
    print_warning(console, fmt::format("{} has {} of these points from an earlier sweep; they are "
                                       "simulated again (--resume takes them over)",
                                       command.folder, known.size()));
    known.clear();
  }
  if (!command.smallest_capacity) return;
  std::erase_if(known, [](const auto& entry) {
    const PointResult& point = entry.second;
    return point.status == PointStatus::kFits && point.smallest_capacity == Bytes(0);
  });
}

}  // namespace
}  // namespace sweep_detail

int SweepCommand::execute(const Console& console) const {
  if (merge->parsed()) return sweep_detail::merge_shards(*this, console);
  if (input.names.empty()) {
    throw UserError("SCENARIO is required, or merge DIR\nsee: tidemark sweep --help");
  }
  if (folder.empty()) throw UserError("--output is required: a sweep is written into a folder");
  const Shard part = sweep_detail::shard_of(shard);
  Interruption interruption;
  interruption.note("\ntidemark: interrupted; no point has been simulated yet\n");
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  check_writable(folder);
  const std::vector<PlotRequest> requests =
      parse_plots(plots.texts, std::span(&document, 1), folder);
  SweepIdentity sweep = sweep_identity(document, environment, input.plugins, part);
  sweep.published = published_of(std::span(&document, 1));
  sweep.command = input.point_command();
  const SweepLock lock(folder, sweep, part);
  JournalPoints journals = journal_points(folder, sweep, part);
  for (const std::string& damage : journals.damage)
    print_warning(console, fmt::format("{}; what was in it is simulated again", damage));
  const std::string path = SweepJournal::path_of(folder, part);
  const std::string earlier = journals.others > 0 ? SweepJournal::earlier_of(path) : "";
  KnownPoints& known = journals.known;
  sweep_detail::forget_points(*this, console, known);
  std::vector<bool> wanted = sweep.of_shard;
  for (const auto& [i, point] : known)
    wanted[i] = false;
  // Made with its first point: a mistake of the whole sweep leaves no file.
  std::optional<SweepJournal> journal;
  const auto write_journal = [&] {
    if (journal) return;
    journal.emplace(folder, sweep, part, known, earlier);
    if (earlier.empty()) return;
    print_warning(console,
                  fmt::format("{} has {} finished points that this sweep does not have; their "
                              "journal is {} from now on, by which their sweep can go on in a "
                              "folder of its own",
                              folder, journals.others, earlier));
  };
  ReportFiles files = sweep_detail::sweep_files(part.count == 1 ? folder : "",
                                                input.reproduce(kName, plots.words()));
  files.plots = requests;
  files.point_command = input.point_command();
  PointsReport report(std::move(files));
  PointsListener listener;
  listener.finished = [&](std::size_t i, const PointResult& point) {
    write_journal();
    journal->add(i, point);
  };
  if (report.wants_detail()) {
    listener.detail = [&](std::size_t i, const SimulatedPoint& point) { report.add(i, point); };
    listener.every_detail = false;  // a chart that is missing is drawn at the end
  }
  std::vector<PointResult> points;
  {
    Progress progress(console, "points");
    const std::size_t before = known.size();
    const auto note = [&](std::size_t done, std::size_t total) {
      interruption.note(
          fmt::format("\ntidemark: interrupted; {} of {} points are done and in {}; the same "
                      "command with --resume goes on\n",
                      before + done, before + total, folder));
    };
    note(0, static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true)));
    // Called under a lock, as all progress is.
    listener.progress = [&](std::size_t done, std::size_t total) {
      progress.report(done, total);
      note(done, total);
    };
    points = simulate_points(
        document, environment, thread_count(threads),
        {.smallest_capacity_of_fitting = smallest_capacity, .convergence_limit = kConvergenceLimit},
        listener, wanted);
  }
  write_journal();
  for (auto& [i, point] : known)
    points[i] = std::move(point);
  known.clear();
  // The points of other shards were not simulated.
  std::size_t shown = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!sweep.of_shard[i]) continue;
    if (i != shown) points[shown] = std::move(points[i]);
    ++shown;
  }
  points.resize(shown);
  if (part.count == 1) {
    sweep_detail::add_charts(report, report.without_charts(points), document, environment,
                             thread_count(threads), points.size());
    report.write(points);
  }
  return sweep_detail::show(points, sweep.published, json, console);
}

}  // namespace tidemark
