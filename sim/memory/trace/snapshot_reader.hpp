// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot) as traces of allocator calls.
//
// The requests of the program are replayed: alloc, free_requested, free_completed, oom. The actions
// of the allocator (segment_alloc and its kin) are left to the replayed allocator, but freed
// segments show an empty_cache(), unless an allocation has freed them to retry: by the frames of
// the entry, or because it fails all the same, or because its new segment did not fit next to them
// into the device, whose size a failed allocation shows. Private pools (CUDA graphs, MemPool) are
// refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/memory/trace/pickle_reader.hpp"
#include "sim/memory/trace/snapshot_stacks.hpp"
#include "sim/memory/trace/trace_reader.hpp"

namespace tidemark {

// The way in which a snapshot became a trace, in figures.
struct SnapshotSummary {
  int device = 0;
  std::int64_t entries = 0;  // entries of the device's trace
  std::int64_t ignored = 0;  // entries with actions that are no calls of the program
  // The recording begins with blocks that are live already: those that it frees without having
  // allocated them, and those of the final segments that it never mentions. They are allocated
  // first, in the order of their addresses; when they were asked for is not known.
  std::int64_t live_blocks = 0;
  Bytes live_bytes;
  Bytes reserved_before;  // bytes of segments at the beginning of the recording
  // Final blocks in use where the trace says that nothing is in use; left out.
  std::int64_t contradicting_blocks = 0;
  // Runs of freed segments that were taken as an allocator's retry, and those taken as an
  // empty_cache().
  std::int64_t retry_releases = 0;
  std::int64_t empty_caches = 0;
  // Calls of empty_cache that may have been retries: nothing tells how large the device was.
  std::int64_t unclear_releases = 0;
};

// Whether a file is a pickle, by its name or by how it begins.
[[nodiscard]] bool is_pickle(const std::string& path);

class SnapshotReader {
 public:
  // `device` is the one whose trace is read; without it the only one that has entries. Throws
  // UserError with the byte of the file: no pickle, no snapshot, no entries, negative or huge
  // sizes, an address that is allocated or freed twice. `labels` also reads what the stacks of
  // allocations say.
  SnapshotReader(const std::string& path, std::optional<int> device, bool labels = false);

  bool next(TraceRow& row);
  // Throws a UserError about the last row.
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const;
  [[nodiscard]] const SnapshotSummary& summary() const { return summary_; }
  // Figures of the last row: bytes of all segments after it, and for an allocation the innermost
  // frame outside of PyTorch, "forward model.py:42", else the innermost one; empty without stacks.
  [[nodiscard]] Bytes reserved() const {
    return summary_.reserved_before + rows_[next_ - 1].reserved;
  }
  [[nodiscard]] const std::string& label() const { return labels_[rows_[next_ - 1].label].text; }
  // Returns the names in the last row's stack, its user_metadata and its compile_context.
  [[nodiscard]] const RecordedNames& names() const { return labels_[rows_[next_ - 1].label].names; }

 private:
  struct Row {
    TraceRow row;
    std::size_t offset = 0;  // offset of the entry in the file
    Bytes reserved;          // bytes beyond reserved_before
    std::uint32_t label = 0;
  };

  std::string path_;
  std::vector<Row> rows_;
  std::size_t next_ = 0;
  SnapshotSummary summary_;
  std::vector<SnapshotLabel> labels_;

  friend class SnapshotRows;
};

}  // namespace tidemark
