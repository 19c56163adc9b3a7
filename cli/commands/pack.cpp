// tidemark pack: finds addresses for buffers with known lifetimes.
#include "sim/memory/packing/pack.hpp"

#include <chrono>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/commands/option_values.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "sim/memory/packing/buffers_csv.hpp"
#include "sim/memory/trace/text_file.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace pack_detail {
namespace {

// Opens the solution's file before the search, so that no search is in vain; null without a name.
std::unique_ptr<WholeFile> open_solution(const std::string& name, const std::string& buffers) {
  if (name.empty()) return nullptr;
  if (identity_of_path(name) == identity_of_path(buffers)) {
    throw UserError({.file = name}, {}, "is the table of buffers itself; --out takes another file");
  }
  return std::make_unique<WholeFile>(name);
}

// Returns "unknown" for a height above the capacity that is not proven: a packing may or may not
// fit.
std::string_view status_of(const PackResult& result, std::optional<Bytes> capacity) {
  if (capacity && result.lower_bound > *capacity) return "infeasible";
  if (capacity && result.packing.height > *capacity) return "unknown";
  return result.optimal() ? "optimal" : "feasible";
}

std::string summary(const NamedProblem& named, const PackResult& result,
                    std::optional<Bytes> capacity, double seconds, const std::string& out) {
  const Bytes height = result.packing.height;
  std::string text = fmt::format("{} buffers packed in {:.2f} s\n",
                                 grouped(static_cast<std::int64_t>(named.ids.size())), seconds);
  text += fmt::format("  height       {} bytes ({}){}\n", grouped(height.count),
                      format_bytes(height), result.optimal() ? ", the least possible" : "");
  text += fmt::format(
      "  lower bound  {} bytes{}\n", grouped(result.lower_bound.count),
      result.optimal() ? ""
                       : fmt::format(", {} less", share_of(height - result.lower_bound, height)));
  if (capacity) {
    const bool fits = height <= *capacity;
    const char* verdict = fits                             ? "fits"
                          : result.lower_bound > *capacity ? "no packing fits"
                                                           : "no packing that fits was found";
    text += fmt::format("  capacity     {} bytes: {}\n", grouped(capacity->count), verdict);
  }
  if (!out.empty()) text += fmt::format("  written      {}\n", out);
  return text;
}

}  // namespace
}  // namespace pack_detail

void PackCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "give addresses to buffers with known lifetimes");
  app->footer(
      R"(BUFFERS.csv has the columns id,lower,upper,size; a buffer is live for lower <= t < upper.
The solution adds the column offset. With --capacity the search ends soon after a packing fits;
without it, at the lower bound or at the time limit. The time limit is wall-clock time and only ends
the search: where it is not reached, the packing is the same on every machine.

Examples:
  tidemark pack buffers.csv --out solution.csv
  tidemark pack buffers.csv --capacity 1MiB --time-limit 10s --json)");
  app->add_option("BUFFERS", buffers, "CSV file of buffers")->required()->type_name("FILE");
  app->add_option("--capacity", capacity, "exit with 1 when the packing is higher than this")
      ->type_name("BYTES");
  app->add_option("--time-limit", time_limit, "for the search")
      ->type_name("DURATION")
      ->capture_default_str();
  app->add_option("--out", out, "write the solution to this file")->type_name("FILE");
  app->add_flag("--json", json, "for scripts");
}

int PackCommand::execute(const Console& console) const {
  std::optional<Bytes> limit;
  if (!capacity.empty()) limit = parse_option("capacity", capacity, parse_bytes);
  PackOptions options{.capacity = limit,
                      .time_limit = parse_option("time-limit", time_limit, parse_duration)};
  const NamedProblem named = parse_buffers(read_text_file(buffers), buffers);
  const std::unique_ptr<WholeFile> solution = pack_detail::open_solution(out, buffers);
  const auto begin = std::chrono::steady_clock::now();
  const PackResult result = [&] {
    const Waiting waiting(console, "packing", options.time_limit);
    return pack(named.problem, options);
  }();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (const auto fault = packing_fault(named.problem, result.packing)) {
    throw InternalError(fmt::format("the packing of {} is not valid: {}", buffers, *fault));
  }
  if (solution) {
    solution->write(solution_csv(named, result.packing));
    solution->commit();
  }
  if (json) {
    nlohmann::ordered_json document{{"tidemark", kVersion},
                                    {"status", pack_detail::status_of(result, limit)},
                                    {"height", result.packing.height.count},
                                    {"lower_bound", result.lower_bound.count},
                                    {"proven_optimal", result.optimal()},
                                    {"capacity", nullptr},
                                    {"buffers", named.ids.size()},
                                    {"seconds", seconds.count()}};
    if (limit) document["capacity"] = limit->count;
    print(document.dump(2) + '\n');
  } else {
    print(pack_detail::summary(named, result, limit, seconds.count(), out));
  }
  return limit && result.packing.height > *limit ? kExitDoesNotFit : kExitFits;
}

}  // namespace tidemark
