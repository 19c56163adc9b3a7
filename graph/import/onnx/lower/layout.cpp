// Changes of shape, and parts of tensors: views where PyTorch makes views.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/import/onnx/fold.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/import/onnx/rebatch.hpp"

namespace tidemark {
namespace onnx_layout {

using List = std::vector<std::int64_t>;

List list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

std::int64_t checked_axis(const OnnxLowering& l, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) l.fail(fmt::format("axis {} does not exist", axis));
  return axis < 0 ? axis + rank : axis;
}

// nn.MultiheadAttention splits its packed projection and makes each third contiguous before it is
// seen as heads; the exporter does not write that copy.
void lower_reshape(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  auto wanted = l.setting(1);
  if (!wanted) wanted = l.node().list("shape");
  const TensorId x = l.operand(0);
  const Shape old = b.shape(x);
  const bool allow_zero = l.node().integer("allowzero") != 0;
  auto target = rebatched_reshape(l, list_of(old), *wanted, allow_zero);
  if (!target) target = reshaped_dims(list_of(old), *wanted, allow_zero);
  if (!target) {
    l.fail(fmt::format("{} elements do not fill the shape [{}] (its input is {})",
                       element_count(old).count, fmt::join(*wanted, ", "), to_string(old)));
  }
  const Shape shape = l.shape(*target);
  const bool copies = shape.rank() == 3 && is_attention_head(l);
  l.set(b.reshape(copies ? b.contiguous(x) : x, shape));
}

void lower_flatten(OnnxLowering& l) {
  const Shape x = l.shape_of_operand(0);
  const std::int64_t given = l.node().integer("axis", 1);
  const std::int64_t axis = given < 0 ? given + x.rank() : given;
  if (axis < 0 || axis > x.rank()) l.fail(fmt::format("axis {} does not exist", given));
  std::int64_t rows = 1;
  for (int i = 0; i < x.rank() && i < axis; ++i)
    rows *= x[i];
  l.set(l.builder().reshape(l.operand(0), {rows, element_count(x).count / rows}));
}

void lower_transpose(OnnxLowering& l) {
  const int rank = l.shape_of_operand(0).rank();
  List axes = l.node().list("perm");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.rbegin(), axes.rend(), 0);
  }
  l.set(l.builder().add("permute", {l.operand(0)}, {{"axes", axes}}));
}

void lower_squeeze(OnnxLowering& l) {
  const Shape x = l.shape_of_operand(0);
  List axes = l.setting_or_attribute(1, "axes");
  for (std::int64_t& axis : axes)
    axis = checked_axis(l, axis, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = axes.empty() || std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!named || x[i] != 1) shape.push_back(x[i]);
  }
  l.set(l.builder().view(l.operand(0), shape));
}

// Returns the node that computes operand `index` of `node`, if it is an `op`.
const OnnxNode* operand_of(const OnnxLowering& l, const OnnxNode* node, std::size_t index,
                           std::string_view op) {
  if (node == nullptr || !node->has_input(index)) return nullptr;
  const OnnxNodeId source = l.uses().producer[node->inputs[index]];
  if (!source.valid() || l.file().nodes[source].op != op) return nullptr;
  return &l.file().nodes[source];
}

// squeeze(axis) of a tensor whose sizes the exporter does not know: Squeeze where
// Gather(Shape(x), axis) equals 1, otherwise Identity.
void lower_if(OnnxLowering& l) {
  const OnnxNode* equal = operand_of(l, &l.node(), 0, "Equal");
  const OnnxNode* gather = operand_of(l, equal, 0, "Gather");
  const OnnxNode* shape = operand_of(l, gather, 0, "Shape");
  const TensorId x = shape != nullptr ? l.tensor(shape->inputs[0]) : TensorId();
  const auto place = x.valid() && gather->has_input(1) ? l.number(gather->inputs[1]) : std::nullopt;
  if (!place || l.number(equal->inputs[1]) != 1.0) {
    l.fail(
        "which of two branches runs is not simulated; export the model with the one that it "
        "trains by");
  }
  const Shape& old = l.builder().shape(x);
  const auto axis =
      static_cast<int>(checked_axis(l, static_cast<std::int64_t>(*place), old.rank()));
  if (old[axis] != 1) return l.set(x);
  Shape squeezed;
  for (int i = 0; i < old.rank(); ++i) {
    if (i != axis) squeezed.push_back(old[i]);
  }
  l.set(l.builder().view(x, squeezed));
}

