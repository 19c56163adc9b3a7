#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "sim/memory/trace/replay.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::torch_traces_test {

using Json = nlohmann::json;

namespace {

const std::string kFolder = test::data_path("allocator/");

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// A file of this test run that is removed with it.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const std::string& name)
      : path((std::filesystem::temp_directory_path() /
              (name + "." + std::to_string(reinterpret_cast<std::uintptr_t>(this))))
                 .string()) {}
  ~TemporaryFile() { std::filesystem::remove(path); }
};

ReplayOptions options_of(const Json& trace) {
  ReplayOptions options{.capacity = Bytes(trace["capacity"].get<std::int64_t>()),
                        .event_delay = trace["event_delay"].get<std::int64_t>(),
                        .torch = parse_alloc_conf(trace["alloc_conf"].get<std::string>()),
                        .layout = true};
  const double fraction = trace["memory_fraction"].get<double>();
  if (fraction > 0) options.torch.memory_fraction = fraction;
  return options;
}

// The number of equal lines, and the first that differs.
void compare_lines(const std::string& want, const std::string& have) {
  LineReader wanted(want);
  LineReader got(have);
  std::string_view w;
  std::string_view g;
  while (wanted.next(w)) {
    REQUIRE(got.next(g));
    if (w != g) CAPTURE(wanted.line_number());
    REQUIRE(std::string(g) == std::string(w));
  }
  CHECK(!got.next(g));
}

Json layout_of(const ReplayResult& result) {
  Json segments = Json::array();
  for (const ReplayedSegment& s : result.segments) {
    Json blocks = Json::array();
    for (const ReplayedBlock& b : s.blocks)
      blocks.push_back(Json::array({b.size.count, b.state == 0 ? 0 : b.requested.count, b.state}));
    segments.push_back({{"addr", s.address.count},
                        {"size", s.size.count},
                        {"stream", s.stream},
                        {"large", s.large ? 1 : 0},
                        {"expandable", s.expandable ? 1 : 0},
                        {"allocated", s.allocated.count},
                        {"active", s.active.count},
                        {"blocks", blocks}});
  }
  Json events = Json::array();
  for (const ReplayedSegmentEvent& e : result.segment_events)
    events.push_back(Json::array({name_of(e.action), e.address.count, e.size.count, e.stream}));
  return {{"segments", segments}, {"segment_events", events}};
}

Json without_requests_of_free_blocks(Json layout) {
  for (Json& segment : layout["segments"]) {
    for (Json& block : segment["blocks"]) {
      if (block[2] == 0) block[1] = 0;
    }
  }
  return layout;
}

void check_figures(const ReplayResult& result, const Json& want) {
  const TorchStatistics& s = result.statistics;
  CHECK(s.allocated_bytes.all.peak.count == want["peak_allocated"]);
  CHECK(s.reserved_bytes.all.peak.count == want["peak_reserved"]);
  CHECK(s.active_bytes.all.peak.count == want["peak_active"]);
  CHECK(s.inactive_split_bytes.all.peak.count == want["peak_inactive_split"]);
  CHECK(s.requested_bytes.all.peak.count == want["peak_requested"]);
  CHECK(s.segment.all.peak == want["peak_segments"]);
  CHECK(s.reserved_bytes.small_pool.peak.count == want["small_peak_reserved"]);
  CHECK(s.reserved_bytes.large_pool.peak.count == want["large_peak_reserved"]);
  CHECK(s.inactive_split.all.peak == want["inactive_split_peak_count"]);
  CHECK(s.allocation.all.allocated == want["allocation_allocated"]);
  CHECK(s.segment.all.allocated == want["segment_allocated"]);
  CHECK(s.segment.all.freed() == want["segment_freed"]);
  CHECK(s.num_alloc_retries == want["num_alloc_retries"]);
  CHECK(s.num_ooms == want["num_ooms"]);
  CHECK(s.num_sync_all_streams == want["num_sync_all_streams"]);
  CHECK(s.num_device_alloc == want["num_device_alloc"]);
  CHECK(s.num_device_free == want["num_device_free"]);
  CHECK(result.oom_message == want["oom_message"]);
  CHECK(result.peak_live_512.count == want["peak_live_512"]);
  CHECK(result.rows == want["events"]);
  const std::size_t steps = want.contains("steps") ? want["steps"].size() : 0;
  REQUIRE(result.steps.size() == steps);
  for (std::size_t i = 0; i < steps; ++i) {
    const Json& step = want["steps"][i];
    CHECK(result.steps[i].reserved_at_start.count == step["reserved_at_start"]);
    CHECK(result.steps[i].allocated_at_start.count == step["allocated_at_start"]);
    CHECK(result.steps[i].peak_allocated.count == step["peak_allocated"]);
    CHECK(result.steps[i].peak_reserved.count == step["peak_reserved"]);
  }
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("twenty traces end as in PyTorch 2.4, in every row, peak, segment and event") {
    const Json index = read_json(kFolder + "index.json");
    REQUIRE(index.size() == 20);
    for (const Json& trace : index) {
      const std::string name = trace["name"].get<std::string>();
      CAPTURE(name);
      const TemporaryFile out("tidemark-" + name);
      WholeFile rows(out.path);
      const std::string path = kFolder + name + ".csv.gz";
      const ReplayResult result = replay_trace(path, options_of(trace), &rows);
      rows.commit();
      compare_lines(path, out.path);
      check_figures(result, trace);
      const Json want = read_json(kFolder + name + ".final.json");
      const bool same = layout_of(result) == without_requests_of_free_blocks(want);
      CHECK(same);
    }
  }

  TEST_CASE("the ideal allocator needs what is live, and no allocator needs less") {
    const Json index = read_json(kFolder + "index.json");
    for (const Json& trace : index) {
      const bool tight = trace["capacity"].get<std::int64_t>() < std::int64_t{80} << 30;
      if (tight) continue;
      const std::string name = trace["name"].get<std::string>();
      CAPTURE(name);
      ReplayOptions options = options_of(trace);
      options.allocator = ReplayAllocator::kIdeal;
      const ReplayResult ideal = replay_trace(kFolder + name + ".csv.gz", options);
      CHECK(ideal.statistics.reserved_bytes.all.peak <= ideal.peak_live_512);
      options.allocator = ReplayAllocator::kBfc;
      options.bfc.allow_growth = true;
      const ReplayResult bfc = replay_trace(kFolder + name + ".csv.gz", options);
      CHECK(bfc.statistics.num_ooms == 0);
      CHECK(bfc.statistics.allocated_bytes.all.peak >= ideal.statistics.allocated_bytes.all.peak);
      CHECK(trace["peak_allocated"] >= trace["peak_live_512"]);
    }
  }
}

}  // namespace tidemark::torch_traces_test
