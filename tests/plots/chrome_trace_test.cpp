// The written JSON against the rules of trace events.
#include "plots/chrome_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/plots/traced_run.hpp"

namespace tidemark::chrome_trace_test {

using Json = nlohmann::json;

namespace {

using Track = std::pair<int, int>;

std::int64_t ns(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}
Track track_of(const Json& event) {
  return {event.at("pid").get<int>(), event.at("tid").get<int>()};
}

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  const Json* event = nullptr;
};

// Returns the intervals, outer before inner.
std::map<Track, std::vector<Interval>> intervals_of(const Json& events, const std::string& cat) {
  std::map<Track, std::vector<Interval>> tracks;
  for (const Json& event : events) {
    if (event.at("ph") != "X" || (!cat.empty() && event.at("cat") != cat)) continue;
    const std::int64_t begin = ns(event.at("ts"));
    const std::int64_t duration = ns(event.at("dur"));
    CHECK(begin >= 0);
    CHECK(duration >= 0);
    tracks[track_of(event)].push_back({begin, begin + duration, &event});
  }
  for (auto& [track, list] : tracks) {
    std::stable_sort(list.begin(), list.end(), [](const Interval& a, const Interval& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }
  return tracks;
}

void check_nesting(const Json& events) {
  for (const auto& [track, list] : intervals_of(events, "")) {
    std::vector<std::int64_t> open;
    std::size_t crossing = 0;
    for (const Interval& at : list) {
      while (!open.empty() && open.back() <= at.begin)
        open.pop_back();
      if (!open.empty() && at.end > open.back()) ++crossing;
      open.push_back(at.end);
    }
    CHECK(crossing == 0);
  }
}

// Streams run in order: one kernel or copy at a time.
void check_streams(const Json& events) {
  for (const char* cat : {"kernel", "gpu_memcpy", "cpu_op", "cuda_runtime"}) {
    for (const auto& [track, list] : intervals_of(events, cat)) {
      for (std::size_t i = 1; i < list.size(); ++i)
        CHECK(list[i].begin >= list[i - 1].end);
      for (const Interval& at : list) {
        if (track.first != 0) continue;  // the host
        CHECK(at.event->at("args").at("stream").get<int>() == track.second);
        CHECK(at.event->at("args").at("device").get<int>() == track.first);
      }
    }
  }
}

// Checks what Kineto's readers follow: an operator of the host and its call of the runtime share an
// external id, the call and the work that it started a correlation. Launches are known by the names
// of the calls.
void check_correlations(const Json& events) {
  std::map<std::int64_t, const Json*> operators;
  std::map<std::int64_t, const Json*> dispatched;
  for (const Json& event : events) {
    const std::string cat = event.value("cat", "");
    if (cat == "cpu_op") {
      CHECK_FALSE(event["args"].contains("correlation"));
      CHECK(operators.emplace(event["args"]["External id"].get<std::int64_t>(), &event).second);
    }
    if (cat != "cuda_runtime") continue;
    CHECK(dispatched.emplace(event["args"]["correlation"].get<std::int64_t>(), &event).second);
    const Json& op = *operators.at(event["args"]["External id"].get<std::int64_t>());
    CHECK(ns(op["ts"]) <= ns(event["ts"]));
    CHECK(ns(event["ts"]) + ns(event["dur"]) <= ns(op["ts"]) + ns(op["dur"]));
  }
  std::size_t found = 0;
  for (const Json& event : events) {
    const std::string cat = event.value("cat", "");
    if ((cat != "kernel" && cat != "gpu_memcpy") || !event["args"].contains("correlation"))
      continue;
    ++found;
    const Json& host = *dispatched.at(event["args"]["correlation"].get<std::int64_t>());
    CHECK(ns(host["ts"]) + ns(host["dur"]) <= ns(event["ts"]));
    CHECK(host["name"] == (cat == "kernel" ? "cudaLaunchKernel" : "cudaMemcpyAsync"));
    CHECK(host["args"]["External id"] == event["args"]["External id"]);
  }
  CHECK(found == dispatched.size());
}

void check_flows(const Json& events) {
  std::map<std::pair<Track, std::int64_t>, const Json*> begins;  // kernels and copies
  for (const Json& event : events) {
    const std::string cat = event.value("cat", "");
    if (cat == "kernel" || cat == "gpu_memcpy") begins[{track_of(event), ns(event["ts"])}] = &event;
  }
  std::map<std::int64_t, const Json*> started;
  std::set<std::int64_t> finished;
  for (const Json& event : events) {
    if (event["ph"] == "s") {
      CHECK(started.emplace(event["id"].get<std::int64_t>(), &event).second);
      CHECK(begins.contains({track_of(event), ns(event["ts"])}));
    }
    if (event["ph"] != "f") continue;
    const auto id = event["id"].get<std::int64_t>();
    CHECK(event["bp"] == "e");
    CHECK(finished.insert(id).second);
    REQUIRE(started.contains(id));  // s comes before f
    const Json& start = *started.at(id);
    CHECK(start["cat"] == event["cat"]);
    CHECK(start["name"] == event["name"]);
    CHECK(ns(start["ts"]) <= ns(event["ts"]));
    REQUIRE(begins.contains({track_of(event), ns(event["ts"])}));
    const Json& from = *begins.at({track_of(start), ns(start["ts"])});
    const Json& to = *begins.at({track_of(event), ns(event["ts"])});
    if (event["cat"] == "recompute") {
      CHECK(to["args"]["recompute"] == true);
      CHECK(from["args"]["recompute"] == false);
      CHECK(to["name"] == from["name"]);
      CHECK(to["args"]["layer"] == from["args"]["layer"]);
    } else if (event["cat"] == "fetch") {
      CHECK(from["name"] == "Memcpy DtoH");
      CHECK(to["name"] == "Memcpy HtoD");
      CHECK(from["args"]["tensor"] == to["args"]["tensor"]);
    } else {
      CHECK(event["cat"] == "use");
      CHECK(from["name"] == "Memcpy HtoD");
      CHECK(ns(from["ts"]) + ns(from["dur"]) <= ns(to["ts"]));
    }
  }
  CHECK(finished.size() == started.size());
}

void check_counters(const Json& events, const TracedRun& run) {
  std::map<std::string, std::int64_t> last;
  std::int64_t most = 0;
  std::int64_t reserved = 0;
  for (const Json& event : events) {
    if (event["ph"] != "C") continue;
    const std::string name = event["name"];
    CHECK(ns(event["ts"]) >= last[name]);
    last[name] = ns(event["ts"]);
    std::int64_t sum = 0;
    for (const Json& value : event["args"]) {
      CHECK(value.get<std::int64_t>() >= 0);
      sum += value.get<std::int64_t>();
    }
    (name == "reserved memory" ? reserved : most) =
        std::max(name == "reserved memory" ? reserved : most, sum);
  }
  CHECK(most == run.result.run.most_live.count);
  CHECK(reserved == run.result.run.most_reserved.count);
}

void check_lifetimes(const Json& events) {
  std::map<std::int64_t, std::int64_t> begun;
  std::set<std::int64_t> ended;
  for (const Json& event : events) {
    if (event["ph"] == "b") {
      CHECK(begun.emplace(event["id"].get<std::int64_t>(), ns(event["ts"])).second);
      CHECK(event["args"]["bytes"].get<std::int64_t>() >= 0);
    } else if (event["ph"] == "e") {
      const auto id = event["id"].get<std::int64_t>();
      CHECK(ended.insert(id).second);
      CHECK(begun.at(id) <= ns(event["ts"]));
    }
  }
  CHECK(begun.size() == ended.size());
  CHECK_FALSE(begun.empty());
}

Json written(const TracedRun& run) {
  std::ostringstream out;
  write_chrome_trace(out, run.model.training, run.detail.compiled.program, run.trace, run.title);
  const std::string text = out.str();
  CHECK(text.substr(0, 200).find("\"rank\": 0") != std::string::npos);
  const Json document = Json::parse(text);
  CHECK(document["traceName"] == "a \"run\"");
  return document["traceEvents"];
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("a Chrome trace keeps the rules of its events, and adds up to the run") {
    for (const std::string& setting : traced_settings()) {
      CAPTURE(setting);
      const TracedRun run(setting);
      const Json events = written(run);
      check_nesting(events);
      check_streams(events);
      check_correlations(events);
      check_flows(events);
      check_counters(events, run);
      check_lifetimes(events);
      // The last step's kernels are what compute was busy with; steps enclose their phases.
      std::int64_t busy = 0;
      std::size_t recomputed = 0;
      std::size_t flows = 0;
      std::size_t copies = 0;
      for (const Json& event : events) {
        const std::string cat = event.value("cat", "");
        if (cat == "kernel" && event["args"]["step"] == 1 && event["tid"] == 7) {
          busy += ns(event["dur"]);
        }
        if (cat == "kernel" && event["args"]["recompute"] == true) ++recomputed;
        if (cat == "gpu_memcpy") ++copies;
        if (event["ph"] == "s" && cat == "recompute") ++flows;
      }
      CHECK(busy == run.result.run.busy[0].count());
      CHECK(flows == recomputed);
      CHECK((recomputed > 0) == (setting.find("checkpoint") != std::string::npos));
      CHECK((copies > 0) == (setting.find("offload") != std::string::npos));
    }
  }

  TEST_CASE("operators that eviction recomputes are in the trace, and slices still nest") {
    const TracedRun whole(", training: {micro_batch: 8, sequence: 256}, allocator: ideal");
    const std::int64_t capacity = whole.result.run.live.bytes.count * 8 / 10;
    const TracedRun run(
        ", training: {micro_batch: 8, sequence: 256}, allocator: ideal, policies: "
        "[eviction: {heuristic: lru}]",
        "{gpu: h100-sxm-80gb, hbm: {capacity: " + std::to_string(capacity) + "}}");
    REQUIRE(run.result.run.restores > 0);
    REQUIRE(run.result.status == PointStatus::kFits);
    const Json events = written(run);
    check_nesting(events);
    check_streams(events);
    check_correlations(events);
    check_flows(events);
    check_counters(events, run);
    check_lifetimes(events);
    const auto restored = std::count_if(events.begin(), events.end(), [](const Json& event) {
      return event["name"] == "restore evicted";
    });
    CHECK(restored > 0);
  }
}

}  // namespace tidemark::chrome_trace_test
