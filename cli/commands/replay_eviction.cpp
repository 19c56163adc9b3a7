#include "cli/commands/replay_eviction.hpp"

#include <cmath>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/option_values.hpp"
#include "cli/commands/replay_allocator.hpp"
#include "cli/text/json_text.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "plots/table.hpp"
#include "policies/eviction/online/log_reader.hpp"
#include "policies/eviction/online/online_eviction.hpp"

namespace tidemark {
namespace replay_eviction_detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kLargestBudget{kLargestQuantity};

template <class T>
T chosen(std::string_view option, const std::string& name,
         std::span<const std::string_view> names) {
  return static_cast<T>(place_of_name(option, name, names));
}

EvictionOptions options_of(const ReplayEvictionCommand& command) {
  EvictionOptions options{
      .heuristic =
          chosen<EvictionHeuristic>("heuristic", command.heuristic, eviction_heuristic_names()),
      .mode = chosen<DeallocationMode>("mode", command.mode, deallocation_mode_names())};
  options.budget = parse_option("budget", command.budget, parse_bytes);
  if (options.budget <= Bytes(0))
    refuse_option("budget", "must be more than 0 bytes: nothing would ever fit");
  if (options.budget > kLargestBudget) refuse_option("budget", "is more than 2^60 bytes");
  if (!command.thrash_factor.empty()) {
    options.thrash_factor =
        number_option<double>("thrash-factor", command.thrash_factor, "a number from 1 on",
                              [](double value) { return std::isfinite(value) && value >= 1; });
  }
  return options;
}

const char* name_of(EvictionStatus status) {
  switch (status) {
    case EvictionStatus::kOk:
      return "ok";
    case EvictionStatus::kOutOfMemory:
      return "OOM";
    case EvictionStatus::kThrash:
      return "THRASH";
  }
  return "";
}

Json document_of(const EvictionResult& result) {
  return {{"status", name_of(result.status)},
          {"peak", result.peak.count},
          {"model_compute", result.model_compute},
          {"remat_compute", result.remat_compute},
          {"total", result.model_compute + result.remat_compute},
          {"n_policy_evict", result.policy_evictions},
          {"n_dealloc_evict", result.deallocations},
          {"n_remat_ops", result.remat_operators},
          {"evict_sha1", result.victims_sha1}};
}

std::string table_of(const EvictionResult& result, const EvictionOptions& options) {
  Table table({{""}, {"", Align::kRight}});
  const auto row = [&](const char* name, const std::string& value) {
    table.add_row({{name}, {value}});
  };
  row("budget", format_bytes(options.budget));
  row("peak", format_bytes(result.peak));
  row("time of the program", fmt::format("{}", result.model_compute));
  row("time of recomputation", fmt::format("{}", result.remat_compute));
  row("operators recomputed", fmt::format("{}", result.remat_operators));
  row("evicted to make room", fmt::format("{}", result.policy_evictions));
  row("freed after the last use", fmt::format("{}", result.deallocations));
  std::string text = table.text();
  switch (result.status) {
    case EvictionStatus::kOk:
      if (result.model_compute > 0) {
        text += fmt::format("fits, at {:.3f} times the program's time\n",
                            1 + static_cast<double>(result.remat_compute) /
                                    static_cast<double>(result.model_compute));
      } else {
        text += "fits\n";
      }
      break;
    case EvictionStatus::kOutOfMemory:
      text +=
          "out of memory: what must stay resident and what one operator reads and writes exceeds "
          "the "
          "budget\n";
      break;
    case EvictionStatus::kThrash:
      text += fmt::format("stopped: recomputation exceeds {} times the program's time\n",
                          options.thrash_factor - 1);
      break;
  }
  return text;
}

}  // namespace
}  // namespace replay_eviction_detail

void ReplayEvictionCommand::attach(CLI::App& parent) {
  app = replay_command(parent).add_subcommand(
      kName, "a log of operators within a budget: what is evicted and recomputed");
  app->footer(
      R"(The log has one JSON object per line, as DTR's simulator simrd reads them: CONSTANT, MEMORY,
CALL, ALIAS, MUTATE, COPY, COPY_FROM, RELEASE, ANNOTATE. The tensor of least score is evicted:
  lru   size   dtr_local   msps   dtr   dtr_eq   dtr_full   random
When the program drops its last reference to a tensor, `eager` frees it, `ignore` leaves it to the
heuristic, `banish` frees it permanently once nothing evicted depends on it.
A budget that is too small is told in the result; the exit code is 0 all the same.

Example:
  tidemark replay eviction resnet.log --heuristic dtr_eq --mode eager --budget 4GiB)");
  app->add_option("LOG", log, "the log")->required()->type_name("FILE");
  app->add_option("--heuristic", heuristic, "whom to evict")
      ->required()
      ->type_name(choice_type(eviction_heuristic_names()));
  app->add_option("--mode", mode, "what to do with a value without references")
      ->required()
      ->type_name(choice_type(deallocation_mode_names()));
  app->add_option("--budget", budget, "memory that may be used: 4GiB")
      ->required()
      ->type_name("BYTES");
  app->add_option("--thrash-factor", thrash_factor,
                  "stop at this many times the program's time [10]")
      ->type_name("F");
  app->add_flag("--json", json, "print one JSON document");
}

int ReplayEvictionCommand::execute(const Console& /*console*/) const {
  const EvictionOptions options = replay_eviction_detail::options_of(*this);
  const EvictionResult result = replay_eviction(read_eviction_log(log), options);
  print(json ? json_text(replay_eviction_detail::document_of(result)) + '\n'
             : replay_eviction_detail::table_of(result, options));
  return kExitFits;
}

}  // namespace tidemark
