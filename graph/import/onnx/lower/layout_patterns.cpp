// torch.chunk, torch.roll and Tensor.unfold, which exporters write as slices.
#include <fmt/format.h>

#include "graph/import/onnx/fold.hpp"
#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_layout_lowering {

using List = std::vector<std::int64_t>;

// A Slice of one axis with constant bounds and step 1, as the file states them.
struct Part {
  std::int64_t axis = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

std::optional<std::int64_t> only_integer(OnnxLowering& l, const OnnxNode& node,
                                         std::size_t operand) {
  if (!node.has_input(operand)) return std::nullopt;
  const OnnxConstant* value = l.constant(node.inputs[operand]);
  if (value == nullptr || !value->known || value->elements() != Elements(1)) return std::nullopt;
  return value->integer();
}

std::optional<Part> part_of(OnnxLowering& l, const OnnxNode& node, int rank) {
  if (node.op != "Slice") return std::nullopt;
  const auto start = only_integer(l, node, 1);
  const auto end = only_integer(l, node, 2);
  auto axis = only_integer(l, node, 3);
  if (!node.has_input(3)) axis = 0;
  if (node.has_input(4) && only_integer(l, node, 4) != 1) return std::nullopt;
  if (!start || !end || !axis || *axis < -rank || *axis >= rank) return std::nullopt;
  return Part{.axis = *axis < 0 ? *axis + rank : *axis, .start = *start, .end = *end};
}

// Slices of one tensor that follow each other and end where it ends, by numbers: x.chunk(n, axis).
// A slice to the end written as x[a:] ends at the largest integer; such parts are slices there too.
bool match_chunk(OnnxLowering& l) {
  const OnnxValueId x = l.node().inputs[0];
  const std::vector<OnnxUse>& readers = l.uses().readers[x];
  if (readers.size() < 2 || !l.tensor(x).valid()) return false;
  const Shape shape = l.builder().shape(l.tensor(x));
  List sizes;
  std::vector<OnnxNodeId> slices;
  std::int64_t at = 0;
  std::int64_t axis = 0;
  for (const OnnxUse& use : readers) {
    const OnnxNode& node = l.file().nodes[use.node];
    if (node.op != "Slice") continue;
    if (use.operand != 0) return false;
    const auto part = part_of(l, node, shape.rank());
    if (!part || part->start != at || part->end <= at) return false;
    if (slices.empty()) axis = part->axis;
    const std::int64_t extent = shape[static_cast<int>(axis)];
    if (part->axis != axis || part->end > extent) return false;
    sizes.push_back(part->end - at);
    slices.push_back(use.node);
    at = part->end;
  }
  if (slices.size() < 2 || slices.front() != l.id() || at != shape[static_cast<int>(axis)]) {
    return false;
  }
  const std::vector<TensorId> parts =
      l.builder().add_many("split", {l.operand(0)}, {{"sizes", sizes}, {"axis", axis}});
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const OnnxValueId result = l.file().nodes[slices[i]].outputs.front();
    l.set_value(result, parts[i]);
    l.mark_done(slices[i]);
    if (axis == shape.rank() - 1 && shape.rank() == 3) l.mark_chunk(result);
  }
  return true;
}

// torch.roll along one axis: the end x[-k:] in front of the rest x[:-k], which is empty where k is
// a multiple of the extent.
bool match_roll(OnnxLowering& l) {
  if (l.node().inputs.size() != 2) return false;
  const OnnxNodeId back = l.uses().producer[l.node().inputs[0]];
  const OnnxNodeId front = l.uses().producer[l.node().inputs[1]];
  if (!back.valid() || !front.valid()) return false;
  const OnnxNode& end = l.file().nodes[back];
  const OnnxNode& rest = l.file().nodes[front];
  if (end.op != "Slice" || rest.op != "Slice" || end.inputs[0] != rest.inputs[0]) return false;
  const TensorId x = l.tensor(end.inputs[0]);
  if (!x.valid()) return false;
  const Shape shape = l.builder().shape(x);
  const auto first = part_of(l, end, shape.rank());
  const auto second = part_of(l, rest, shape.rank());
  if (!first || !second || first->axis != second->axis) return false;
  const std::int64_t given = l.node().integer("axis");
  if ((given < 0 ? given + shape.rank() : given) != first->axis) return false;
  const std::int64_t extent = shape[static_cast<int>(first->axis)];
  const SliceRange tail = slice_range(extent, first->start, first->end, 1);
  const SliceRange head = slice_range(extent, second->start, second->end, 1);
  const bool rolls = head.start == 0 && tail.start == head.count && tail.count >= 1 &&
                     tail.start + tail.count == extent;
  if (!rolls) return false;
  // x[d:], x[:d] of a half is also how rotary embeddings turn halves, but those negate one of them.
  l.set(l.builder().add("roll", {x}));
  return true;
}

