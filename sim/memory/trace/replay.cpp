#include "sim/memory/trace/replay.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "sim/memory/trace/id_map.hpp"
#include "sim/memory/trace/replay_targets.hpp"

namespace tidemark {
namespace replay_detail {
namespace {

constexpr Bytes kLiveRounding{512};
constexpr std::string_view kHeader =
    "op,id,bytes,stream,addr,allocated,reserved,active,inactive_split,segments,retries,ooms\n";

// Ids that were freed, 64 to a word.
class IdSet {
 public:
  void insert(std::int64_t id) { words_[id >> 6] |= bit(id); }
  [[nodiscard]] bool contains(std::int64_t id) {
    const std::uint64_t* word = words_.find(id >> 6);
    return word != nullptr && (*word & bit(id)) != 0;
  }

 private:
  static std::uint64_t bit(std::int64_t id) { return std::uint64_t{1} << (id & 63); }
  IdMap<std::uint64_t> words_;
};

class RowWriter {
 public:
  explicit RowWriter(WholeFile* file) : file_(file) {
    if (file_ != nullptr) file_->write(kHeader);
  }
  void write(const TraceRow& row, Bytes address, const ReplayState& state) {
    if (file_ == nullptr) return;
    const std::array<std::int64_t, 11> fields{row.id,
                                              row.bytes.count,
                                              row.stream,
                                              address.count,
                                              state.allocated.count,
                                              state.reserved.count,
                                              state.active.count,
                                              state.inactive_split.count,
                                              state.segments,
                                              state.retries,
                                              state.ooms};
    char* at = text_.data();
    *at++ = static_cast<char>(row.op);
    for (std::int64_t field : fields) {
      *at++ = ',';
      at = std::to_chars(at, text_.data() + text_.size(), field).ptr;
    }
    *at++ = '\n';
    file_->write({text_.data(), static_cast<std::size_t>(at - text_.data())});
  }

 private:
  WholeFile* file_;
  std::array<char, 256> text_{};  // twelve fields of at most 20 digits
};

template <class Target, class Reader>
class Replay {
 public:
  Replay(Reader& reader, const ReplayOptions& options, WholeFile* csv)
      : reader_(reader), target_(options), writer_(csv), layout_(options.layout) {}

  ReplayResult run();

 private:
  // The allocation of an id. A request of zero bytes, or one that failed, has nothing to free.
  struct Live {
    typename Target::Handle handle{};
    Bytes bytes;
    bool failed = false;
  };
  struct Waiting {
    typename Target::Handle handle{};
    std::uint64_t number = 0;  // as Target::defer_free() has given it
  };

  // The functions about rows return false when the row is left out.
  bool allocate(TraceRow& row, Bytes& address);
  bool free(const TraceRow& row);
  bool request_free(TraceRow& row);
  void complete_free(const TraceRow& row);
  bool record_stream(const TraceRow& row);
  void begin_step(const TraceRow& row);
  void note_step_peaks(const ReplayState& state);
  [[nodiscard]] Live& live(const TraceRow& row, std::string_view what);

