#include "plots/perfetto_trace.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "plots/protobuf_writer.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace perfetto_trace_detail {
namespace {

// Field numbers from perfetto/trace/*.proto.
namespace trace {
constexpr std::uint32_t kPacket = 1;
}
namespace packet {
constexpr std::uint32_t kTimestamp = 8;  // ns
constexpr std::uint32_t kSequence = 10;  // trusted_packet_sequence_id
constexpr std::uint32_t kEvent = 11;
constexpr std::uint32_t kSequenceFlags = 13;
constexpr std::uint32_t kTrack = 60;
constexpr std::uint64_t kIncrementalStateCleared = 1;  // one of the flags
}  // namespace packet
namespace track {
constexpr std::uint32_t kUuid = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kProcess = 3;
constexpr std::uint32_t kThread = 4;
constexpr std::uint32_t kParent = 5;
constexpr std::uint32_t kCounter = 8;
constexpr std::uint32_t kProcessPid = 1, kProcessName = 6;
constexpr std::uint32_t kThreadPid = 1, kThreadTid = 2, kThreadName = 5;
constexpr std::uint32_t kCounterUnit = 3;
constexpr std::uint64_t kBytes = 3;  // a unit
}  // namespace track
namespace event {
constexpr std::uint32_t kAnnotation = 4;
constexpr std::uint32_t kType = 9;
constexpr std::uint32_t kTrack = 11;
constexpr std::uint32_t kCategory = 22;
constexpr std::uint32_t kName = 23;
constexpr std::uint32_t kCounterValue = 30;
constexpr std::uint32_t kFlow = 47;             // fixed64: begins or passes here
constexpr std::uint32_t kTerminatingFlow = 48;  // fixed64: ends here
constexpr std::uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
constexpr std::uint32_t kAnnotationName = 10, kAnnotationInteger = 4, kAnnotationText = 6;
}  // namespace event

constexpr std::uint64_t kSequenceId = 1;
constexpr std::uint64_t kDeviceTrack = 1;  // uuids
constexpr std::uint64_t kHostTrack = 2;
constexpr std::uint64_t kHostThreadTrack = 3;
constexpr std::uint64_t kReservedTrack = 4;
constexpr std::uint64_t kStreamTracks = 16;
constexpr std::uint64_t kRoleTracks = 32;
constexpr int kDevicePid = 1;
constexpr int kHostPid = 1000;

class PerfettoWriter {
 public:
  PerfettoWriter(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
                 const TraceModel& model, const TraceTitle& title)
      : out_(out),
        graph_(graph),
        program_(program),
        model_(model),
        title_(title),
        leaving_(model.slices.size()),
        arriving_(model.slices.size()) {
    for (std::size_t f = 0; f < model.flows.size(); ++f) {
      leaving_[model.flows[f].from].push_back(f + 1);  // 0 is no flow
      arriving_[model.flows[f].to].push_back(f + 1);
    }
  }
  void write();

 private:
  void put();  // writes packet_ as a packet of the trace
  void describe_process(std::uint64_t uuid, int pid, const std::string& name);
  void describe_thread(std::uint64_t uuid, int pid, int tid, std::string_view name);
  void describe_counter(std::uint64_t uuid, std::string_view name);
  // Starts event_ as the beginning of a slice; put_event() writes it.
  void begin(std::uint64_t track, std::string_view category, std::string_view name);
  void annotate(std::string_view name, std::int64_t value);
  void annotate(std::string_view name, std::string_view value);
  void put_event(Duration time);
  void end(std::uint64_t track, Duration time);
  void counter(std::uint64_t track, Duration time, Bytes value);
  void tracks();
  void stream(Stream stream);
  void slice(const TraceSlice& slice, std::size_t index);
  void host();
  void counters();