void lower_unsqueeze(OnnxLowering& l) {
  const Shape x = l.shape_of_operand(0);
  List axes = l.setting_or_attribute(1, "axes");
  const int rank = x.rank() + static_cast<int>(axes.size());
  for (std::int64_t& axis : axes)
    axis = checked_axis(l, axis, rank);
  List extents;
  int from = 0;
  for (int i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!added && from == x.rank()) l.fail("it names an axis twice");
    extents.push_back(added ? 1 : x[from++]);
  }
  l.set(l.builder().view(l.operand(0), l.shape(extents)));
}

// Whether the result is joined with others: an empty part of torch.roll, or one that Concat
// refuses.
bool is_joined(const OnnxLowering& l) {
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  return reader.valid() && l.file().nodes[reader].op == "Concat";
}

// A slice that takes everything by numbers is no operator in PyTorch; x[:] is one in 1.13 (the
// family narrow decides). The other steps are views too.
void lower_slice(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  TensorId x = l.operand(0);
  const List starts = l.setting_or_attribute(1, "starts");
  const List ends = l.setting_or_attribute(2, "ends");
  List axes = l.setting_or_attribute(3, "axes");
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  const List steps = l.setting(4).value_or(List(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    l.fail("its starts, ends, axes and steps differ in number");
  }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<int>(checked_axis(l, axes[i], b.shape(x).rank()));
    const std::int64_t extent = b.shape(x)[axis];
    if (steps[i] == 0) l.fail("its step is 0");
    const SliceRange range = slice_range(extent, starts[i], ends[i], steps[i]);
    if (range.count < 1) {
      if (is_joined(l)) return;
      l.fail(fmt::format("it leaves nothing of axis {}", axis));
    }
    if (range.count == extent && range.step == 1 && ends[i] <= extent) continue;
    x = l.leading_slices(x, axis);
    if (range.step < 0) {
      if (range.count != extent) l.fail("a part taken backwards is not simulated");
      x = b.add("flip", {x}, {{"axes", List{axis}}});
      continue;
    }
    x = b.add("narrow", {x},
              {{"axis", std::int64_t{axis}},
               {"start", range.start},
               {"length", range.count},
               {"step", range.step}});
  }
  l.set(x);
}

// Whether the node is x.unbind(axis): parts of 1, each of which loses the axis.
bool is_unbind(OnnxLowering& l, const List& sizes, std::int64_t axis, int rank) {
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size != 1; })) {
    return false;
  }
  return std::all_of(l.node().outputs.begin(), l.node().outputs.end(), [&](OnnxValueId part) {
    if (!part.valid()) return true;
    if (l.uses().is_output[part] != 0) return false;
    const std::vector<OnnxUse>& readers = l.uses().readers[part];
    return std::all_of(readers.begin(), readers.end(), [&](const OnnxUse& use) {
      const OnnxNode& node = l.file().nodes[use.node];
      if (node.op != "Squeeze") return false;
      const List axes = l.axes_of(node);
      return axes == List{axis} || axes == List{axis - rank};
    });
  });
}

void lower_split(OnnxLowering& l) {
  const Shape x = l.shape_of_operand(0);
  const auto axis = static_cast<int>(checked_axis(l, l.node().integer("axis"), x.rank()));
  List sizes = l.setting_or_attribute(1, "split");
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 1; })) {
    l.fail(fmt::format("its parts [{}] are not all at least 1", fmt::join(sizes, ", ")));
  }
  const auto parts = static_cast<std::int64_t>(l.node().outputs.size());
  if (sizes.empty() && parts > 0) {
    const std::int64_t size = (x[axis] + parts - 1) / parts;
    for (std::int64_t at = 0; at < x[axis]; at += size)
      sizes.push_back(std::min(size, x[axis] - at));
  }
  if (sizes.size() != l.node().outputs.size()) {
    l.fail(fmt::format("axis {} of {} does not split into {} parts", axis, to_string(x), parts));
  }
  Attributes attributes{{"sizes", sizes}, {"axis", std::int64_t{axis}}};
  if (is_unbind(l, sizes, axis, x.rank())) attributes.set("unbind", std::int64_t{1});
  const std::vector<TensorId> results = l.builder().add_many("split", {l.operand(0)}, attributes);
  const bool last = axis == x.rank() - 1 && x.rank() == 3;
  for (std::size_t i = 0; i < results.size(); ++i) {
    l.set(results[i], i);
    if (last && l.node().outputs[i].valid()) l.mark_chunk(l.node().outputs[i]);
  }
}

