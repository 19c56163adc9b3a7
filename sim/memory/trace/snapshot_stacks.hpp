// Reads the stacks of a PyTorch snapshot's entries: who has allocated, and why segments were freed.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/memory/trace/pickle_reader.hpp"
#include "sim/memory/trace/stack_names.hpp"

namespace tidemark {

// The cause of a run of freed segments, as far as the stack of its entries tells.
enum class SegmentRelease { kUnknown, kEmptyCache, kAllocation };

struct SnapshotLabel {
  std::string text;  // for example "forward model.py:42"
  RecordedNames names;
};

class SnapshotStacks {
 public:
  // Without `labels` only causes of releases are read.
  SnapshotStacks(const Pickle& pickle, bool labels) : pickle_(pickle), with_labels_(labels) {}

  // Newer versions note who has freed a segment: empty_cache(), or the allocation that retries.
  [[nodiscard]] SegmentRelease release_of(const PickleValue& entry) const;
  // Returns the label of the frames, the metadata and the compiled graph of an entry or a block:
  // its index in take_labels(), 0 for the empty one.
  [[nodiscard]] std::uint32_t label_of(const PickleValue& dict);
  [[nodiscard]] std::vector<SnapshotLabel> take_labels() { return std::move(labels_); }

 private:
  // Reads the frames into stack_; returns the innermost Python frame outside of PyTorch, else the
  // innermost one.
  [[nodiscard]] std::string read_frames(const PickleValue& frames);

  const Pickle& pickle_;
  bool with_labels_;
  StackNames stack_names_;
  std::vector<StackFrame> stack_;  // innermost first
  std::vector<SnapshotLabel> labels_{SnapshotLabel{}};
  std::unordered_map<std::string, std::uint32_t> known_labels_;
};

}  // namespace tidemark
