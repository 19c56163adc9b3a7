// Convolutions, pooling and resizing.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_windows {

using List = std::vector<std::int64_t>;

int spatial_axes(OnnxLowering& l) {
  const int axes = l.shape_of_operand(0).rank() - 2;
  if (axes < 1 || axes > 3) {
    l.fail(fmt::format("needs batch, channels and one to three more axes, its input is {}",
                       to_string(l.shape_of_operand(0))));
  }
  return axes;
}

// Reads an attribute with one number per spatial axis.
List per_axis(OnnxLowering& l, std::string_view name, std::size_t axes, std::int64_t fallback) {
  List values = l.node().list(name);
  if (values.empty()) values.assign(axes, fallback);
  if (values.size() != axes) {
    l.fail(fmt::format("its attribute {} has {} numbers for {} axes", name, values.size(), axes));
  }
  for (std::int64_t value : values) {
    if (value < -kLongestAxis || value > kLongestAxis) {
      l.fail(fmt::format("its attribute {} has the number {}, beyond every tensor", name, value));
    }
  }
  return values;
}

struct Padding {
  List before;
  List after;
};

// Reads the padding; `extents` and `kernel` are those of the spatial axes. SAME pads so that the
// result is extent / stride.
Padding padding_of(OnnxLowering& l, const List& kernel, const List& stride, const List& dilation) {
  const std::size_t axes = kernel.size();
  const std::string automatic = l.node().get<std::string>("auto_pad", "NOTSET");
  if (automatic == "VALID") return {List(axes, 0), List(axes, 0)};
  if (automatic != "NOTSET") {
    Padding padding;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t extent = l.shape_of_operand(0)[static_cast<int>(i) + 2];
      if (extent > kLongestAxis) l.fail("its input is beyond every tensor that can be padded");
      const std::int64_t out = (extent + stride[i] - 1) / stride[i];
      const std::int64_t total = std::max<std::int64_t>(
          0, (out - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - extent);
      const std::int64_t half = total / 2;
      const bool upper = automatic == "SAME_UPPER";
      padding.before.push_back(upper ? half : total - half);
      padding.after.push_back(upper ? total - half : half);
    }
    return padding;
  }
  const List pads = per_axis(l, "pads", axes * 2, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(axes);
  return {List(pads.begin(), middle), List(middle, pads.end())};
}

// Pads evenly, as PyTorch does: the difference between the two ends is a Pad before.
TensorId evenly_padded(OnnxLowering& l, TensorId x, Padding& padding) {
  List extra;
  bool even = true;
  for (std::size_t i = padding.before.size(); i-- > 0;) {
    const std::int64_t common = std::min(padding.before[i], padding.after[i]);
    extra.push_back(padding.before[i] - common);
    extra.push_back(padding.after[i] - common);
    even = even && padding.before[i] == padding.after[i];
    padding.before[i] = common;
  }
  return even ? x : l.builder().add("pad", {x}, {{"pads", extra}});
}

// A window spans no more than an axis can have.
void require_window(OnnxLowering& l, const List& kernel, const List& stride, const List& dilation) {
  const auto positive = [](std::int64_t value) { return value >= 1; };
  for (const List* sizes : {&kernel, &stride, &dilation}) {
    if (!std::all_of(sizes->begin(), sizes->end(), positive)) {
      l.fail("kernels, strides and dilations start at 1");
    }
  }
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] > kLongestAxis || dilation[i] > kLongestAxis / kernel[i]) {
      l.fail(fmt::format("a kernel of {} with a dilation of {} is beyond every tensor", kernel[i],
                         dilation[i]));
    }
  }
}

// Returns the extents of a convolution's weight along the spatial axes.
List kernel_of_weight(OnnxLowering& l, std::size_t axes) {
  const Shape& weight = l.shape_of_operand(1);
  if (weight.rank() != static_cast<int>(axes) + 2) {
    l.fail(fmt::format("its weight has the shape {}", to_string(weight)));
  }
  return {weight.begin() + 2, weight.end()};
}

std::int64_t groups_of(OnnxLowering& l) {
  const std::int64_t groups = l.node().integer("group", 1);
  if (groups < 1 || groups > kLongestAxis)
    l.fail(fmt::format("{} groups are not possible", groups));
  return groups;
}

