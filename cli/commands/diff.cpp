#include "cli/commands/diff.hpp"

#include <optional>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output/reports.hpp"
#include "cli/text/difference_text.hpp"
#include "cli/text/point_summary.hpp"
#include "cli/text/recorded_difference.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/results/recorded_peak.hpp"
#include "sim/memory/trace/snapshot_reader.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace diff_detail {
namespace {

using Json = nlohmann::ordered_json;
// One side of the comparison.
struct Side {
  std::optional<DetailedPoint> point;
  RecordedSide recorded;
};

DetailedPoint simulate_side(const ScenarioInput& input, const Environment& environment,
                            const Console& console) {
  Value document = input.load().front();
  if (sweep_points(document).size() > 1) {
    print_warning(console, fmt::format("{} has a sweep; its base is compared, without the sweep's "
                                       "changes (choose a point with -s, -a or -b KEY=VALUE)",
                                       excerpt(input.names.front())));
  }
  document = without_sweep(std::move(document));
  return simulate_in_detail(
      document, 0, environment,
      {.smallest_capacity = false, .largest_tensors = static_cast<std::size_t>(-1)});
}

RecordedSide record(const DetailedPoint& point, const std::string& name) {
  if (!point.scenario.allocator->traits().keeps_torch_history) {
    throw UserError(
        fmt::format("a snapshot shows PyTorch's allocator, but `allocator` of {} is {}; "
                    "add -s allocator=torch",
                    excerpt(name), point.scenario.allocator->traits().name));
  }
  Scratch scratch;
  const auto recorder = run_recorded(point.scenario, point.detail.compiled, scratch);
  return {.name = setting_line(point.result, point.scenario, *point.detail.model),
          .simulated = true,
          .context = point.result.context,
          .peak = peak_of_recording(*point.detail.model, point.detail.compiled, *recorder)};
}

std::string printed(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace
}  // namespace diff_detail

void DiffCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "why one peak is larger than another, term by term");
  app->footer(R"(Examples:
  tidemark diff small.yaml large.yaml
  tidemark diff scenario.yaml -b training.micro_batch=8       the same file with a change
  tidemark diff gpt2 gpt2-medium --gpu a100-sxm-80gb
  tidemark diff scenario.yaml snapshot.pickle                 what your GPU did against it

A snapshot is what torch.cuda.memory._dump_snapshot() writes; nothing in it is executed.
Exit codes: 0 compared; 2 bad input; 3 internal error.)");
  input.add_options(*app, true);
  app->get_option("SCENARIO")->expected(1, 2);
  const auto changes = [&](const char* name, std::vector<std::string>& to, const char* help) {
    app->add_option(name, to, help)
        ->type_name("KEY=VALUE")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  };
  changes("-a,--set-a", overrides_a, "change a key of the first only; repeatable");
  changes("-b,--set-b", overrides_b, "change a key of the second only; repeatable");
  app->add_option("--device", device, "whose trace of a snapshot")
      ->type_name("N")
      ->check(CLI::Range(0, 1023));
  app->add_flag("--json", json, "print one document with every term");
  app->add_option("--top", top, "rows of a table")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app->add_flag("--all", all, "every row");
}

int DiffCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  std::vector<std::string> names = input.names;
  if (names.size() == 1) {
    if (overrides_a.empty() && overrides_b.empty()) {
      throw UserError(
          "diff compares two: name a second scenario or snapshot, or change the first with "
          "-b KEY=VALUE");
    }
    names.push_back(names.front());
  }
  std::vector<diff_detail::Side> sides(2);
  const auto is_snapshot = [&](std::size_t i) { return is_pickle(names[i]); };
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<std::string>& own = i == 0 ? overrides_a : overrides_b;
    if (is_snapshot(i)) {
      if (!own.empty()) {
        throw UserError(
            fmt::format("{} is a snapshot, in which no key can be changed", excerpt(names[i])));
      }
      const std::optional<int> chosen = device >= 0 ? std::optional(device) : std::nullopt;
      sides[i].recorded = {.name = names[i], .peak = peak_of_snapshot(names[i], chosen)};
      continue;
    }
    ScenarioInput one = input;
    one.names = {names[i]};
    one.overrides.insert(one.overrides.end(), own.begin(), own.end());
    sides[i].point = diff_detail::simulate_side(one, environment, console);
  }
  const bool recorded = is_snapshot(0) || is_snapshot(1);
  const DiffView view{.top = all ? static_cast<std::size_t>(-1) : top,
                      .colour = console.colour,
                      .width = console.terminal ? console.width : 0};
  if (!recorded) {
    const DetailedPoint& a = *sides[0].point;
    const DetailedPoint& b = *sides[1].point;
    print(json ? diff_detail::printed(difference_json(a, b)) : difference_text(a, b, view));
    return kExitFits;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (sides[i].point) sides[i].recorded = diff_detail::record(*sides[i].point, names[i]);
  }
  const RecordedSide& a = sides[0].recorded;
  const RecordedSide& b = sides[1].recorded;
  print(json ? diff_detail::printed(recorded_difference_json(a, b))
             : recorded_difference_text(a, b, view));
  return kExitFits;
}

}  // namespace tidemark