  Reader& reader_;
  Target target_;
  RowWriter writer_;
  bool layout_;
  ReplayResult result_;
  IdMap<Live> live_;
  IdMap<Waiting> waiting_;  // freed, but a stream may still use them
  IdSet freed_;
  Bytes live_512_;
};

template <class Target, class Reader>
ReplayResult Replay<Target, Reader>::run() {
  TraceRow row;
  while (reader_.next(row)) {
    Bytes address(-1);
    bool written = true;
    switch (row.op) {
      case TraceOp::kAllocate:
      case TraceOp::kFailed:
        written = allocate(row, address);
        break;
      case TraceOp::kFree:
        written = free(row);
        break;
      case TraceOp::kRequestFree:
        written = request_free(row);
        break;
      case TraceOp::kCompleteFree:
        complete_free(row);
        written = false;
        break;
      case TraceOp::kRecordStream:
        written = record_stream(row);
        break;
      case TraceOp::kEmptyCache:
        target_.tick();
        target_.empty_cache();
        break;
      case TraceOp::kMark:
        begin_step(row);
        break;
    }
    if (!written) continue;
    ++result_.rows;
    const ReplayState state = target_.state();
    if (!result_.steps.empty()) note_step_peaks(state);
    writer_.write(row, address, state);
  }
  result_.final_state = target_.state();
  target_.finish(result_, layout_);
  return std::move(result_);
}

template <class Target, class Reader>
bool Replay<Target, Reader>::allocate(TraceRow& row, Bytes& address) {
  if (const Live* known = live_.find(row.id); known != nullptr && !known->failed) {
    reader_.fail("id", fmt::format("id {} is live: it is allocated a second time before it is "
                                   "freed",
                                   row.id));
  }
  target_.tick();
  Live entry{.bytes = row.bytes};
  row.op = TraceOp::kAllocate;
  if (row.bytes > Bytes(0)) {
    entry.handle = target_.allocate(row.bytes, row.stream);
    entry.failed = entry.handle == typename Target::Handle{};
  }
  if (entry.failed) {
    row.op = TraceOp::kFailed;
  } else if (row.bytes > Bytes(0)) {
    address = Target::address(entry.handle);
    live_512_ += round_up(row.bytes, kLiveRounding);
    result_.peak_live_512 = std::max(result_.peak_live_512, live_512_);
  }
  live_[row.id] = entry;
  return true;
}

template <class Target, class Reader>
typename Replay<Target, Reader>::Live& Replay<Target, Reader>::live(const TraceRow& row,
                                                                    std::string_view what) {
  if (Live* found = live_.find(row.id)) return *found;
  if (freed_.contains(row.id)) {
    reader_.fail("id", fmt::format("id {} is {} after it was freed", row.id, what));
  }
  reader_.fail("id", fmt::format("id {} is {} but was never allocated", row.id, what));
}

template <class Target, class Reader>
bool Replay<Target, Reader>::free(const TraceRow& row) {
  Live& entry = live(row, "freed");
  const Live freed = entry;
  live_.erase(&entry);
  freed_.insert(row.id);
  if (freed.failed) return false;
  target_.tick();
  if (freed.bytes == Bytes(0)) return true;
  live_512_ -= round_up(freed.bytes, kLiveRounding);
  target_.free(freed.handle);
  return true;
}

template <class Target, class Reader>
bool Replay<Target, Reader>::request_free(TraceRow& row) {
  Live& entry = live(row, "freed");
  const Live freed = entry;
  live_.erase(&entry);
  freed_.insert(row.id);
  row.op = TraceOp::kFree;
  if (freed.failed) return false;
  target_.tick();
  if (freed.bytes == Bytes(0)) return true;
  live_512_ -= round_up(freed.bytes, kLiveRounding);
  waiting_[row.id] = {.handle = freed.handle, .number = target_.defer_free(freed.handle)};
  return true;
}

template <class Target, class Reader>
void Replay<Target, Reader>::complete_free(const TraceRow& row) {
  Waiting* entry = waiting_.find(row.id);
  if (entry == nullptr) return;  // nothing was allocated
  target_.finish_free(entry->handle, entry->number);
  waiting_.erase(entry);
}

template <class Target, class Reader>
bool Replay<Target, Reader>::record_stream(const TraceRow& row) {
  const Live& entry = live(row, "recorded on a stream");
  if (entry.failed) return false;
  target_.tick();
  if (entry.bytes > Bytes(0)) target_.record_stream(entry.handle, row.stream);
  return true;
}

template <class Target, class Reader>
void Replay<Target, Reader>::begin_step(const TraceRow& row) {
  const ReplayState state = target_.state();
  result_.steps.push_back(
      {.step = row.id, .reserved_at_start = state.reserved, .allocated_at_start = state.allocated});
}

template <class Target, class Reader>
void Replay<Target, Reader>::note_step_peaks(const ReplayState& state) {
  ReplayStep& step = result_.steps.back();
  step.peak_allocated = std::max(step.peak_allocated, state.allocated);
  step.peak_reserved = std::max(step.peak_reserved, state.reserved);
}

template <class Reader>
ReplayResult replay_rows(Reader& reader, const ReplayOptions& options, WholeFile* csv) {
  switch (options.allocator) {
    case ReplayAllocator::kTorch:
      return Replay<TorchTarget, Reader>(reader, options, csv).run();
    case ReplayAllocator::kBfc:
      return Replay<BfcTarget, Reader>(reader, options, csv).run();
    case ReplayAllocator::kIdeal:
      return Replay<IdealTarget, Reader>(reader, options, csv).run();
  }
  throw InternalError("an allocator without a replay");
}

}  // namespace
}  // namespace replay_detail

ReplayResult replay_trace(const std::string& path, const ReplayOptions& options, WholeFile* csv) {
  TraceReader reader(path);
  return replay_detail::replay_rows(reader, options, csv);
}

ReplayResult replay_snapshot(const std::string& path, std::optional<int> device,
                             const ReplayOptions& options, WholeFile* csv) {
  SnapshotReader reader(path, device);
  ReplayResult result = replay_detail::replay_rows(reader, options, csv);
  result.snapshot = reader.summary();
  return result;
}

}  // namespace tidemark
