#include "sim/memory/trace/snapshot_reader.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "sim/memory/trace/id_map.hpp"
#include "sim/memory/trace/snapshot_fields.hpp"
#include "sim/memory/trace/text_file.hpp"

namespace tidemark {

bool is_pickle(const std::string& path) {
  constexpr char kProto = '\x80';  // no text begins with it
  if (path.ends_with(".pickle") || path.ends_with(".pkl")) return true;
  return beginning_of(path).starts_with(kProto);
}

// Blocks that a snapshot of any size may have; each further one takes more than a byte in the file.
constexpr std::size_t kFreeBlocks = 1024;
constexpr std::size_t kBlockBytes = 8;

// Makes the rows of one device.
class SnapshotRows {
 public:
  SnapshotRows(const Pickle& pickle, SnapshotReader& reader, bool labels)
      : pickle_(pickle), reader_(reader), stacks_(pickle, labels) {}

  void read(std::optional<int> device);

 private:
  // The state of an address at the moment.
  struct Place {
    std::int64_t id = 0;
    bool live = false;
    bool waits = false;  // freed, but a stream may still use it
  };
  struct Initial {
    std::int64_t address = 0;
    TraceRow row;
    std::size_t offset = 0;
    bool waits = false;
    std::uint32_t label = 0;
  };

  void read_entries(const PickleValue& trace);
  void allocate(const PickleValue& entry);
  void request_free(const PickleValue& entry);
  void complete_free(const PickleValue& entry);
  void fail_to_allocate(const PickleValue& entry);
  void read_reserved(const PickleValue& trace);
  [[nodiscard]] std::int64_t changed_reserved(const PickleValue& entry, std::string_view action,
                                              std::int64_t before) const;
  void end_segment_frees(const PickleValue& entry, std::string_view action);
  void read_segments(const PickleValue& segments, int device);
  void count_block(const PickleValue& block);
  void read_block(const PickleValue& block, std::int64_t address, std::int64_t bytes,
                  std::int64_t stream);
  Initial& add_initial(std::int64_t address, std::int64_t bytes, std::int64_t stream,
                       std::size_t offset);
  void add(TraceOp op, std::int64_t id, std::int64_t bytes, std::int64_t stream,
           std::size_t offset) {
    reader_.rows_.push_back({{.op = op, .id = id, .bytes = Bytes(bytes), .stream = stream},
                             offset,
                             Bytes(reserved_),
                             0});
  }
  void put_initial_first();