void lower_convolution(OnnxLowering& l) {
  const auto axes = static_cast<std::size_t>(spatial_axes(l));
  const List kernel = kernel_of_weight(l, axes);
  const List stride = per_axis(l, "strides", axes, 1);
  const List dilation = per_axis(l, "dilations", axes, 1);
  require_window(l, kernel, stride, dilation);
  Padding padding = padding_of(l, kernel, stride, dilation);
  const TensorId x = evenly_padded(l, l.operand(0), padding);
  l.set(l.builder().add(fmt::format("conv{}d", axes),
                        {x, l.operand(1), l.has(2) ? l.operand(2) : TensorId()},
                        {{"stride", stride},
                         {"padding", padding.before},
                         {"dilation", dilation},
                         {"groups", groups_of(l)}}));
}

void lower_transposed_convolution(OnnxLowering& l) {
  const auto axes = static_cast<std::size_t>(spatial_axes(l));
  if (!l.node().list("output_shape").empty()) l.fail("output_shape is not simulated; use pads");
  const List pads = per_axis(l, "pads", axes * 2, 0);
  const List before(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  if (!std::equal(before.begin(), before.end(), pads.begin() + static_cast<std::ptrdiff_t>(axes))) {
    l.fail("pads that differ between the two ends of an axis are not simulated");
  }
  const List stride = per_axis(l, "strides", axes, 1);
  const List dilation = per_axis(l, "dilations", axes, 1);
  require_window(l, kernel_of_weight(l, axes), stride, dilation);
  l.set(l.builder().add(fmt::format("conv_transpose{}d", axes),
                        {l.operand(0), l.operand(1), l.has(2) ? l.operand(2) : TensorId()},
                        {{"stride", stride},
                         {"padding", before},
                         {"dilation", dilation},
                         {"output_padding", per_axis(l, "output_padding", axes, 0)},
                         {"groups", groups_of(l)}}));
}

TensorId pooled(OnnxLowering& l, std::string_view family, TensorId x, const List& padding) {
  const std::size_t axes = padding.size();
  const List kernel = per_axis(l, "kernel_shape", axes, 1);
  return l.builder().add(fmt::format("{}_pool{}d", family, axes), {x},
                         {{"kernel", kernel},
                          {"stride", per_axis(l, "strides", axes, 1)},
                          {"padding", padding},
                          {"dilation", per_axis(l, "dilations", axes, 1)},
                          {"ceil_mode", l.node().integer("ceil_mode")}});
}

template <bool kMax>
void lower_pooling(OnnxLowering& l) {
  const auto axes = static_cast<std::size_t>(spatial_axes(l));
  const List kernel = per_axis(l, "kernel_shape", axes, 1);
  const List stride = per_axis(l, "strides", axes, 1);
  const List dilation = per_axis(l, "dilations", axes, 1);
  require_window(l, kernel, stride, dilation);
  Padding padding = padding_of(l, kernel, stride, dilation);
  const bool padded =
      std::any_of(padding.before.begin(), padding.before.end(), [](auto p) { return p != 0; }) ||
      std::any_of(padding.after.begin(), padding.after.end(), [](auto p) { return p != 0; });
  // adaptive_avg_pool onto a grid that divides the input: windows side by side, without the Pad
  // that the exporter writes before avg_pool.
  const Shape& x = l.shape_of_operand(0);
  bool adaptive = !kMax && !padded && kernel == stride;
  List cells;
  for (std::size_t i = 0; i < axes; ++i) {
    cells.push_back(x[static_cast<int>(i) + 2] / kernel[i]);
    adaptive = adaptive && cells[i] * kernel[i] == x[static_cast<int>(i) + 2];
  }
  if (adaptive) {
    return l.set(l.builder().add(fmt::format("adaptive_avg_pool{}d", axes), {l.operand(0)},
                                 {{"output_size", cells}}));
  }
  const TensorId input = evenly_padded(l, l.operand(0), padding);
  l.set(pooled(l, kMax ? "max" : "avg", input, padding.before));
}

List trailing_axes(int axes) {
  List result;
  for (int axis = -axes; axis < 0; ++axis)
    result.push_back(axis);
  return result;
}

// adaptive_avg_pool(1) is x.mean over the spatial axes.
// adaptive_avg_pool to one place calls mean; that of volumes is an operator that autocast lists.
void lower_global_average(OnnxLowering& l) {
  const int axes = spatial_axes(l);
  Attributes attributes{{"axes", trailing_axes(axes)}, {"keepdim", std::int64_t{1}}};
  if (axes == 3) attributes.set("pools_volume", std::int64_t{1});
  l.set(l.builder().add("mean", {l.operand(0)}, std::move(attributes)));
}

void lower_global_max(OnnxLowering& l) {
  const int axes = spatial_axes(l);
  l.set(l.builder().add(fmt::format("adaptive_max_pool{}d", axes), {l.operand(0)},
                        {{"output_size", List(static_cast<std::size_t>(axes), 1)}}));
}

// F.interpolate: extents by an operand, or factors.
void lower_resize(OnnxLowering& l) {
  const int axes = spatial_axes(l);
  const Shape& x = l.shape_of_operand(0);
  List size;
  const auto sizes = l.setting(3);
  if (sizes && !sizes->empty()) {
    if (static_cast<int>(sizes->size()) != x.rank()) l.fail("its sizes do not fit its input");
    size.assign(sizes->begin() + 2, sizes->end());
  } else {
    const OnnxConstant* scales = l.has(2) ? l.constant(l.node().inputs[2]) : nullptr;
    if (scales == nullptr || !scales->known || scales->elements().count != x.rank()) {
      l.fail("its factors are not constants");
    }
    for (int axis = 2; axis < x.rank(); ++axis) {
      const double scaled =
          static_cast<double>(x[axis]) * scales->number(static_cast<std::size_t>(axis));
      if (!(scaled >= 1 && scaled < 1e9)) l.fail("its factors leave no element");
      size.push_back(static_cast<std::int64_t>(scaled));
    }
  }
  const std::string mode = l.node().get<std::string>("mode", "nearest");
  std::string family = "nearest";
  if (mode == "linear") family = axes == 1 ? "linear" : axes == 2 ? "bilinear" : "trilinear";
  if (mode == "cubic") family = "bicubic";
  l.set(l.builder().add("interpolate", {l.operand(0)}, {{"size", size}, {"mode", family}}));
}

void lower_grid_sample(OnnxLowering& l) {
  l.set(l.builder().add("grid_sample", {l.operand(0), l.operand(1)}));
}

// F.avg_pool2d counts its padding, which the exporter writes as a Pad of its own, with zeros too;
// the real operator pads inside.
bool pad_of_average(OnnxLowering& l) {
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  if (!reader.valid() || l.file().nodes[reader].op != "AveragePool") return false;
  const OnnxNode& pool = l.file().nodes[reader];
  const List own = pool.list("pads");
  if (std::any_of(own.begin(), own.end(), [](std::int64_t p) { return p != 0; })) return false;
  if (l.node().get<std::string>("mode", "constant") != "constant") return false;
  const auto pads = l.setting(1);
  const auto rank = static_cast<std::size_t>(l.shape_of_operand(0).rank());
  if (!pads || pads->size() != 2 * rank || rank < 3) return false;
  for (std::size_t i = 0; i < rank; ++i) {
    if ((*pads)[i] != (*pads)[rank + i] || (i < 2 && (*pads)[i] != 0)) return false;
    if ((*pads)[i] < 0 || (*pads)[i] > kLongestAxis) return false;
  }
  const List padding(pads->begin() + 2, pads->begin() + static_cast<std::ptrdiff_t>(rank));
  List kernel = pool.list("kernel_shape");
  List stride = pool.list("strides");
  if (stride.empty()) stride.assign(kernel.size(), 1);
  if (kernel.size() != padding.size() || stride.size() != padding.size()) return false;
  const auto usable = [](std::int64_t size) { return size >= 1 && size <= kLongestAxis; };
  if (!std::all_of(kernel.begin(), kernel.end(), usable) ||
      !std::all_of(stride.begin(), stride.end(), usable)) {
    return false;
  }
  const TensorId result =
      l.builder().add(fmt::format("avg_pool{}d", padding.size()), {l.operand(0)},
                      {{"kernel", kernel},
                       {"stride", stride},
                       {"padding", padding},
                       {"ceil_mode", pool.integer("ceil_mode")}});
  l.set_value(pool.outputs.front(), result);
  l.mark_done(reader);
  return true;
}

// The kernel, the stride and the dilation of F.unfold along one axis, by the places [kernel, count]
// that a Gather reads: place (i, j) is i * dilation + j * stride.
struct UnfoldedAxis {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
};

std::optional<UnfoldedAxis> unfolded_axis(OnnxLowering& l, OnnxValueId gathered,
                                          std::int64_t axis) {
  const OnnxNode& gather = l.file().nodes[l.uses().producer[gathered]];
  const OnnxConstant* places = l.constant(gather.inputs[1]);
  if (gather.integer("axis") != axis || places == nullptr || !places->known ||
      places->dims.size() != 2 || places->dtype != DType::kInt64) {
    return std::nullopt;
  }
  const std::int64_t count = places->dims[1];
  if (places->dims[0] < 1 || count < 1) return std::nullopt;
  UnfoldedAxis found{.kernel = places->dims[0]};
  const std::vector<std::int64_t>& at = places->integers;
  if (count > 1) found.stride = at[1];
  if (found.kernel > 1) found.dilation = at[static_cast<std::size_t>(count)];
  const auto usable = [](std::int64_t size) { return size >= 1 && size <= kLongestAxis; };
  if (!usable(found.stride) || !usable(found.dilation)) return std::nullopt;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / count;
    const auto column = static_cast<std::int64_t>(i) % count;
    if (at[i] != row * found.dilation + column * found.stride) return std::nullopt;
  }
  return found;
}