  std::ostream& out_;
  const TrainingGraph& graph_;
  const StepProgram& program_;
  const TraceModel& model_;
  const TraceTitle& title_;
  std::vector<std::vector<std::uint64_t>> leaving_;  // by slice: flows that leave it
  std::vector<std::vector<std::uint64_t>> arriving_;
  ProtobufMessage packet_;
  ProtobufMessage event_;
  ProtobufMessage part_;
  ProtobufMessage framed_;
  bool first_ = true;
};

void PerfettoWriter::put() {
  packet_.varint(packet::kSequence, kSequenceId);
  if (first_) packet_.varint(packet::kSequenceFlags, packet::kIncrementalStateCleared);
  first_ = false;
  framed_.clear();
  framed_.message(trace::kPacket, packet_);
  out_.write(framed_.bytes().data(), static_cast<std::streamsize>(framed_.bytes().size()));
  packet_.clear();
}

void PerfettoWriter::describe_process(std::uint64_t uuid, int pid, const std::string& name) {
  ProtobufMessage descriptor;
  descriptor.varint(track::kUuid, uuid);
  ProtobufMessage process;
  process.integer(track::kProcessPid, pid);
  process.text(track::kProcessName, name);
  descriptor.message(track::kProcess, process);
  packet_.message(packet::kTrack, descriptor);
  put();
}

void PerfettoWriter::describe_thread(std::uint64_t uuid, int pid, int tid, std::string_view name) {
  ProtobufMessage descriptor;
  descriptor.varint(track::kUuid, uuid);
  descriptor.varint(track::kParent, pid == kHostPid ? kHostTrack : kDeviceTrack);
  ProtobufMessage thread;
  thread.integer(track::kThreadPid, pid);
  thread.integer(track::kThreadTid, tid);
  thread.text(track::kThreadName, name);
  descriptor.message(track::kThread, thread);
  packet_.message(packet::kTrack, descriptor);
  put();
}

void PerfettoWriter::describe_counter(std::uint64_t uuid, std::string_view name) {
  ProtobufMessage descriptor;
  descriptor.varint(track::kUuid, uuid);
  descriptor.varint(track::kParent, kDeviceTrack);
  descriptor.text(track::kName, name);
  ProtobufMessage counter;
  counter.varint(track::kCounterUnit, track::kBytes);
  descriptor.message(track::kCounter, counter);
  packet_.message(packet::kTrack, descriptor);
  put();
}

void PerfettoWriter::begin(std::uint64_t track, std::string_view category, std::string_view name) {
  event_.clear();
  event_.varint(event::kType, event::kSliceBegin);
  event_.varint(event::kTrack, track);
  event_.text(event::kCategory, category);
  event_.text(event::kName, name);
}

void PerfettoWriter::annotate(std::string_view name, std::int64_t value) {
  part_.clear();
  part_.text(event::kAnnotationName, name);
  part_.integer(event::kAnnotationInteger, value);
  event_.message(event::kAnnotation, part_);
}

void PerfettoWriter::annotate(std::string_view name, std::string_view value) {
  part_.clear();
  part_.text(event::kAnnotationName, name);
  part_.text(event::kAnnotationText, value);
  event_.message(event::kAnnotation, part_);
}

void PerfettoWriter::put_event(Duration time) {
  packet_.integer(packet::kTimestamp, time.count());
  packet_.message(packet::kEvent, event_);
  put();
}

void PerfettoWriter::end(std::uint64_t track, Duration time) {
  event_.clear();
  event_.varint(event::kType, event::kSliceEnd);
  event_.varint(event::kTrack, track);
  put_event(time);
}

void PerfettoWriter::counter(std::uint64_t track, Duration time, Bytes value) {
  event_.clear();
  event_.varint(event::kType, event::kCounter);
  event_.varint(event::kTrack, track);
  event_.integer(event::kCounterValue, value.count);
  put_event(time);
}

void PerfettoWriter::tracks() {
  describe_process(kDeviceTrack, kDevicePid, fmt::format("GPU 0: {}", title_.device));
  describe_process(kHostTrack, kHostPid, "host");
  describe_thread(kHostThreadTrack, kHostPid, kHostPid, "dispatch");
  for (std::size_t s = 0; s < kStreams; ++s) {
    describe_thread(kStreamTracks + s, kDevicePid, static_cast<int>(kStreamTracks + s),
                    name_of(static_cast<Stream>(s)));
  }
  describe_counter(kReservedTrack, "reserved memory");
  for (const Role role : kStackOrder) {
    describe_counter(kRoleTracks + static_cast<std::uint64_t>(role), style_of(role).label);
  }
}

void PerfettoWriter::slice(const TraceSlice& slice, std::size_t index) {
  const std::uint64_t track = kStreamTracks + static_cast<std::uint64_t>(slice.stream);
  const bool launch = slice.opcode == Opcode::kLaunch;
  if (slice.restored > Duration(0)) {
    begin(track, "kernel", "restore evicted");
    put_event(slice.begin - slice.restored);
    end(track, slice.begin);
  }
  begin(track, launch ? "kernel" : "gpu_memcpy",
        launch                             ? std::string_view(graph_.operators[slice.op].name)
        : slice.opcode == Opcode::kCopyOut ? "Memcpy DtoH"
                                           : "Memcpy HtoD");
  for (const std::uint64_t flow : leaving_[index])
    event_.fixed64(event::kFlow, flow);
  for (const std::uint64_t flow : arriving_[index])
    event_.fixed64(event::kTerminatingFlow, flow);
  annotate("correlation", slice.instruction);
  if (launch) {
    annotate("layer", graph_.layer_name(graph_.operators[slice.op].layer));
    if (slice.recompute) annotate("recompute", 1);
  } else {
    annotate("tensor", allocation_name(graph_, program_, slice.allocation));
    annotate("bytes", program_.allocations[slice.allocation].bytes.count);
  }
  put_event(slice.begin);
  end(track, slice.end);
}

// Writes the slices of one stream, which follow each other; on the compute stream steps and phases
// are around them.
void PerfettoWriter::stream(Stream stream) {
  const std::uint64_t track = kStreamTracks + static_cast<std::uint64_t>(stream);
  std::vector<Duration> open;  // ends of the spans around the slice
  std::size_t next = 0;        // span
  const auto close_until = [&](Duration time) {
    for (; !open.empty() && open.back() <= time; open.pop_back())
      end(track, open.back());
  };
  for (std::size_t s = 0; s < model_.slices.size(); ++s) {
    const TraceSlice& at = model_.slices[s];
    if (at.stream != stream) continue;
    const Duration first = at.begin - at.restored;
    if (stream == Stream::kCompute) {
      // A slice that takes no time stays inside the span that ends with it.
      if (next < model_.spans.size() && model_.spans[next].begin <= first) close_until(first);
      for (; next < model_.spans.size() && model_.spans[next].begin <= first; ++next) {
        const TraceSpan& span = model_.spans[next];
        begin(
            track, "gpu_user_annotation",
            span.whole_step ? fmt::format("step {}", span.step) : std::string(name_of(span.phase)));
        put_event(span.begin);
        open.push_back(span.end);
        if (open.size() > 1) open.back() = std::min(open.back(), open[open.size() - 2]);
      }
    }
    slice(at, s);
  }
  close_until(Duration::max());
}

void PerfettoWriter::host() {
  for (const TraceSlice& slice : model_.slices) {
    begin(kHostThreadTrack, "cpu_op",
          slice.opcode == Opcode::kLaunch ? std::string_view(graph_.operators[slice.op].name)
                                          : "memcpy");
    annotate("correlation", slice.instruction);
    put_event(slice.host_begin);
    end(kHostThreadTrack, slice.host_end);
  }
}

// Writes the counters; values that stay the same are not repeated.
void PerfettoWriter::counters() {
  BytesByRole last{};
  Bytes reserved(-1);
  for (const TraceCounter& at : model_.counters) {
    for (std::size_t r = 0; r < kRoles; ++r) {
      if (at.by_role[r] == last[r]) continue;
      last[r] = at.by_role[r];
      counter(kRoleTracks + r, at.time, last[r]);
    }
    if (at.reserved == reserved) continue;
    reserved = at.reserved;
    counter(kReservedTrack, at.time, reserved);
  }
}

void PerfettoWriter::write() {
  tracks();
  for (std::size_t s = 0; s < kStreams; ++s)
    stream(static_cast<Stream>(s));
  host();
  counters();
}

}  // namespace
}  // namespace perfetto_trace_detail

void write_perfetto_trace(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
                          const TraceModel& model, const TraceTitle& title) {
  perfetto_trace_detail::PerfettoWriter(out, graph, program, model, title).write();
}

}  // namespace tidemark
