// Recordings: traces of allocators and of PyTorch's profiler, its snapshots, eviction logs.
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/core/errors.hpp"
#include "plots/pickle_writer.hpp"
#include "policies/eviction/online/log_reader.hpp"
#include "scenarios/measured/profiler_trace.hpp"
#include "sim/memory/torch/torch_options.hpp"
#include "sim/memory/trace/peak_allocations.hpp"
#include "sim/memory/trace/replay.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace tidemark::fuzz {
namespace recording_targets_detail {
namespace {

// Replays with every allocator, on a device that most traces fill.
void replay(const std::string& path) {
  const Bytes capacity{std::int64_t{1} << 30};
  TorchAllocatorOptions expandable;
  expandable.expandable_segments = true;
  for (const ReplayOptions& options :
       {ReplayOptions{.allocator = ReplayAllocator::kTorch, .capacity = capacity, .layout = true},
        ReplayOptions{.capacity = capacity, .event_delay = 3, .torch = expandable, .layout = true},
        ReplayOptions{.allocator = ReplayAllocator::kBfc, .capacity = capacity},
        ReplayOptions{.allocator = ReplayAllocator::kIdeal, .capacity = capacity}}) {
    static_cast<void>(replay_trace(path, options));
  }
}

void read_trace(const std::string& bytes) {
  replay(file_with(bytes, "trace.csv"));
}

void read_snapshot(const std::string& bytes) {
  const std::string path = file_with(bytes, "snapshot.pickle");
  static_cast<void>(replay_snapshot(path, std::nullopt, {.capacity = Bytes{1 << 30}}));
  static_cast<void>(peak_of_snapshot(path, std::nullopt));
}

void read_profile_of_step(const std::string& bytes) {
  static_cast<void>(read_profiler_trace(file_with(bytes, "step.json")));
}

void read_log(const std::string& bytes) {
  static_cast<void>(parse_eviction_log(bytes, "eviction.log"));
}

// The command line says what option a text belongs to.
void read_alloc_conf(const std::string& bytes) {
  try {
    static_cast<void>(parse_alloc_conf(bytes));
  } catch (const std::invalid_argument& mistake) {
    throw UserError(mistake.what());
  }
}

struct Call {
  std::string action;
  std::int64_t address = 0;
  std::int64_t size = 0;
};

// A snapshot as PyTorch writes it, of one device: a segment with a block in use, and these calls.
std::string small_snapshot(const std::vector<Call>& calls) {
  std::ostringstream out;
  PickleWriter pickle(out);
  const auto integer = [&](std::string_view key, std::int64_t value) {
    pickle.key(key);
    pickle.integer(value);
  };
  pickle.begin_dict();
  pickle.key("segments");
  pickle.begin_list();
  pickle.begin_item();
  pickle.begin_dict();
  for (const auto& [key, value] : {std::pair("device", 0), std::pair("address", 4096),
                                   std::pair("total_size", 2 << 20), std::pair("stream", 0)}) {
    integer(key, value);
  }
  pickle.key("segment_pool_id");
  pickle.pair(0, 0);
  pickle.key("blocks");
  pickle.begin_list();
  pickle.begin_item();
  pickle.begin_dict();
  integer("size", 2 << 20);
  integer("requested_size", 1000);
  pickle.key("state");
  pickle.text("active_allocated");
  pickle.end_dict();
  pickle.end_list();
  pickle.end_dict();
  pickle.end_list();
  pickle.key("device_traces");
  pickle.begin_list();
  pickle.begin_item();
  pickle.begin_list();
  for (const Call& call : calls) {
    pickle.begin_item();
    pickle.begin_dict();
    pickle.key("action");
    pickle.text(call.action);
    integer("addr", call.address);
    integer("size", call.size);
    integer("stream", 0);
    pickle.key("frames");
    pickle.begin_list();
    pickle.begin_item();
    pickle.begin_dict();
    pickle.key("name");
    pickle.text("forward");
    pickle.key("filename");
    pickle.text("model.py");
    integer("line", 42);
    pickle.end_dict();
    pickle.end_list();
    pickle.end_dict();
  }
  pickle.end_list();
  pickle.end_list();
  pickle.end_dict();
  pickle.finish();
  return out.str();
}

}  // namespace
}  // namespace recording_targets_detail

std::vector<FuzzTarget> recording_targets() {
  using namespace recording_targets_detail;
  return {
      {.name = "allocator_trace",
       .texts = {"op,id,bytes,stream\nm,1,,\na,0,1024,0\na,1,3000000,1\nr,1,,2\nf,1,,\ne,,,\n"
                 "a,1,900000000,0\no,2,900000000,0\nf,0,,\nm,2,,\n"},
       .read = read_trace},
      {.name = "snapshot",
       .texts = {small_snapshot({{"segment_alloc", 4096, 2 << 20},
                                 {"alloc", 4096, 1000},
                                 {"free_requested", 4096, 1000},
                                 {"free_completed", 4096, 1000},
                                 {"segment_free", 4096, 2 << 20},
                                 {"segment_alloc", 4096, 2 << 20},
                                 {"alloc", 4096, 1000}}),
                 small_snapshot({{"alloc", 8192, 512}, {"oom", 100, 1 << 30}})},
       .read = read_snapshot},
      {.name = "profiler_trace",
       .texts =
           {"{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA A100\", \"totalGlobalMem\": "
            "1}], "
            "\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", "
            "\"args\": "
            "{\"External id\": 1, \"Input Dims\": [[8], [4, 16], [16, 8], [], []], \"Input type\": "
            "[\"c10::Half\", \"c10::Half\", \"c10::Half\", \"Scalar\", \"Scalar\"]}}, {\"ph\": "
            "\"X\", "
            "\"cat\": \"kernel\", \"name\": \"gemm\", \"dur\": 12.5, \"args\": {\"External id\": "
            "1}}, "
            "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::cudnn_convolution\", \"args\": "
            "{\"External id\": 2, \"Input Dims\": [[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], []], "
            "\"Input "
            "type\": [\"float\", \"float\"], \"Concrete Inputs\": [\"\", \"\", \"[1, 1]\", \"[1, "
            "1]\", "
            "\"[1, 1]\", \"1\"]}}, {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"tf32\", "
            "\"dur\": 3, "
            "\"args\": {\"External id\": 2}}]}"},
       .read = read_profile_of_step},
      {.name = "eviction_log", .seeds = {"tests/data/eviction/*.log"}, .read = read_log},
      {.name = "alloc_conf",
       .texts = {"max_split_size_mb:128,garbage_collection_threshold:0.8",
                 "expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:8]",
                 "backend:native,pinned_num_register_threads:8"},
       .read = read_alloc_conf},
  };
}

}  // namespace tidemark::fuzz
