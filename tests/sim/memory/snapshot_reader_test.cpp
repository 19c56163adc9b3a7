// PyTorch's memory snapshots as traces.
#include "sim/memory/trace/snapshot_reader.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/core/errors.hpp"
#include "sim/memory/trace/replay.hpp"
#include "tests/sim/memory/snapshot_file.hpp"

namespace tidemark::snapshot_reader_test {

namespace {

// Returns "a0:512 f0": op, id and, for an allocation, the bytes.
std::string rows_of(const std::vector<std::vector<Entry>>& traces,
                    const std::vector<SegmentState>& segments = {},
                    std::optional<int> device = std::nullopt) {
  const SnapshotFile file(traces, segments);
  SnapshotReader reader(file.path(), device);
  std::string text;
  for (TraceRow row; reader.next(row);) {
    text += text.empty() ? "" : " ";
    text += static_cast<char>(row.op);
    if (row.op != TraceOp::kEmptyCache) text += std::to_string(row.id);
    if (row.bytes > Bytes(0)) text += ':' + std::to_string(row.bytes.count);
  }
  return text;
}

std::string problem_of(const std::vector<std::vector<Entry>>& traces,
                       const std::vector<SegmentState>& segments = {}) {
  try {
    return "accepted: " + rows_of(traces, segments);
  } catch (const UserError& error) {
    return error.path() + (error.path().empty() ? "" : ": ") + error.problem();
  }
}

// A part of a snapshot, to be damaged.
struct Node {
  char kind = 'N';  // none, integer, text, list, dict
  std::int64_t integer = 0;
  std::string text;
  std::vector<std::string> keys;  // keys of a dict
  std::vector<Node> items;
};
Node whole(std::int64_t integer) {
  return {.kind = 'I', .integer = integer};
}
Node word(const std::string& text) {
  return {.kind = 'T', .text = text};
}
Node list(std::vector<Node> items) {
  return {.kind = 'L', .items = std::move(items)};
}
Node dict(std::vector<std::string> keys, std::vector<Node> items) {
  return {.kind = 'D', .keys = std::move(keys), .items = std::move(items)};
}

void write_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out += static_cast<char>(value >> static_cast<unsigned>(8 * i));
}
void write_text(std::string& out, const std::string& text) {
  out += 'X';
  write_little_endian(out, text.size(), 4);
  out += text;
}
void write_node(std::string& out, const Node& node) {
  if (node.kind == 'N') {
    out += 'N';
  } else if (node.kind == 'I') {
    out += "\x8a\x08";
    write_little_endian(out, static_cast<std::uint64_t>(node.integer), 8);
  } else if (node.kind == 'T') {
    write_text(out, node.text);
  } else {
    out += node.kind == 'L' ? "](" : "}(";
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (node.kind == 'D') write_text(out, node.keys[i]);
      write_node(out, node.items[i]);
    }
    out += node.kind == 'L' ? 'e' : 'u';
  }
}
std::string pickle_of(const Node& node) {
  std::string out = "\x80\x02";
  write_node(out, node);
  return out + '.';
}

// Returns "rows", or the problem.
std::string outcome_of(const std::string& pickle) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            fmt::format("tidemark-snapshot-fuzz-{}.pickle", getpid()))
                               .string();
  std::ofstream(path, std::ios::binary) << pickle;
  std::string outcome = "rows";
  try {
    const ReplayResult result = replay_snapshot(path, std::nullopt, {.capacity = kGiB});
    CHECK(result.snapshot.has_value());
  } catch (const UserError& error) {
    outcome = error.problem();
  }
  std::filesystem::remove(path);
  return outcome;
}

