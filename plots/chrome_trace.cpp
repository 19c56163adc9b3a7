#include "plots/chrome_trace.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/compile.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plots/role_style.hpp"

namespace tidemark {
namespace chrome_trace_detail {
namespace {

// The processes of a device have its number and the host its own, as in Kineto.
constexpr int kDevice = 0;
constexpr int kDeviceSortIndex = 1 << 24;  // Kineto's sort index: devices below the host
constexpr int kHostProcess = 1000;
constexpr int kHostThread = 1000;
constexpr std::size_t kFlushAt = std::size_t{1} << 16;  // bytes

// Returns the CUDA stream: PyTorch's default stream is 7; side streams come from its pools.
int stream_number(Stream stream) {
  constexpr std::array<int, kStreams> kNumbers{7,  20, 24, 28, 32, 36, 40,
                                               44, 48, 52, 56, 60, 64, 68};
  return kNumbers[static_cast<std::size_t>(stream)];
}

// Returns a text as JSON, with its quotes.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A time that is written as microseconds, to the nanosecond.
struct Microseconds {
  Duration time{};
};

}  // namespace
}  // namespace chrome_trace_detail
}  // namespace tidemark

template <>
struct fmt::formatter<tidemark::chrome_trace_detail::Microseconds> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(tidemark::chrome_trace_detail::Microseconds written, Context& context) const {
    const std::int64_t ns = written.time.count();
    return fmt::format_to(context.out(), FMT_COMPILE("{}.{:03}"), ns / 1000, ns % 1000);
  }
};

namespace tidemark {
namespace chrome_trace_detail {
namespace {

class ChromeWriter {
 public:
  ChromeWriter(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
               const TraceModel& model, const TraceTitle& title)
      : out_(out), graph_(graph), program_(program), model_(model), title_(title) {
    for (const Operator& op : graph.operators)
      operators_.push_back(json_text(op.name));
    for (const Layer& layer : graph.layers)
      layers_.push_back(json_text(layer.name));
  }
  void write();

 private:
  // Writes a text whose `format` is compiled (FMT_COMPILE): half of a trace's time was reading
  // format strings.
  template <class Format, class... Args>
  void event(const Format& format, const Args&... args) {
    line_.append(first_ ? std::string_view("\n") : std::string_view(",\n"));
    first_ = false;
    fmt::format_to(std::back_inserter(line_), format, args...);
    if (line_.size() > kFlushAt) flush();
  }
  void flush() {
    out_.write(line_.data(), static_cast<std::streamsize>(line_.size()));
    line_.clear();
  }
  void heading();
  void names();
  void annotations();
  void slice(const TraceSlice& slice);
  void flow(const TraceFlow& flow, std::size_t id);
  void counters();
  void lifetimes();
  [[nodiscard]] std::string_view layer_of(const TraceSlice& slice) const {
    const LayerId layer = graph_.operators[slice.op].layer;
    return layer.valid() ? std::string_view(layers_[layer.index()]) : std::string_view("\"\"");
  }

  std::ostream& out_;
  const TrainingGraph& graph_;
  const StepProgram& program_;
  const TraceModel& model_;
  const TraceTitle& title_;
  fmt::memory_buffer line_;
  bool first_ = true;
  std::vector<std::string> operators_;  // names as JSON
  std::vector<std::string> layers_;
};

// Writes the heading. Holistic Trace Analysis looks for "rank": N, with the blank, near the
// beginning.
void ChromeWriter::heading() {
  fmt::format_to(std::back_inserter(line_),
                 "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"rank\": 0, \"world_size\": "
                 "{}}},\n\"deviceProperties\": [{{\"id\": {}, \"name\": {}, \"totalGlobalMem\": "
                 "{}}}],\n\"traceName\": {},\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [",
                 title_.ranks, kDevice, json_text(title_.device), title_.capacity.count,
                 json_text(title_.name));
}

void ChromeWriter::names() {
  const auto name = [&](const char* kind, int pid, int tid, const std::string& text) {
    event(
        FMT_COMPILE(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"name": {}}}}})"),
        kind, pid, tid, json_text(text));
  };
  const auto describe = [&](int pid, const char* labels, int sort_index) {
    event(
        FMT_COMPILE(
            R"({{"ph": "M", "name": "process_labels", "pid": {}, "tid": 0, "args": {{"labels": "{}"}}}})"),
        pid, labels);
    event(
        FMT_COMPILE(
            R"({{"ph": "M", "name": "process_sort_index", "pid": {}, "tid": 0, "args": {{"sort_index": {}}}}})"),
        pid, sort_index);
  };
  describe(kHostProcess, "CPU", kHostProcess);
  describe(kDevice, "GPU 0", kDeviceSortIndex);
  name("process_name", kHostProcess, 0, "host");
  name("thread_name", kHostProcess, kHostThread, "dispatch");
  name("process_name", kDevice, 0, "GPU 0: " + title_.device);
  std::array<bool, kStreams> used{};
  for (const TraceSlice& slice : model_.slices)
    used[static_cast<std::size_t>(slice.stream)] = true;
  for (std::size_t s = 0; s < kStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (!used[s]) continue;
    name("thread_name", kDevice, stream_number(stream),
         fmt::format("stream {} ({})", stream_number(stream), name_of(stream)));
  }
}

