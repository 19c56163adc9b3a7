#include "cli/commands/replay_allocator.hpp"

#include <array>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/option_values.hpp"
#include "cli/text/json_text.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/units.hpp"
#include "plots/table.hpp"
#include "sim/memory/trace/replay.hpp"

namespace tidemark {
namespace replay_allocator_detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kAllocators{"torch", "bfc", "ideal"};
std::optional<double> fraction_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return number_option<double>("memory-fraction", text, "a number above 0 and up to 1",
                               [](double value) { return value > 0 && value <= 1; });
}

std::optional<int> device_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return number_option<int>("device", text, "the number of a device",
                            [](int value) { return value >= 0; });
}

ReplayOptions options_of(const ReplayAllocatorCommand& command) {
  ReplayOptions options{.allocator = static_cast<ReplayAllocator>(
                            place_of_name("allocator", command.allocator, kAllocators))};
  options.capacity = parse_option("capacity", command.capacity, parse_bytes);
  if (options.capacity <= Bytes(0))
    refuse_option("capacity", "must be more than 0 bytes: nothing would ever fit");
  const bool torch = options.allocator == ReplayAllocator::kTorch;
  if (!torch && !command.conf.empty()) refuse_option("conf", "only the allocator torch has it");
  if (!torch && !command.layout.empty()) refuse_option("layout", "only the allocator torch has it");
  options.torch = parse_option("conf", command.conf, parse_alloc_conf);
  if (const std::optional<double> fraction = fraction_of(command.memory_fraction)) {
    if (options.allocator == ReplayAllocator::kIdeal) {
      refuse_option("memory-fraction", "the allocator ideal has no such limit");
    }
    options.torch.memory_fraction = fraction;
    options.bfc.memory_fraction = *fraction;
  }
  if (!command.event_delay.empty()) {
    options.event_delay =
        number_option<std::int64_t>("event-delay", command.event_delay, "a whole number of rows",
                                    [](std::int64_t rows) { return rows >= 0; });
  }
  options.layout = !command.layout.empty();
  return options;
}

// Returns the figures under the names of the recorded cases' index.json.
Json document_of(const ReplayResult& result, const ReplayAllocatorCommand& command,
                 const ReplayOptions& options) {
  const TorchStatistics& s = result.statistics;
  Json json = {{"allocator", command.allocator},
               {"capacity", options.capacity.count},
               {"event_delay", options.event_delay},
               {"alloc_conf", command.conf},
               {"events", result.rows},
               {"peak_allocated", s.allocated_bytes.all.peak.count},
               {"peak_reserved", s.reserved_bytes.all.peak.count},
               {"peak_active", s.active_bytes.all.peak.count},
               {"peak_inactive_split", s.inactive_split_bytes.all.peak.count},
               {"peak_requested", s.requested_bytes.all.peak.count},
               {"peak_segments", s.segment.all.peak},
               {"num_alloc_retries", s.num_alloc_retries},
               {"num_ooms", s.num_ooms},
               {"num_sync_all_streams", s.num_sync_all_streams},
               {"num_device_alloc", s.num_device_alloc},
               {"num_device_free", s.num_device_free},
               {"allocation_allocated", s.allocation.all.allocated},
               {"segment_allocated", s.segment.all.allocated},
               {"segment_freed", s.segment.all.freed()},
               {"inactive_split_peak_count", s.inactive_split.all.peak},
               {"small_peak_reserved", s.reserved_bytes.small_pool.peak.count},
               {"large_peak_reserved", s.reserved_bytes.large_pool.peak.count},
               {"oversize_allocations", s.oversize_allocations.peak},
               {"oversize_segments", s.oversize_segments.peak},
               {"oom_message", result.oom_message},
               {"peak_live_512", result.peak_live_512.count}};
  if (const std::optional<SnapshotSummary>& snapshot = result.snapshot) {
    json["snapshot"] = {
        {"device", snapshot->device},
        {"entries", snapshot->entries},
        {"ignored_entries", snapshot->ignored},
        {"live_at_start",
         {{"blocks", snapshot->live_blocks}, {"bytes", snapshot->live_bytes.count}}},
        {"contradicting_blocks", snapshot->contradicting_blocks},
        {"retry_releases", snapshot->retry_releases},
        {"empty_caches", snapshot->empty_caches},
        {"unclear_releases", snapshot->unclear_releases}};
  }
  Json steps = Json::array();
  for (const ReplayStep& step : result.steps) {
    steps.push_back({{"step", step.step},
                     {"reserved_at_start", step.reserved_at_start.count},
                     {"allocated_at_start", step.allocated_at_start.count},
                     {"peak_allocated", step.peak_allocated.count},
                     {"peak_reserved", step.peak_reserved.count}});
  }
  if (!steps.empty()) json["steps"] = std::move(steps);
  const ReplayState& f = result.final_state;
  json["final"] = {{"allocated", f.allocated.count},
                   {"reserved", f.reserved.count},
                   {"active", f.active.count},
                   {"inactive_split", f.inactive_split.count},
                   {"segments", f.segments},
                   {"retries", f.retries},
                   {"ooms", f.ooms}};
  return json;
}