// F.unfold, which the exporter writes as Pad, a Gather along each axis, Transpose and Reshape.
bool match_unfold(OnnxLowering& l) {
  if (l.node().get<std::string>("mode", "constant") != "constant") return false;
  OnnxMatch m(l);
  const auto next = [&m](std::string_view op, OnnxValueId value) {
    return value.valid() ? m.next(op, value, 0) : OnnxValueId();
  };
  const OnnxValueId rows = next("Gather", l.node().outputs.front());
  const OnnxValueId patches = next("Gather", rows);
  const OnnxValueId moved = next("Transpose", patches);
  const OnnxValueId result = next("Reshape", moved);
  if (!result.valid() || l.shape_of_operand(0).rank() != 4) return false;
  const auto height = unfolded_axis(l, rows, 2);
  const auto width = unfolded_axis(l, patches, 4);
  const auto pads = l.setting(1);
  if (!height || !width || !pads || pads->size() != 8) return false;
  if (m.node_of(moved).list("perm") != List{0, 1, 2, 4, 3, 5}) return false;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t before = (*pads)[i];
    if (before != (*pads)[i + 4] || before < 0 || before > kLongestAxis) return false;
    if (i < 2 && before != 0) return false;
  }
  m.finish(result, l.builder().add("unfold", {l.operand(0)},
                                   {{"kernel", List{height->kernel, width->kernel}},
                                    {"stride", List{height->stride, width->stride}},
                                    {"dilation", List{height->dilation, width->dilation}},
                                    {"padding", List{(*pads)[2], (*pads)[3]}}}));
  return true;
}

constexpr OnnxOperator kOperators[] = {
    {"Conv", lower_convolution},
    {"ConvTranspose", lower_transposed_convolution},
    {"MaxPool", lower_pooling<true>},
    {"AveragePool", lower_pooling<false>},
    {"GlobalAveragePool", lower_global_average},
    {"GlobalMaxPool", lower_global_max},
    {"Resize", lower_resize},
    {"GridSample", lower_grid_sample},
};

constexpr OnnxPattern kPatterns[] = {{"Pad", pad_of_average}, {"Pad", match_unfold}};

}  // namespace onnx_windows

std::span<const OnnxOperator> onnx_window_operators() {
  return onnx_windows::kOperators;
}

std::span<const OnnxPattern> onnx_window_patterns() {
  return onnx_windows::kPatterns;
}

}  // namespace tidemark
