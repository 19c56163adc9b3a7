// PyTorch's memory snapshots as traces.
#include "sim/memory/trace/snapshot_reader.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plots/pickle_writer.hpp"
#include "sim/memory/trace/replay.hpp"

using namespace tidemark;

namespace {

struct Entry {
  std::string action;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
};
struct BlockState {
  std::int64_t size = 0;
  std::string state = "inactive";
  std::int64_t requested = 0;
};
struct SegmentState {
  std::int64_t address = 0;
  std::vector<BlockState> blocks;
};

// A snapshot with a trace per device; the segments are device 0's.
class SnapshotFile {
 public:
  SnapshotFile(const std::vector<std::vector<Entry>>& traces,
               const std::vector<SegmentState>& segments)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("tidemark-snapshot-{}.pickle", getpid()))
                  .string()) {
    std::ofstream out(path_, std::ios::binary);
    PickleWriter pickle(out);
    const auto integer = [&](std::string_view key, std::int64_t value) {
      pickle.key(key);
      pickle.integer(value);
    };
    const auto list = [&](std::string_view key, const auto& items, const auto& write) {
      pickle.key(key);
      pickle.begin_list();
      for (const auto& item : items) {
        pickle.begin_item();
        write(item);
      }
      pickle.end_list();
    };
    pickle.begin_dict();
    list("segments", segments, [&](const SegmentState& segment) {
      pickle.begin_dict();
      integer("device", 0);
      integer("address", segment.address);
      integer("stream", 0);
      list("blocks", segment.blocks, [&](const BlockState& block) {
        pickle.begin_dict();
        integer("size", block.size);
        integer("requested_size", block.requested);
        pickle.key("state");
        pickle.text(block.state);
        pickle.end_dict();
      });
      pickle.end_dict();
    });
    list("device_traces", traces, [&](const std::vector<Entry>& trace) {
      pickle.begin_list();
      for (const Entry& entry : trace) {
        pickle.begin_item();
        pickle.begin_dict();
        pickle.key("action");
        pickle.word(entry.action);
        integer(entry.action == "oom" ? "device_free" : "addr", entry.address);
        integer("size", entry.size);
        integer("stream", entry.stream);
        pickle.end_dict();
      }
      pickle.end_list();
    });
    pickle.end_dict();
    pickle.finish();
  }
  ~SnapshotFile() { std::filesystem::remove(path_); }
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "a0:512 f0": op, id and, of an allocation, the bytes.
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
    if (row.bytes > 0) text += ':' + std::to_string(row.bytes);
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

}  // namespace

TEST_SUITE("unit") {
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
                    {"segment_unmap", 5, 2}}}) == "a0:512 a1:800 o2:900 f2 e");
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
    CHECK(reader.summary().live_bytes == 1000 + 900 + 300 + 77 + 55);
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

  TEST_CASE("what cannot be is told with the byte of the entry") {
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
    CHECK(roomy.statistics.reserved_bytes.all.peak == 60 * mib);  // the third takes the first's
    CHECK(roomy.statistics.active_bytes.all.peak == 60 * mib);
    CHECK(roomy.statistics.allocated_bytes.all.peak == 60 * mib);
    const ReplayResult tight =
        replay_snapshot(file.path(), std::nullopt, {.capacity = Bytes(40 * mib)});
    // The second waits for the streams, the segment goes back and is taken again; the third fails.
    CHECK(tight.statistics.num_alloc_retries == 2);
    CHECK(tight.statistics.num_ooms == 1);
    CHECK(tight.final_state.active == 30 * mib);
    for (const ReplayAllocator allocator : {ReplayAllocator::kBfc, ReplayAllocator::kIdeal}) {
      const ReplayResult other =
          replay_snapshot(file.path(), std::nullopt, {.allocator = allocator, .capacity = kGiB});
      CHECK(other.final_state.active >= 60 * mib);
      CHECK(other.final_state.ooms == 0);
    }
  }
}