// Follows a part of a split to the Concat that takes it repeated: Unsqueeze, Expand, Reshape. Sets
// the number of repeats.
OnnxValueId repeated_part(OnnxLowering& l, OnnxMatch& m, OnnxValueId part, std::size_t axis,
                          std::int64_t& count) {
  const OnnxValueId lifted = m.next("Unsqueeze", part, 0);
  const OnnxValueId repeated = lifted.valid() ? m.next("Expand", lifted, 0) : OnnxValueId();
  if (!repeated.valid()) return {};
  const OnnxConstant* target = l.constant(m.node_of(repeated).inputs[1]);
  if (target == nullptr || !target->known ||
      static_cast<std::size_t>(target->elements().count) <= axis + 1) {
    return {};
  }
  count = target->integer(axis + 1);
  return m.next("Reshape", repeated, 0);
}

// x.repeat_interleave(n, axis): the exporter repeats each place of the axis by itself; PyTorch
// selects them by int64 indices.
bool match_repeat_interleave(OnnxLowering& l) {
  const std::size_t parts = l.node().outputs.size();
  const Shape shape = l.shape_of_operand(0);
  const std::int64_t given = l.node().integer("axis");
  const std::int64_t axis = given < 0 ? given + shape.rank() : given;
  if (axis < 0 || axis >= shape.rank() ||
      shape[static_cast<int>(axis)] != static_cast<std::int64_t>(parts)) {
    return false;
  }
  OnnxMatch m(l);
  OnnxNodeId join;
  std::int64_t repeats = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    std::int64_t count = 0;
    const OnnxValueId part =
        repeated_part(l, m, l.node().outputs[i], static_cast<std::size_t>(axis), count);
    if (!part.valid() || count < 1) return false;
    const OnnxNodeId reader = l.uses().only_reader(part);
    if (!reader.valid() || l.file().nodes[reader].op != "Concat") return false;
    if (i > 0 && (reader != join || count != repeats)) return false;
    join = reader;
    repeats = count;
  }
  const OnnxNode& concat = l.file().nodes[join];
  if (concat.inputs.size() != parts) return false;
  m.take(concat.outputs.front());
  ModelBuilder& b = l.builder();
  const TensorId index =
      b.add_many("arange", {}, {{"length", static_cast<std::int64_t>(parts) * repeats}})[0];
  m.finish(concat.outputs.front(), b.add("index_select", {l.operand(0), index}, {{"axis", axis}}));
  return true;
}

// Follows a window to the Concat of all: Transpose, if its axis is not the last one, and Unsqueeze.
OnnxNodeId join_of_window(OnnxLowering& l, OnnxMatch& m, OnnxValueId window) {
  const OnnxValueId moved = m.next("Transpose", window, 0);
  const OnnxValueId lifted = m.next("Unsqueeze", moved.valid() ? moved : window, 0);
  const OnnxNodeId reader = lifted.valid() ? l.uses().only_reader(lifted) : OnnxNodeId();
  return reader.valid() && l.file().nodes[reader].op == "Concat" ? reader : OnnxNodeId();
}

// x.unfold(axis, size, step), a view: the exporter cuts each window and joins them. Its slices have
// no steps, by which they differ from those of module code. It counts an axis from the back as if
// it were in the result, which has one more: the file's shape is wrong there, PyTorch's is taken.
bool match_unfold_axis(OnnxLowering& l) {
  constexpr std::size_t kOperandsWithoutSteps = 4;
  const OnnxValueId x = l.node().inputs[0];
  if (!l.tensor(x).valid()) return false;
  const Shape shape = l.builder().shape(l.tensor(x));
  OnnxMatch m(l);
  OnnxNodeId join;
  std::vector<Part> windows;
  for (const OnnxUse& use : l.uses().readers[x]) {
    const OnnxNode& node = l.file().nodes[use.node];
    const bool is_window = use.operand == 0 && node.inputs.size() == kOperandsWithoutSteps;
    const auto part = is_window ? part_of(l, node, shape.rank()) : std::nullopt;
    if (!part || use.node < l.id()) continue;
    const OnnxNodeId reader = join_of_window(l, m, node.outputs.front());
    if (!reader.valid() || (join.valid() && reader != join)) break;
    m.take(node.outputs.front());
    join = reader;
    windows.push_back(*part);
  }
  if (!join.valid() || l.file().nodes[join].inputs.size() != windows.size()) return false;
  const std::int64_t axis = windows.front().axis;
  const std::int64_t size = windows.front().end;
  const std::int64_t step = windows.size() > 1 ? windows[1].start : 1;
  std::int64_t start = 0;
  for (const Part& window : windows) {
    const bool inside = window.start >= 0 && window.end <= shape[static_cast<int>(axis)];
    if (!inside || window.axis != axis || window.start != start || window.end - start != size)
      return false;
    if (step < 1 || size < 1 || step > kLongestAxis) return false;
    start += step;
  }
  const OnnxValueId result = l.file().nodes[join].outputs.front();
  m.take(result);
  m.finish(result, l.builder().add("unfold_axis", {l.operand(0)},
                                   {{"axis", axis}, {"size", size}, {"step", step}}));
  return true;
}

constexpr OnnxPattern kLayoutPatterns[] = {{"Slice", match_unfold_axis},
                                           {"Slice", match_chunk},
                                           {"Concat", match_roll},
                                           {"Split", match_repeat_interleave}};

}  // namespace onnx_layout_lowering

std::span<const OnnxPattern> onnx_layout_patterns() {
  return onnx_layout_lowering::kLayoutPatterns;
}

}  // namespace tidemark