void lower_concat(OnnxLowering& l) {
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < l.node().inputs.size(); ++i) {
    const OnnxNode* slice = operand_of(l, &l.node(), i, "Slice");
    if (slice != nullptr && !l.tensor(l.node().inputs[i]).valid()) {
      l.fail(fmt::format("its operand {} is an empty slice", excerpt(slice->name)));
    }
    parts.push_back(l.operand(i));
  }
  if (parts.empty()) l.fail("it has no operands");
  l.set(l.builder().cat(parts, static_cast<int>(l.node().integer("axis"))));
}

void lower_expand(OnnxLowering& l) {
  const Shape x = l.shape_of_operand(0);
  const List wanted = rebatched_expand(l, list_of(x), l.setting(1).value_or(List{}));
  const auto target = broadcast_dims(list_of(x), wanted);
  if (!target) {
    l.fail(fmt::format("{} does not broadcast to [{}]", to_string(x), fmt::join(wanted, ", ")));
  }
  l.set(l.builder().expand(l.operand(0), l.shape(*target)));
}

void lower_tile(OnnxLowering& l) {
  const List counts = l.setting(1).value_or(List{});
  const Shape& x = l.shape_of_operand(0);
  if (static_cast<int>(counts.size()) != x.rank()) {
    l.fail(fmt::format("{} repeats do not fit {} axes", counts.size(), x.rank()));
  }
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t count = counts[static_cast<std::size_t>(axis)];
    if (count < 1 || count > kLongestAxis || x[axis] > kLongestAxis) {
      l.fail(fmt::format("axis {} cannot be repeated {} times", axis, count));
    }
  }
  l.set(l.builder().add("repeat", {l.operand(0)}, {{"counts", counts}}));
}

// F.pad copies, also where it pads nothing.
void lower_pad(OnnxLowering& l) {
  const auto rank = static_cast<std::size_t>(l.shape_of_operand(0).rank());
  const List pads = l.setting_or_attribute(1, "pads");
  if (l.has(3)) l.fail("axes of Pad are not simulated: give pads for all axes");
  if (pads.size() != 2 * rank) l.fail(fmt::format("{} pads do not fit {} axes", pads.size(), rank));
  List pairs;  // before and after, of the last axis first
  for (std::int64_t pad : pads) {
    if (pad < -kLongestAxis || pad > kLongestAxis) {
      l.fail(fmt::format("a pad of {} is beyond every tensor", pad));
    }
  }
  for (std::size_t axis = rank; axis-- > 0;) {
    pairs.push_back(pads[axis]);
    pairs.push_back(pads[rank + axis]);
  }
  std::string mode = l.node().get<std::string>("mode", "constant");
  if (mode == "edge") mode = "replicate";
  l.set(l.builder().add("pad", {l.operand(0)}, {{"pads", pairs}, {"mode", mode}}));
}

// Returns the block size, whose square divides the channels or multiplies them.
std::int64_t block_size(OnnxLowering& l) {
  constexpr std::int64_t kLargestBlock = 1 << 12;
  const std::int64_t size = l.node().integer("blocksize", 1);
  if (size < 1 || size > kLargestBlock) l.fail(fmt::format("a block of {} is not possible", size));
  return size;
}

void lower_depth_to_space(OnnxLowering& l) {
  l.set(l.builder().add("pixel_shuffle", {l.operand(0)}, {{"factor", block_size(l)}}));
}

void lower_space_to_depth(OnnxLowering& l) {
  l.set(l.builder().add("pixel_unshuffle", {l.operand(0)}, {{"factor", block_size(l)}}));
}

void lower_triangle(OnnxLowering& l) {
  const bool upper = l.node().integer("upper", 1) != 0;
  l.set(l.builder().add(upper ? "triu" : "tril", {l.operand(0)}));
}

constexpr OnnxOperator kOperators[] = {
    {"Reshape", lower_reshape},
    {"Flatten", lower_flatten},
    {"Transpose", lower_transpose},
    {"Squeeze", lower_squeeze},
    {"If", lower_if},
    {"Unsqueeze", lower_unsqueeze},
    {"Slice", lower_slice},
    {"Split", lower_split},
    {"Concat", lower_concat},
    {"Expand", lower_expand},
    {"Tile", lower_tile},
    {"Pad", lower_pad},
    {"DepthToSpace", lower_depth_to_space},
    {"SpaceToDepth", lower_space_to_depth},
    {"Trilu", lower_triangle},
};

}  // namespace onnx_layout

std::span<const OnnxOperator> onnx_layout_operators() {
  return onnx_layout::kOperators;
}

}  // namespace tidemark
