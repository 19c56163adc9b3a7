// Snapshots as PyTorch's own tools read them.
#include "plots/torch_snapshot.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "scenarios/read/scenario.hpp"
#include "sim/memory/torch/torch_options.hpp"
#include "sim/memory/torch/torch_recorder.hpp"
#include "sim/memory/trace/replay.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/run_compiled.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::torch_snapshot_test {

namespace {

// Returns the options in `kind` or `{kind: torch, ...}`.
TorchAllocatorOptions options_in(std::string_view allocator) {
  const Value value = parse_document(allocator, "allocator");
  return value.is_mapping() ? decode_torch_options(Decoder(value)) : TorchAllocatorOptions();
}

// A run written as a snapshot.
struct Snapshot {
  Scenario scenario;
  TrainedModel model;
  Compiled compiled;
  Scratch scratch;
  std::unique_ptr<const TorchRecorder> recorder;
  TorchAllocatorOptions options;
  std::string path;

  Snapshot(std::string_view allocator, std::string_view policies, std::string_view capacity)
      : scenario(decode(fmt::format(
            "{{version: 1, model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: 4096, "
            "sequence: 256}}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}}}}}, training: "
            "{{micro_batch: 4, sequence: 256}}, allocator: {}, policies: {}}}",
            capacity, allocator, policies))),
        model(build_training(scenario)),
        compiled(compile(scenario, model)),
        recorder(run_recorded(scenario, compiled, scratch)),
        options(options_in(allocator)),
        path((std::filesystem::temp_directory_path() /
              fmt::format("tidemark-torch-snapshot-{}.pickle", getpid()))
                 .string()) {
    std::ofstream out(path, std::ios::binary);
    write_torch_snapshot(out, model.training, compiled.order, compiled.program,
                         memory_timeline(compiled.program, scratch), *recorder);
  }
  ~Snapshot() { std::filesystem::remove(path); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
};

Bytes context() {
  return decode(scenario_text("")).device.framework.context;
}

struct Reader {
  const Pickle& pickle;
  [[nodiscard]] const PickleValue& at(const PickleValue& dict, std::string_view key) const {
    const PickleValue* value = pickle.find(dict, key);
    REQUIRE(value != nullptr);
    return *value;
  }
  [[nodiscard]] std::int64_t number(const PickleValue& dict, std::string_view key) const {
    REQUIRE(at(dict, key).kind() == PickleKind::kInteger);
    return at(dict, key).integer();
  }
  [[nodiscard]] std::string text(const PickleValue& dict, std::string_view key) const {
    return std::string(pickle.text(at(dict, key)));
  }
  [[nodiscard]] std::span<const PickleValue> list(const PickleValue& dict,
                                                  std::string_view key) const {
    return pickle.items(at(dict, key));
  }
};

// Checks what segsum of torch/cuda/_memory_viz.py asserts, and that blocks fill their segments.
void check_segments(const Reader& read, std::int64_t reserved) {
  std::int64_t total_reserved = 0;
  std::int64_t total_allocated = 0;
  std::int64_t free_external = 0;
  std::int64_t free_internal = 0;
  for (const PickleValue& segment : read.list(read.pickle.top(), "segments")) {
    total_reserved += read.number(segment, "total_size");
    std::int64_t address = read.number(segment, "address");
    std::int64_t allocated = 0;
    for (const PickleValue& block : read.list(segment, "blocks")) {
      const std::int64_t size = read.number(block, "size");
      CHECK(read.number(block, "address") == address);
      address += size;
      if (read.text(block, "state") == "active_allocated") {
        const std::int64_t requested = read.number(block, "requested_size");
        total_allocated += requested;
        free_internal += size - requested;
        allocated += size;
        CHECK(requested <= size);
        REQUIRE(read.list(block, "frames").size() == 3);
        CHECK_FALSE(read.text(read.list(block, "frames")[0], "name").empty());
      } else {
        free_external += size;
      }
    }
    CHECK(address == read.number(segment, "address") + read.number(segment, "total_size"));
    CHECK(allocated == read.number(segment, "allocated_size"));
  }
  CHECK(free_external + free_internal + total_allocated == total_reserved);
  CHECK(total_reserved == reserved);
}

// The trace from an empty device to the end makes the final blocks, in the way the viewer replays
// it.
void check_trace(const Reader& read) {
  std::map<std::int64_t, std::int64_t> live;  // address to size
  std::set<std::int64_t> waiting;
  std::map<std::int64_t, std::int64_t> segments;
  std::set<std::string> categories;
  std::int64_t before = 0;
  const auto traces = read.list(read.pickle.top(), "device_traces");
  REQUIRE(traces.size() == 1);
  for (const PickleValue& entry : read.pickle.items(traces[0])) {
    const std::string action = read.text(entry, "action");
    categories.insert(read.text(entry, "category"));
    CHECK(read.number(entry, "time_us") >= before);
    before = read.number(entry, "time_us");
    const std::int64_t size = read.number(entry, "size");
    if (action == "oom") {
      CHECK(read.number(entry, "device_free") >= 0);
      continue;
    }
    const std::int64_t address = read.number(entry, "addr");
    if (action == "alloc") {
      CHECK(live.emplace(address, size).second);
      CHECK(read.list(entry, "frames").size() == 3);
      CHECK_FALSE(waiting.contains(address));
    } else if (action == "free_requested") {
      CHECK(live.at(address) == size);
      live.erase(address);
      waiting.insert(address);
    } else if (action == "free_completed") {
      CHECK(waiting.erase(address) == 1);
    } else if (action == "segment_alloc") {
      CHECK(segments.emplace(address, size).second);
    } else if (action == "segment_free") {
      CHECK(segments.at(address) == size);
      segments.erase(address);
    } else {
      CHECK((action == "segment_map" || action == "segment_unmap"));
    }
  }
  CHECK(categories.contains("unknown"));  // else the viewer of 2.4 fails
  CHECK(categories.contains("parameter"));
  CHECK(categories.contains("activation"));
  for (const PickleValue& segment : read.list(read.pickle.top(), "segments")) {
    const bool expandable = read.at(segment, "is_expandable").integer() != 0;
    if (!expandable) {
      CHECK(segments.at(read.number(segment, "address")) == read.number(segment, "total_size"));
    }
    for (const PickleValue& block : read.list(segment, "blocks")) {
      const std::string state = read.text(block, "state");
      const std::int64_t address = read.number(block, "address");
      CHECK((state == "active_allocated") == live.contains(address));
      CHECK((state == "active_pending_free") == waiting.contains(address));
      if (state == "active_allocated") {
        CHECK(live.at(address) == read.number(block, "requested_size"));
      }
    }
  }
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("a snapshot adds up, ends where its trace ends, and replays to the same peaks") {
    for (const std::string_view allocator : {"torch", "{kind: torch, expandable_segments: true}",
                                             "{kind: torch, roundup_power2_divisions: 4}"}) {
      for (const std::string_view policies : {"[]", "[offload_activations: {}]"}) {
        // The second device is too small.
        const std::string tight = fmt::format("{}", context().count + 90 * kMiB.count);
        for (const std::string& capacity : {std::string("79GiB"), tight}) {
          CAPTURE(allocator);
          CAPTURE(policies);
          CAPTURE(capacity);
          const Snapshot snapshot(allocator, policies, capacity);
          const TorchStatistics& s = snapshot.recorder->torch().core().statistics();
          const Pickle pickle(snapshot.path);
          const Reader read{pickle};
          check_segments(read, s.reserved_bytes.all.current.count);
          check_trace(read);
          const ReplayResult replayed =
              replay_snapshot(snapshot.path, std::nullopt,
                              {.capacity = snapshot.scenario.device.hbm.capacity -
                                           snapshot.scenario.device.framework.context,
                               .torch = snapshot.options});
          CHECK(replayed.statistics.num_ooms == s.num_ooms);
          CHECK(replayed.statistics.allocated_bytes.all.peak == s.allocated_bytes.all.peak);
          CHECK(replayed.statistics.active_bytes.all.peak == s.active_bytes.all.peak);
          CHECK(replayed.statistics.reserved_bytes.all.peak == s.reserved_bytes.all.peak);
          CHECK(replayed.snapshot->live_blocks == 0);
          if (capacity == tight) CHECK(s.num_ooms == 1);
        }
      }
    }
  }

  TEST_CASE("python's pickle loads a snapshot") {
    if (std::system("python3 -c 'import pickle' >/dev/null 2>&1") != 0) {
      MESSAGE("skipped: there is no python3");
      return;
    }
    const Snapshot snapshot("torch", "[offload_activations: {}]", "79GiB");
    const std::string script = snapshot.path + ".py";
    std::ofstream(script) << R"(import pickle, pickletools, sys
data = open(sys.argv[1], 'rb').read()
known = {'PROTO', 'STOP', 'MARK', 'EMPTY_DICT', 'EMPTY_LIST', 'APPENDS', 'SETITEMS', 'BINUNICODE',
         'BININT', 'BININT1', 'BININT2', 'LONG1', 'NEWTRUE', 'NEWFALSE', 'TUPLE2', 'BINPUT', 'BINGET'}
used = {op.name for op, _, _ in pickletools.genops(data)}
assert used <= known, used - known
snapshot = pickle.loads(data)
assert set(snapshot) == {'segments', 'device_traces'}
total = 0
for segment in snapshot['segments']:
    assert segment['segment_type'] in ('large', 'small') and segment['segment_pool_id'] == (0, 0)
    assert sum(block['size'] for block in segment['blocks']) == segment['total_size']
    total += segment['total_size']
for entry in snapshot['device_traces'][0]:
    assert isinstance(entry['action'], str) and isinstance(entry['size'], int)
    for frame in entry.get('frames', []):
        assert set(frame) == {'name', 'filename', 'line'}
assert len(snapshot['device_traces'][0]) > 1000  # more than one batch of a list
print(total)
)";
    const std::string output = snapshot.path + ".out";
    const int code = std::system(
        fmt::format("python3 '{}' '{}' >'{}' 2>&1", script, snapshot.path, output).c_str());
    std::ifstream file(output);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    CAPTURE(text);
    CHECK(code == 0);
    CHECK(text == fmt::format("{}\n", snapshot.recorder->reserved().count));
    std::filesystem::remove(script);
    std::filesystem::remove(output);
  }
}

}  // namespace tidemark::torch_snapshot_test