Node sound_snapshot() {
  const auto entry = [](const std::string& action, std::int64_t address, std::int64_t size) {
    return dict({"action", action == "oom" ? "device_free" : "addr", "size", "stream"},
                {word(action), whole(address), whole(size), whole(0)});
  };
  const auto block = [](const std::string& state, std::int64_t size) {
    return dict({"size", "state", "requested_size"}, {whole(size), word(state), whole(size - 1)});
  };
  return dict({"segments", "device_traces"},
              {list({dict({"device", "address", "stream", "blocks"},
                          {whole(0), whole(1 << 20), whole(0),
                           list({block("active_allocated", 512), block("active_pending_free", 512),
                                 block("inactive", 4096)})})}),
               list({list({entry("segment_alloc", 1 << 20, 2 << 20), entry("alloc", 1 << 20, 511),
                           entry("free_requested", (1 << 20) + 512, 511),
                           entry("segment_unmap", 7 << 20, 2 << 20), entry("oom", 5, 100),
                           entry("free_completed", (1 << 20) + 2048, 99)})})});
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a snapshot with parts of other kinds, other numbers or without them is reported") {
    REQUIRE(outcome_of(pickle_of(sound_snapshot())) == "rows");
    const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    const std::vector<Node> others{Node(),
                                   whole(-1),
                                   whole(3),
                                   whole(huge),
                                   word("x"),
                                   list({}),
                                   list({whole(1)}),
                                   dict({}, {}),
                                   whole(1),
                                   whole(0),
                                   dict({"size"}, {whole(1)})};
    // Every part in turn is replaced by each of the others, and left out.
    std::size_t told = 0;
    std::size_t tried = 0;
    const auto attempt = [&](const Node& top) {
      ++tried;
      if (outcome_of(pickle_of(top)) != "rows") ++told;
    };
    Node top = sound_snapshot();
    const std::function<void(Node&)> damage = [&](Node& node) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const Node sound = node.items[i];
        for (const Node& other : others) {
          node.items[i] = other;
          attempt(top);
        }
        node.items[i] = sound;
        const Node complete = node;
        node.items.erase(node.items.begin() + static_cast<std::ptrdiff_t>(i));
        if (node.kind == 'D') node.keys.erase(node.keys.begin() + static_cast<std::ptrdiff_t>(i));
        attempt(top);
        node = complete;
        damage(node.items[i]);
      }
    };
    for (const Node& other : others)
      attempt(other);
    damage(top);
    CHECK(tried > 500);
    CHECK(told > tried / 2);
    CHECK(told < tried);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a small file that is the same parts again and again is refused, not unrolled") {
    const auto lacks = [](const std::string& pickle, const std::string& text) {
      const std::string problem = outcome_of(pickle);
      CAPTURE(problem);
      CHECK(problem.find(text) != std::string::npos);
    };
    // A list of one segment, 20000 times; the segment has 2000 blocks.
    std::vector<Node> blocks(2000, dict({"size", "state"}, {whole(512), word("inactive")}));
    const Node segment = dict({"device", "address", "stream", "blocks"},
                              {whole(0), whole(0), whole(0), list(blocks)});
    std::string many = "\x80\x02}(";
    write_text(many, "segments");
    many += "](";
    write_node(many, segment);
    many += std::string("q\0", 2);
    for (int i = 0; i < 20000; ++i)
      many += std::string("h\0", 2);
    many += 'e';
    write_text(many, "device_traces");
    write_node(many, sound_snapshot().items[1]);
    lacks(many + "u.", "the same again and again");
    // A dict with 10000 keys, 10000 times an entry.
    std::string wide = "\x80\x02}(";
    write_text(wide, "device_traces");
    wide += "](](";
    Node entry = dict({"action"}, {word("none")});
    for (int i = 0; i < 10000; ++i) {
      entry.keys.push_back("k");
      entry.items.emplace_back();
    }
    write_node(wide, entry);
    wide += std::string("q\0", 2);
    for (int i = 0; i < 10000; ++i)
      wide += std::string("h\0", 2);
    lacks(wide + "eeu.", "shared so often");
    lacks("\x80\x02" + std::string(3'000'000, ']') + ".", "lists and dicts; no snapshot");
  }

  TEST_CASE("segments freed before one that the trace has room for are an empty_cache") {
    const std::vector<std::vector<Entry>> fits{{{"segment_alloc", 0, 60},
                                                {"alloc", 0, 60},
                                                {"free_requested", 0, 60},
                                                {"free_completed", 0, 60},
                                                {"segment_free", 0, 60},
                                                {"segment_alloc", 100, 20},
                                                {"alloc", 100, 20},
                                                {"free_requested", 100, 20},
                                                {"free_completed", 100, 20},
                                                {"segment_free", 100, 20},
                                                {"segment_alloc", 200, 40},
                                                {"alloc", 200, 40}}};
    // The first release may have been a retry (60 + 20 > 60), but nothing says that the device was
    // so small; the second was none: 20 + 40 = 60.
    CHECK(rows_of(fits) == "a0:60 f0 e a1:20 f1 e a2:40");
    const SnapshotFile file(fits, {});
    const SnapshotReader reader(file.path(), std::nullopt);
    CHECK(reader.summary().retry_releases == 0);
    CHECK(reader.summary().empty_caches == 2);
    CHECK(reader.summary().unclear_releases == 1);
  }

  // Freed segments of 60, then one of 80, which is more than the trace has had.
  std::vector<SnapshotFrame> frames_of(const std::string& name) {
    if (name.empty()) return {};
    return {{.name = name, .file = {}}};
  }
  std::vector<std::vector<Entry>> grown(const std::string& frame) {
    return {{{"segment_alloc", 0, 60},
             {"alloc", 0, 60},
             {"free_requested", 0, 60},
             {"free_completed", 0, 60},
             {"segment_free", 0, 60, 0, frames_of(frame)},
             {"segment_alloc", 100, 80},
             {"alloc", 100, 80}}};
  }

  TEST_CASE("frames tell an empty_cache from a retry where segments grow") {
    CHECK(rows_of(grown("empty_cache")) == "a0:60 f0 e a1:80");
    CHECK(rows_of(grown("c10::cuda::CUDACachingAllocator::emptyCache()")) == "a0:60 f0 e a1:80");
    CHECK(rows_of(grown("torch::nn::linear")) == "a0:60 f0 a1:80");
    CHECK(rows_of(grown("")) == "a0:60 f0 e a1:80");
  }

  TEST_CASE("a failed allocation tells how large the device is, and so what was a retry") {
    // 80 are reserved when 30 more find 20 free: a device of 100. 60 + 80 do not fit it; in one of
    // 150 they would.
    for (const std::int64_t free : {20, 70}) {
      std::vector<std::vector<Entry>> traces = grown("");
      traces[0].push_back({"oom", free, 30});
      CHECK(rows_of(traces) ==
            (free == 20 ? "a0:60 f0 a1:80 o2:30 f2" : "a0:60 f0 e a1:80 o2:30 f2"));
    }
  }

  TEST_CASE("segments of a private pool are refused by its name") {
    const std::vector<BlockState> blocks{{512, "active_allocated", 512}};
    CHECK(problem_of({{{"alloc", 0, 512}}}, {{0, blocks, 0}}).starts_with("accepted"));
    const std::string problem = problem_of({{{"alloc", 0, 512}}}, {{0, blocks, 3}});
    CHECK(problem.find("the private pool (0, 3)") != std::string::npos);
    CHECK(problem.find("CUDA graph") != std::string::npos);
  }

  TEST_CASE("allocations and frees of a snapshot become rows; addresses may be used again") {
    CHECK(rows_of({{{"segment_alloc", 0, 2 << 20},
                    {"alloc", 0, 512},
                    {"free_requested", 0, 512},
                    {"free_completed", 0, 512},
                    {"alloc", 0, 700},
                    {"snapshot", 0, 0}}}) == "a0:512 f0 a1:700");
  }

  TEST_CASE("a free that waits for streams is two rows") {
    CHECK(rows_of({{{"alloc", 0, 512},
                    {"free_requested", 0, 512},
                    {"alloc", 512, 600},
                    {"free_completed", 0, 512}}}) == "a0:512 q0 a1:600 c0");
  }

  TEST_CASE("segments freed without an allocation behind them tell of an empty_cache") {
    CHECK(rows_of({{{"alloc", 0, 512},
                    {"segment_free", 9, 2},
                    {"segment_free", 8, 2},
                    {"segment_alloc", 7, 2},
                    {"alloc", 7, 800},
                    {"segment_free", 6, 2},
                    {"oom", 100, 900},
                    {"segment_unmap", 5, 2}}}) == "a0:512 e a1:800 o2:900 f2 e");
  }

  TEST_CASE("what was live before the recording is allocated first, by address") {
    // 4096 is freed in the trace, 1024 waits since before it; 2048 and 0 are live to the end.
    const std::vector<SegmentState> segments{
        {0, {{1024, "active_allocated", 1000}, {1024}, {1024, "active_allocated", 900}, {1024}}},
        {8192, {{512, "active_pending_free", 300}}}};
    const std::vector<std::vector<Entry>> traces{{{"alloc", 6000, 10},
                                                  {"free_requested", 4096, 77},
                                                  {"free_completed", 4096, 77},
                                                  {"free_completed", 1024, 55}}};
    const SnapshotFile file(traces, segments);
    const SnapshotReader reader(file.path(), std::nullopt);
    CHECK(reader.summary().live_blocks == 5);
    CHECK(reader.summary().live_bytes.count == 1000 + 900 + 300 + 77 + 55);
    CHECK(reader.summary().contradicting_blocks == 0);
    CHECK(rows_of(traces, segments) == "a3:1000 a2:55 a4:900 a1:77 a5:300 q2 q5 a0:10 f1 c2");
  }

  TEST_CASE("of several devices one is chosen") {
    const std::vector<std::vector<Entry>> traces{{}, {{"alloc", 0, 1}}, {{"alloc", 0, 2}}};
    CHECK(problem_of(traces) ==
          "device_traces: there are entries of several devices; choose one with --device: 1, 2");
    CHECK(rows_of(traces, {}, 2) == "a0:2");
    CHECK(rows_of({{}, {{"alloc", 0, 1}}}) == "a0:1");
    CHECK(problem_of({{}}).starts_with("device_traces: is empty: nothing was recorded"));
  }

  TEST_CASE("an impossible entry is reported with its byte") {
    const auto fails = [](const std::vector<std::vector<Entry>>& traces, const std::string& text) {
      const std::string problem = problem_of(traces);
      CAPTURE(problem);
      CHECK(problem.starts_with("byte "));
      CHECK(problem.find(text) != std::string::npos);
    };
    fails({{{"alloc", 16, 512}, {"alloc", 16, 512}}},
          "address 0x10 is allocated a second time before it is freed");
    fails({{{"alloc", 16, 512},
            {"free_requested", 16, 512},
            {"free_completed", 16, 512},
            {"free_requested", 16, 512}}},
          "address 0x10 is freed twice");
    fails({{{"free_requested", 16, 512}, {"free_requested", 16, 512}}}, "is freed twice");
    fails({{{"alloc", 16, 512}, {"free_completed", 16, 512}}}, "completed without a request");
    fails({{{"alloc", 16, -1}}}, "'size' is negative: -1");
  }

  TEST_CASE("a deferred free keeps its block active until it is completed, or until a retry") {
    const std::int64_t mib = 1 << 20;
    const SnapshotFile file({{{"alloc", 0, 30 * mib},
                              {"free_requested", 0, 30 * mib},
                              {"alloc", 100 * mib, 30 * mib},
                              {"free_completed", 0, 30 * mib},
                              {"alloc", 200 * mib, 30 * mib}}},
                            {});
    const ReplayResult roomy = replay_snapshot(file.path(), std::nullopt, {.capacity = kGiB});
    CHECK(roomy.statistics.reserved_bytes.all.peak.count ==
          60 * mib);  // the third takes the first's
    CHECK(roomy.statistics.active_bytes.all.peak.count == 60 * mib);
    CHECK(roomy.statistics.allocated_bytes.all.peak.count == 60 * mib);
    const ReplayResult tight =
        replay_snapshot(file.path(), std::nullopt, {.capacity = Bytes(40 * mib)});
    // The second waits for the streams, then its segment is freed and taken again; the third fails.
    CHECK(tight.statistics.num_alloc_retries == 2);
    CHECK(tight.statistics.num_ooms == 1);
    CHECK(tight.final_state.active.count == 30 * mib);
    for (const ReplayAllocator allocator : {ReplayAllocator::kBfc, ReplayAllocator::kIdeal}) {
      const ReplayResult other =
          replay_snapshot(file.path(), std::nullopt, {.allocator = allocator, .capacity = kGiB});
      CHECK(other.final_state.active.count >= 60 * mib);
      CHECK(other.final_state.ooms == 0);
    }
  }

  TEST_CASE("the end of a free that a retry has ended before is no other block's") {
    const std::int64_t mib = 1 << 20;
    // The second allocation of 60 MiB ends the first free, and its block stands in the same place.
    const SnapshotFile file({{{"alloc", 900 * mib, 40 * mib},
                              {"alloc", 0, 40 * mib},
                              {"free_requested", 0, 40 * mib},
                              {"alloc", 100 * mib, 60 * mib},
                              {"free_requested", 100 * mib, 60 * mib},
                              {"free_completed", 0, 40 * mib}}},
                            {});
    const ReplayResult result =
        replay_snapshot(file.path(), std::nullopt, {.capacity = Bytes(100 * mib)});
    CHECK(result.statistics.num_alloc_retries == 1);
    CHECK(result.statistics.num_ooms == 0);
    CHECK(result.final_state.active.count == 100 * mib);  // 40 are live, 60 wait
  }
}

}  // namespace tidemark::snapshot_reader_test