// Returns {"segments": [...], "segment_events": [...]}: the shape of torch.cuda.memory_snapshot(),
// shorter.
Json layout_of(const ReplayResult& result) {
  Json segments = Json::array();
  for (const ReplayedSegment& segment : result.segments) {
    Json blocks = Json::array();
    for (const ReplayedBlock& block : segment.blocks) {
      blocks.push_back(Json::array({block.size.count, block.requested.count, block.state}));
    }
    segments.push_back({{"addr", segment.address.count},
                        {"size", segment.size.count},
                        {"stream", segment.stream},
                        {"large", segment.large ? 1 : 0},
                        {"expandable", segment.expandable ? 1 : 0},
                        {"allocated", segment.allocated.count},
                        {"active", segment.active.count},
                        {"blocks", std::move(blocks)}});
  }
  Json events = Json::array();
  for (const ReplayedSegmentEvent& event : result.segment_events) {
    events.push_back(
        Json::array({name_of(event.action), event.address.count, event.size.count, event.stream}));
  }
  return {{"segments", std::move(segments)}, {"segment_events", std::move(events)}};
}

std::string table_of(const ReplayResult& result) {
  const TorchStatistics& s = result.statistics;
  Table table({{""}, {"peak", Align::kRight}, {"at the end", Align::kRight}});
  const auto bytes = [&](const char* name, const TorchStatistic<Bytes>& statistic) {
    table.add_row({{name}, {format_bytes(statistic.peak)}, {format_bytes(statistic.current)}});
  };
  bytes("allocated", s.allocated_bytes.all);
  bytes("active", s.active_bytes.all);
  bytes("reserved", s.reserved_bytes.all);
  bytes("inactive split", s.inactive_split_bytes.all);
  table.add_row({{"segments"},
                 {fmt::format("{}", s.segment.all.peak)},
                 {fmt::format("{}", s.segment.all.current)}});
  table.add_row({{"live, rounded to 512 B"}, {format_bytes(result.peak_live_512)}, {""}});
  std::string text = table.text();
  text += fmt::format("{} rows, {} retries, {} out of memory\n", result.rows, s.num_alloc_retries,
                      s.num_ooms);
  if (const std::optional<SnapshotSummary>& snapshot = result.snapshot) {
    text += fmt::format("snapshot: {} entries of device {}\n", snapshot->entries, snapshot->device);
    if (snapshot->live_blocks > 0) {
      text += fmt::format(
          "{} blocks ({}) were live before the recording and are allocated first, by address\n",
          snapshot->live_blocks, format_bytes(snapshot->live_bytes));
    }
    if (snapshot->retry_releases + snapshot->empty_caches > 0) {
      text += fmt::format(
          "segments were freed {} times for an allocation that found no memory (left to the "
          "allocator), {} times otherwise (replayed as empty_cache)\n",
          snapshot->retry_releases, snapshot->empty_caches);
    }
    if (snapshot->contradicting_blocks > 0) {
      text += fmt::format("{} blocks of the final segments contradict the trace and are left out\n",
                          snapshot->contradicting_blocks);
    }
  }
  if (!result.oom_message.empty()) text += "first failure: " + result.oom_message + '\n';
  return text;
}

}  // namespace
}  // namespace replay_allocator_detail