  const Pickle& pickle_;
  SnapshotReader& reader_;
  SnapshotStacks stacks_;
  IdMap<Place> places_;  // by address
  std::vector<Initial> initial_;
  std::int64_t next_id_ = 0;
  std::size_t blocks_ = 0;  // number of blocks in the final segments
  // Bytes of segments beyond those at the beginning of the trace, which the trace does not record.
  std::int64_t reserved_ = 0;
  std::int64_t most_reserved_ = 0;  // maximum over the whole trace
  // The most that the device can hold beyond the same bytes, from what a failed allocation found
  // free.
  std::optional<std::int64_t> device_;
  bool frees_segments_ = false;
  SegmentRelease release_ = SegmentRelease::kUnknown;
  std::int64_t reserved_before_frees_ = 0;
};

void SnapshotRows::read(std::optional<int> device) {
  const PickleValue& top = pickle_.top();
  if (top.kind() != PickleKind::kDict) {
    pickle_.fail(top.offset(), fmt::format("a snapshot is a dict, found {}", name_of(top.kind())));
  }
  const PickleValue& traces = field_of(pickle_, top, "device_traces", PickleKind::kList);
  const int chosen = choose_device(pickle_, traces, device);
  reader_.summary_.device = chosen;
  read_entries(pickle_.items(traces)[static_cast<std::size_t>(chosen)]);
  read_segments(field_of(pickle_, top, "segments", PickleKind::kList), chosen);
  put_initial_first();
  reader_.labels_ = stacks_.take_labels();
}

std::int64_t SnapshotRows::changed_reserved(const PickleValue& entry, std::string_view action,
                                            std::int64_t before) const {
  const bool takes = action == "segment_alloc" || action == "segment_map";
  const bool returns = action == "segment_free" || action == "segment_unmap";
  if (!takes && !returns) return before;
  const std::int64_t size = number_of(pickle_, entry, "size");
  std::int64_t after = 0;
  if (!checked_add(before, takes ? size : -size, after)) {
    pickle_.fail(entry.offset(), "the segments are more than 2^63 bytes together");
  }
  return after;
}

void SnapshotRows::read_reserved(const PickleValue& trace) {
  std::int64_t reserved = 0;
  for (const PickleValue& entry : pickle_.items(trace)) {
    const std::string_view action =
        pickle_.text(field_of(pickle_, entry, "action", PickleKind::kText));
    reserved = changed_reserved(entry, action, reserved);
    most_reserved_ = std::max(most_reserved_, reserved);
    const PickleValue* free = pickle_.find(entry, "device_free");
    if (action != "oom" || free == nullptr) continue;
    std::int64_t whole = 0;
    if (!checked_add(reserved, number_of(pickle_, entry, "device_free"), whole)) {
      pickle_.fail(free->offset(), "the device has more than 2^63 bytes");
    }
    device_ = std::max(device_.value_or(whole), whole);
  }
}

void SnapshotRows::read_entries(const PickleValue& trace) {
  read_reserved(trace);
  for (const PickleValue& entry : pickle_.items(trace)) {
    const std::string_view action =
        pickle_.text(field_of(pickle_, entry, "action", PickleKind::kText));
    ++reader_.summary_.entries;
    refuse_private_pool(pickle_, entry, "pool_id", "the entry is one");
    const std::int64_t before = reserved_;
    reserved_ = changed_reserved(entry, action, before);
    if (action == "segment_free" || action == "segment_unmap") {
      if (!frees_segments_) {
        reserved_before_frees_ = before;
        release_ = stacks_.release_of(entry);
      }
      frees_segments_ = true;
      continue;
    }
    end_segment_frees(entry, action);
    if (action == "alloc") {
      allocate(entry);
    } else if (action == "free_requested") {
      request_free(entry);
    } else if (action == "free_completed") {
      complete_free(entry);
    } else if (action == "oom") {
      fail_to_allocate(entry);
    } else if (action != "segment_alloc" && action != "segment_map") {
      ++reader_.summary_.ignored;
    }
  }
  end_segment_frees(trace, {});
}

// Segments are freed before an allocation that found no memory, or because the program has asked
// for it. Where the frames do not say which, the new segment does: if it fits next to the freed
// ones, since the trace has as much at another time or the device is as large, the allocation would
// have found memory. Where nothing tells, the program has asked: at the capacity of the recording
// the replay of a retry is the same.
void SnapshotRows::end_segment_frees(const PickleValue& entry, std::string_view action) {
  if (!frees_segments_) return;
  frees_segments_ = false;
  const bool takes = action == "segment_alloc" || action == "segment_map";
  bool retry = action == "oom" || (takes && release_ == SegmentRelease::kAllocation);
  if (takes && release_ == SegmentRelease::kUnknown) {
    const std::int64_t size = number_of(pickle_, entry, "size");
    const bool seen = size <= most_reserved_ - reserved_before_frees_;
    retry = !seen && device_ && size > *device_ - reserved_before_frees_;
    if (!seen && !device_) ++reader_.summary_.unclear_releases;
  }
  if (retry) {
    ++reader_.summary_.retry_releases;
  } else {
    ++reader_.summary_.empty_caches;
    add(TraceOp::kEmptyCache, 0, 0, 0, entry.offset());
  }
}

void SnapshotRows::allocate(const PickleValue& entry) {
  const std::int64_t address = number_of(pickle_, entry, "addr");
  const std::int64_t bytes = number_of(pickle_, entry, "size");
  Place& place = places_[address];
  if (place.live || place.waits) {
    pickle_.fail(
        entry.offset(),
        fmt::format("address {:#x} is allocated a second time before it is freed", address));
  }
  place = {.id = next_id_++, .live = true};
  add(TraceOp::kAllocate, place.id, bytes, number_of(pickle_, entry, "stream"), entry.offset());
  reader_.rows_.back().label = stacks_.label_of(entry);
}

// An address that the trace has not seen yet was live before it.
void SnapshotRows::request_free(const PickleValue& entry) {
  const std::int64_t address = number_of(pickle_, entry, "addr");
  Place* place = places_.find(address);
  if (place == nullptr) {
    add_initial(address, number_of(pickle_, entry, "size"), number_of(pickle_, entry, "stream"),
                entry.offset());
    place = places_.find(address);
  }
  if (!place->live) {
    pickle_.fail(entry.offset(), fmt::format("address {:#x} is freed twice", address));
  }
  place->live = false;
  place->waits = true;
  add(TraceOp::kRequestFree, place->id, 0, 0, entry.offset());
}

void SnapshotRows::complete_free(const PickleValue& entry) {
  const std::int64_t address = number_of(pickle_, entry, "addr");
  Place* place = places_.find(address);
  if (place == nullptr) {
    Initial& initial = add_initial(address, number_of(pickle_, entry, "size"),
                                   number_of(pickle_, entry, "stream"), entry.offset());
    initial.waits = true;
    place = places_.find(address);
    place->live = false;
    place->waits = true;
  }
  if (!place->waits) {
    pickle_.fail(entry.offset(),
                 fmt::format("the free of address {:#x} is completed without a request", address));
  }
  place->waits = false;
  // The free was not delayed if its end follows at once.
  if (!reader_.rows_.empty()) {
    TraceRow& last = reader_.rows_.back().row;
    if (last.op == TraceOp::kRequestFree && last.id == place->id) {
      last.op = TraceOp::kFree;
      return;
    }
  }
  add(TraceOp::kCompleteFree, place->id, 0, 0, entry.offset());
}

// If it succeeds in the replay, nobody would use or free it, so it is freed at once.
void SnapshotRows::fail_to_allocate(const PickleValue& entry) {
  const std::int64_t id = next_id_++;
  add(TraceOp::kFailed, id, number_of(pickle_, entry, "size"), number_of(pickle_, entry, "stream"),
      entry.offset());
  add(TraceOp::kFree, id, 0, 0, entry.offset());
}

SnapshotRows::Initial& SnapshotRows::add_initial(std::int64_t address, std::int64_t bytes,
                                                 std::int64_t stream, std::size_t offset) {
  places_[address] = {.id = next_id_, .live = true};
  ++reader_.summary_.live_blocks;
  std::int64_t& live = reader_.summary_.live_bytes.count;
  if (!checked_add(live, bytes, live)) {
    pickle_.fail(offset, "the live blocks are more than 2^63 bytes together");
  }
  initial_.push_back(
      {.address = address,
       .row = {.op = TraceOp::kAllocate, .id = next_id_++, .bytes = Bytes(bytes), .stream = stream},
       .offset = offset});
  return initial_.back();
}

void SnapshotRows::count_block(const PickleValue& block) {
  if (++blocks_ <= kFreeBlocks + pickle_.bytes() / kBlockBytes) return;
  pickle_.fail(block.offset(),
               fmt::format("the segments have more than {} blocks; a file of {} bytes has so many "
                           "only if they are the same again and again",
                           blocks_ - 1, pickle_.bytes()));
}

// A final block in use at an address that the trace never names was there from the beginning.
void SnapshotRows::read_block(const PickleValue& block, std::int64_t address, std::int64_t bytes,
                              std::int64_t stream) {
  const std::string_view state = pickle_.text(field_of(pickle_, block, "state", PickleKind::kText));
  const bool waits = state == "active_pending_free" || state == "active_awaiting_free";
  if (state != "active_allocated" && !waits) return;
  const Place* place = places_.find(address);
  if (place == nullptr) {
    const bool knows = pickle_.find(block, "requested_size") != nullptr;
    Initial& initial =
        add_initial(address, knows ? number_of(pickle_, block, "requested_size") : bytes, stream,
                    block.offset());
    initial.waits = waits;
    initial.label = stacks_.label_of(block);
  } else if (!place->live && !place->waits) {
    ++reader_.summary_.contradicting_blocks;
  }
}

void SnapshotRows::read_segments(const PickleValue& segments, int device) {
  std::int64_t final_reserved = 0;
  for (const PickleValue& segment : pickle_.items(segments)) {
    if (number_of(pickle_, segment, "device") != device) continue;
    refuse_private_pool(pickle_, segment, "segment_pool_id", "the segment is one");
    std::int64_t address = number_of(pickle_, segment, "address");
    const std::int64_t stream = number_of(pickle_, segment, "stream");
    for (const PickleValue& block :
         pickle_.items(field_of(pickle_, segment, "blocks", PickleKind::kList))) {
      count_block(block);
      const std::int64_t size = number_of(pickle_, block, "size");
      read_block(block, address, size, stream);
      if (!checked_add(final_reserved, size, final_reserved)) {
        pickle_.fail(block.offset(), "the segments are more than 2^63 bytes together");
      }
      if (!checked_add(address, size, address)) {
        pickle_.fail(block.offset(), "the block ends behind address 2^63");
      }
    }
  }
  // The trace of a recording may contradict its segments; the bytes at its beginning are at least
  // 0.
  reader_.summary_.reserved_before =
      Bytes(final_reserved >= reserved_ ? final_reserved - reserved_ : 0);
}

void SnapshotRows::put_initial_first() {
  std::sort(initial_.begin(), initial_.end(),
            [](const Initial& a, const Initial& b) { return a.address < b.address; });
  std::vector<SnapshotReader::Row> first;
  for (const Initial& block : initial_)
    first.push_back({block.row, block.offset, Bytes(0), block.label});
  for (const Initial& block : initial_) {
    if (block.waits) {
      first.push_back(
          {{.op = TraceOp::kRequestFree, .id = block.row.id}, block.offset, Bytes(0), 0});
    }
  }
  reader_.rows_.insert(reader_.rows_.begin(), first.begin(), first.end());
}

SnapshotReader::SnapshotReader(const std::string& path, std::optional<int> device, bool labels)
    : path_(path) {
  const Pickle pickle(path);
  SnapshotRows(pickle, *this, labels).read(device);
}

bool SnapshotReader::next(TraceRow& row) {
  if (next_ == rows_.size()) return false;
  row = rows_[next_++].row;
  return true;
}

void SnapshotReader::fail(std::string_view /*name*/, const std::string& problem) const {
  throw UserError({.file = path_}, {},
                  fmt::format("byte {}: {}", rows_[next_ - 1].offset, problem));
}

}  // namespace tidemark