// Writes steps and phases, around the kernels on the compute stream and steps around their
// dispatch.
void ChromeWriter::annotations() {
  for (const TraceSpan& span : model_.spans) {
    const std::string name = span.whole_step ? fmt::format("ProfilerStep#{}", span.step)
                                             : std::string(name_of(span.phase));
    event(
        FMT_COMPILE(
            R"({{"ph": "X", "cat": "gpu_user_annotation", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})"),
        name, kDevice, stream_number(Stream::kCompute), Microseconds{span.begin},
        Microseconds{span.end - span.begin});
  }
  for (std::size_t first = 0; first < model_.slices.size();) {
    std::size_t last = first;
    while (last + 1 < model_.slices.size() &&
           model_.slices[last + 1].step == model_.slices[first].step) {
      ++last;
    }
    const Duration begin = model_.slices[first].host_begin;
    event(
        FMT_COMPILE(
            R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})"),
        model_.slices[first].step, kHostProcess, kHostThread, Microseconds{begin},
        Microseconds{model_.slices[last].host_end - begin});
    first = last + 1;
  }
}

void ChromeWriter::slice(const TraceSlice& slice) {
  const int stream = stream_number(slice.stream);
  const bool launch = slice.opcode == Opcode::kLaunch;
  const std::string_view name = launch ? std::string_view(operators_[slice.op.index()])
                                : slice.opcode == Opcode::kCopyOut ? "\"Memcpy DtoH\""
                                                                   : "\"Memcpy HtoD\"";
  event(
      FMT_COMPILE(
          R"({{"ph": "X", "cat": "cpu_op", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"External id": {}}}}})"),
      name, kHostProcess, kHostThread, Microseconds{slice.host_begin},
      Microseconds{slice.host_end - slice.host_begin}, slice.instruction);
  // The dispatch is one figure: the call of the runtime takes all of it.
  event(
      FMT_COMPILE(
          R"({{"ph": "X", "cat": "cuda_runtime", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"External id": {}, "correlation": {}}}}})"),
      launch ? "cudaLaunchKernel" : "cudaMemcpyAsync", kHostProcess, kHostThread,
      Microseconds{slice.host_begin}, Microseconds{slice.host_end - slice.host_begin},
      slice.instruction, slice.instruction);
  if (slice.restored > Duration(0)) {
    event(
        FMT_COMPILE(
            R"({{"ph": "X", "cat": "kernel", "name": "restore evicted", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"stream": {}, "device": {}, "step": {}, "phase": "{}", "recompute": true}}}})"),
        kDevice, stream, Microseconds{slice.begin - slice.restored}, Microseconds{slice.restored},
        stream, kDevice, slice.step, name_of(slice.phase));
  }
  if (launch) {
    event(
        FMT_COMPILE(
            R"({{"ph": "X", "cat": "kernel", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"stream": {}, "device": {}, "External id": {}, "correlation": {}, "step": {}, "phase": "{}", "layer": {}, "recompute": {}}}}})"),
        name, kDevice, stream, Microseconds{slice.begin}, Microseconds{slice.end - slice.begin},
        stream, kDevice, slice.instruction, slice.instruction, slice.step, name_of(slice.phase),
        layer_of(slice), slice.recompute);
    return;
  }
  const std::int64_t bytes = program_.allocations[slice.allocation].bytes.count;
  const auto ns = static_cast<double>(std::max(slice.end - slice.begin, Duration(1)).count());
  event(
      FMT_COMPILE(
          R"-({{"ph": "X", "cat": "gpu_memcpy", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{"stream": {}, "device": {}, "External id": {}, "correlation": {}, "step": {}, "phase": "{}", "bytes": {}, "memory bandwidth (GB/s)": {:.3f}, "tensor": {}}}}})-"),
      name, kDevice, stream, Microseconds{slice.begin}, Microseconds{slice.end - slice.begin},
      stream, kDevice, slice.instruction, slice.instruction, slice.step, name_of(slice.phase),
      bytes, static_cast<double>(bytes) / ns,
      json_text(allocation_name(graph_, program_, slice.allocation)));
}