CLI::App& replay_command(CLI::App& program) {
  for (CLI::App* known : program.get_subcommands([](CLI::App*) { return true; })) {
    if (known->get_name() == "replay") return *known;
  }
  CLI::App* replay = program.add_subcommand("replay", "replay recorded traces");
  replay->require_subcommand(1);
  return *replay;
}

void ReplayAllocatorCommand::attach(CLI::App& parent) {
  app = replay_command(parent).add_subcommand(
      kName, "a trace of allocator calls: what each leads to, and the peaks");
  app->footer(R"(The trace is CSV with the columns op,id,bytes,stream, gzip or not:
  a allocate   f free   r record_stream(id, stream)   e empty_cache   m a step begins
or a snapshot of torch.cuda.memory._dump_snapshot() with a recorded history.
--capacity is what the allocator may take: of a real device what the CUDA context (about 0.5 GiB)
and other processes leave.

Examples:
  tidemark replay allocator trace.csv.gz --capacity 80GiB --conf expandable_segments:True
  tidemark replay allocator snapshot.pickle --capacity 40GiB)");
  app->add_option("TRACE", trace, "the trace")->required()->type_name("FILE");
  app->add_option("--allocator", allocator, "whose rules [torch]")
      ->type_name(choice_type(replay_allocator_detail::kAllocators));
  app->add_option("--capacity", capacity, "memory that the allocator may take: 79.5GiB")
      ->required()
      ->type_name("BYTES");
  app->add_option("--conf", conf, "as in PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb:128")
      ->type_name("TEXT");
  app->add_option("--memory-fraction", memory_fraction, "of the device that may be reserved")
      ->type_name("F");
  app->add_option("--event-delay", event_delay, "rows until an event of a stream has ended [0]")
      ->type_name("N");
  app->add_option("--device", device, "of a snapshot with traces of several")->type_name("N");
  app->add_option("--csv", csv, "write the trace with the answer to every row; *.gz is compressed")
      ->type_name("OUT");
  app->add_option("--layout", layout, "write the final segments and all segment events, as JSON")
      ->type_name("OUT");
  app->add_flag("--json", json, "print one JSON document");
}

int ReplayAllocatorCommand::execute(const Console& /*console*/) const {
  const ReplayOptions options = replay_allocator_detail::options_of(*this);
  const bool snapshot = is_pickle(trace);
  const std::optional<int> chosen = replay_allocator_detail::device_of(device);
  if (chosen && !snapshot)
    refuse_option("device", "only snapshots of PyTorch have several devices");
  const bool both = !csv.empty() && !layout.empty();
  if (both && identity_of_path(absolute_path(csv)) == identity_of_path(absolute_path(layout)))
    throw UserError(fmt::format("--csv and --layout: both are {}; give two files", excerpt(csv)));
  std::optional<WholeFile> rows;
  std::optional<WholeFile> segments;
  if (!csv.empty()) rows.emplace(csv);
  if (!layout.empty()) segments.emplace(layout);
  WholeFile* const answers = rows ? &*rows : nullptr;
  const ReplayResult result = snapshot ? replay_snapshot(trace, chosen, options, answers)
                                       : replay_trace(trace, options, answers);
  if (segments) segments->write(json_text(replay_allocator_detail::layout_of(result), -1) + '\n');
  if (rows) rows->commit();
  if (segments) segments->commit();
  print(json ? json_text(replay_allocator_detail::document_of(result, *this, options)) + '\n'
             : replay_allocator_detail::table_of(result));
  return kExitFits;
}

}  // namespace tidemark
