#include "sim/memory/trace/snapshot_stacks.hpp"

#include <string_view>

#include <fmt/format.h>

namespace tidemark {

namespace snapshot_stacks_detail {
namespace {

// Returns the text of a key; empty without the key.
std::string_view text_of(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  const PickleValue* value = pickle.find(dict, key);
  return value != nullptr && value->kind() == PickleKind::kText ? pickle.text(*value)
                                                                : std::string_view();
}

}  // namespace
}  // namespace snapshot_stacks_detail

SegmentRelease SnapshotStacks::release_of(const PickleValue& entry) const {
  const PickleValue* frames = pickle_.find(entry, "frames");
  if (frames == nullptr || frames->kind() != PickleKind::kList) return SegmentRelease::kUnknown;
  bool any = false;
  for (const PickleValue& frame : pickle_.items(*frames)) {
    if (frame.kind() != PickleKind::kDict) continue;
    const PickleValue* name = pickle_.find(frame, "name");
    if (name == nullptr || name->kind() != PickleKind::kText) continue;
    any = true;
    const std::string_view text = pickle_.text(*name);
    const auto mentions = [&](std::string_view word) {
      return text.find(word) != std::string_view::npos;
    };
    if (mentions("empty_cache") || mentions("emptyCache")) return SegmentRelease::kEmptyCache;
  }
  return any ? SegmentRelease::kAllocation : SegmentRelease::kUnknown;
}

std::string SnapshotStacks::read_frames(const PickleValue& frames) {
  std::string python;
  bool outside = false;  // outside of PyTorch
  for (const PickleValue& frame : pickle_.items(frames)) {
    if (frame.kind() != PickleKind::kDict) continue;
    const StackFrame& read = stack_.emplace_back(
        StackFrame{snapshot_stacks_detail::text_of(pickle_, frame, "name"),
                   snapshot_stacks_detail::text_of(pickle_, frame, "filename")});
    if (outside || !read.file.ends_with(".py")) continue;
    const bool of_torch = read.file.find("/torch/") != std::string_view::npos;
    if (of_torch && !python.empty()) continue;
    outside = !of_torch;
    const PickleValue* line = pickle_.find(frame, "line");
    const bool numbered = line != nullptr && line->kind() == PickleKind::kInteger;
    python = fmt::format("{} {}{}", read.name, read.file.substr(read.file.rfind('/') + 1),
                         numbered ? fmt::format(":{}", line->integer()) : "");
  }
  return python;
}

std::uint32_t SnapshotStacks::label_of(const PickleValue& dict) {
  if (!with_labels_) return 0;
  const PickleValue* frames = pickle_.find(dict, "frames");
  stack_.clear();
  std::string python;
  if (frames != nullptr && frames->kind() == PickleKind::kList) python = read_frames(*frames);
  SnapshotLabel label{.text = std::move(python), .names = stack_names_.of(stack_)};
  const RecordedNames& said = label.names;
  if (!said.tensor.empty()) {
    label.text = fmt::format("{}{}{}", said.layer, said.layer.empty() ? "" : ": ", said.tensor);
  } else if (!said.op.empty()) {
    label.text += fmt::format("{}{}{}", label.text.empty() ? "" : ": ", said.op,
                              said.phase.empty() ? "" : " in " + said.phase);
  } else if (label.text.empty() && !stack_.empty()) {
    label.text = stack_.front().name;
  }
  // The program sets this by torch.cuda.memory._set_memory_metadata(), often to the module's name.
  if (const std::string_view metadata =
          snapshot_stacks_detail::text_of(pickle_, dict, "user_metadata");
      !metadata.empty()) {
    label.names.layer = metadata;
    label.text = fmt::format("{}{}{}", metadata, label.text.empty() ? "" : ": ", label.text);
  }
  // torch.compile writes "0/0": the graph and how often it was compiled.
  const std::string_view graph = snapshot_stacks_detail::text_of(pickle_, dict, "compile_context");
  if (!graph.empty() && graph != "N/A") {
    label.text += fmt::format("{}compiled graph {}", label.text.empty() ? "" : ", ", graph);
  }
  std::string key = label.text;
  for (const std::string* part : {&said.phase, &said.op, &said.layer, &said.tensor})
    key.append(1, '\0').append(*part);
  const auto [known, fresh] =
      known_labels_.try_emplace(key, static_cast<std::uint32_t>(labels_.size()));
  if (fresh) labels_.push_back(std::move(label));
  return known->second;
}

}  // namespace tidemark