// Writes a flow; "bp": "e" binds the end to the slice around it instead of the next one.
void ChromeWriter::flow(const TraceFlow& flow, std::size_t id) {
  const TraceSlice& from = model_.slices[flow.from];
  const TraceSlice& to = model_.slices[flow.to];
  event(
      FMT_COMPILE(
          R"({{"ph": "s", "cat": "{0}", "name": "{0}", "id": {1}, "pid": {2}, "tid": {3}, "ts": {4}}})"),
      name_of(flow.kind), id, kDevice, stream_number(from.stream), Microseconds{from.begin});
  event(
      FMT_COMPILE(
          R"({{"ph": "f", "bp": "e", "cat": "{0}", "name": "{0}", "id": {1}, "pid": {2}, "tid": {3}, "ts": {4}}})"),
      name_of(flow.kind), id, kDevice, stream_number(to.stream), Microseconds{to.begin});
}

void ChromeWriter::counters() {
  std::array<bool, kRoles> used{};
  for (const TraceCounter& counter : model_.counters) {
    for (std::size_t r = 0; r < kRoles; ++r)
      used[r] = used[r] || counter.by_role[r] != Bytes(0);
  }
  std::string roles;
  for (const TraceCounter& counter : model_.counters) {
    roles.clear();
    for (const Role role : kStackOrder) {
      const auto r = static_cast<std::size_t>(role);
      if (!used[r]) continue;
      fmt::format_to(std::back_inserter(roles), FMT_COMPILE("{}\"{}\": {}"),
                     roles.empty() ? "" : ", ", name_of(role), counter.by_role[r].count);
    }
    event(
        FMT_COMPILE(
            R"({{"ph": "C", "name": "live memory by role", "pid": {}, "tid": 0, "ts": {}, "args": {{{}}}}})"),
        kDevice, Microseconds{counter.time}, roles);
    event(
        FMT_COMPILE(
            R"({{"ph": "C", "name": "reserved memory", "pid": {}, "tid": 0, "ts": {}, "args": {{"reserved": {}}}}})"),
        kDevice, Microseconds{counter.time}, counter.reserved.count);
  }
}

void ChromeWriter::lifetimes() {
  for (std::size_t i = 0; i < model_.lifetimes.size(); ++i) {
    const TraceLifetime& life = model_.lifetimes[i];
    const Allocation& allocation = program_.allocations[life.allocation];
    const std::string name = json_text(allocation_name(graph_, program_, life.allocation));
    event(
        FMT_COMPILE(
            R"({{"ph": "b", "cat": "tensor", "name": {}, "id": {}, "pid": {}, "tid": 0, "ts": {}, "args": {{"bytes": {}, "role": "{}"}}}})"),
        name, i, kDevice, Microseconds{life.begin}, allocation.bytes.count,
        name_of(allocation.role));
    event(
        FMT_COMPILE(
            R"({{"ph": "e", "cat": "tensor", "name": {}, "id": {}, "pid": {}, "tid": 0, "ts": {}}})"),
        name, i, kDevice, Microseconds{life.end});
  }
}

void ChromeWriter::write() {
  heading();
  names();
  annotations();
  for (const TraceSlice& s : model_.slices)
    slice(s);
  for (std::size_t f = 0; f < model_.flows.size(); ++f)
    flow(model_.flows[f], f);
  counters();
  lifetimes();
  line_.append(std::string_view("\n]}\n"));
  flush();
}

}  // namespace
}  // namespace chrome_trace_detail

void write_chrome_trace(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
                        const TraceModel& model, const TraceTitle& title) {
  chrome_trace_detail::ChromeWriter(out, graph, program, model, title).write();
}

}  // namespace tidemark
