// Adds the roots, which no node of the file makes: parameters, buffers, constants and inputs.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace onnx_roots_detail {
namespace {

Shape shape_of(const OnnxConstant& constant, const std::string& what) {
  Shape shape;
  if (constant.dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw UserError(fmt::format("{} has {} axes; at most {} are simulated", what,
                                constant.dims.size(), kMaxRank));
  }
  for (std::int64_t extent : constant.dims)
    shape.push_back(extent);
  return shape;
}

std::vector<std::string> axis_names(const OnnxModel& file) {
  std::vector<std::string> names;
  for (const OnnxInput& input : file.inputs) {
    for (const OnnxExtent& extent : input.extents) {
      const bool fresh = std::find(names.begin(), names.end(), extent.name) == names.end();
      if (!extent.name.empty() && fresh) names.push_back(extent.name);
    }
  }
  return names;
}

// Whether a counter of batches belongs to a batch norm that runs, which makes it. One that nothing
// uses lacks its statistics, too.
bool is_counter_in_use(const OnnxAbsent& counter, const std::vector<OnnxAbsent>& absent) {
  if (name_in_module(counter.name) != "num_batches_tracked") return false;
  const std::string mean = fmt::format("{}.running_mean", module_of_tensor(counter.name));
  return std::none_of(absent.begin(), absent.end(),
                      [&](const OnnxAbsent& other) { return other.name == mean; });
}

}  // namespace
}  // namespace onnx_roots_detail

void OnnxLowering::add_roots() {
  std::map<std::string, int, std::less<>> blocks;
  for (const OnnxModule& module : modules_.all)
    blocks.emplace(module.path, module.block);
  // A parameter belongs to the module that its name tells; the module's block is that of its nodes.
  const auto enter = [&](std::string_view module) {
    int block = -1;
    for (std::string_view at = module; !at.empty() && block < 0; at = module_of_tensor(at)) {
      const auto found = blocks.find(at);
      if (found != blocks.end()) block = found->second;
    }
    enter_module(module, block);
  };
  std::array<std::int64_t, 10> elements{};
  for (std::size_t i = 0; i < file_.initializers.size(); ++i) {
    const OnnxConstant& tensor = file_.initializers[i].tensor;
    if (roles_.initializers[i] == OnnxRole::kParameter && is_floating(tensor.dtype)) {
      elements[static_cast<std::size_t>(tensor.dtype)] += tensor.elements().count;
    }
  }
  const auto most = std::max_element(elements.begin(), elements.end());
  if (*most > 0) own_type_ = static_cast<DType>(most - elements.begin());

  for (std::size_t i = 0; i < file_.initializers.size(); ++i) {
    const OnnxInitializer& initializer = file_.initializers[i];
    const std::string& name = file_.names[initializer.value];
    initializer_[initializer.value] = static_cast<int>(i);
    if (roles_.initializers[i] == OnnxRole::kSetting) {
      constants_[initializer.value] = std::make_unique<OnnxConstant>(initializer.tensor);
      continue;
    }
    const Shape shape = onnx_roots_detail::shape_of(
        initializer.tensor, fmt::format("initializer {}", quoted_excerpt(name)));
    enter(module_of_tensor(name));
    tensors_[initializer.value] =
        roles_.initializers[i] == OnnxRole::kParameter
            ? builder_.parameter(name_in_module(name), shape)
            : builder_.buffer(name_in_module(name), shape, model_type(initializer.tensor.dtype));
  }
  for (const OnnxAbsent& absent : roles_.absent) {
    enter(module_of_tensor(absent.name));
    if (absent.is_parameter) {
      static_cast<void>(builder_.parameter(name_in_module(absent.name), absent.shape));
    } else if (!onnx_roots_detail::is_counter_in_use(absent, roles_.absent)) {
      static_cast<void>(
          builder_.buffer(name_in_module(absent.name), absent.shape, model_type(absent.dtype)));
    }
  }
  builder_.enter({});
  for (const OnnxInput& input : file_.inputs)
    add_input(input);
}

std::int64_t OnnxLowering::extent_of(const OnnxInput& input, std::size_t axis) {
  const OnnxExtent& extent = input.extents[axis];
  if (onnx_.batch_axis == static_cast<std::int64_t>(axis)) return options_.micro_batch;
  const std::string place = fmt::format("{}.{}", file_.names[input.value], axis);
  for (const auto& [name, wanted] : onnx_.axes) {
    if (name == place || (!extent.name.empty() && name == extent.name)) return wanted;
  }
  if (extent.extent > 0) return extent.extent;
  open_axes_.push_back(
      extent.name.empty()
          ? fmt::format("axis {} of input {}", axis, quoted_excerpt(file_.names[input.value]))
          : fmt::format("{} (axis {} of input {})", quoted_excerpt(extent.name), axis,
                        quoted_excerpt(file_.names[input.value])));
  return 1;
}

void OnnxLowering::add_input(const OnnxInput& input) {
  const std::string what = fmt::format("input {}", quoted_excerpt(file_.names[input.value]));
  OnnxConstant extents{.dtype = input.dtype};
  for (std::size_t axis = 0; axis < input.extents.size(); ++axis)
    extents.dims.push_back(extent_of(input, axis));
  const Shape shape = onnx_roots_detail::shape_of(extents, what);
  const DType dtype = model_type(input.dtype);
  tensors_[input.value] = builder_.input(file_.names[input.value], shape, dtype);
  const bool first = &input == &file_.inputs.front();
  const auto axis = static_cast<int>(onnx_.batch_axis.value_or(0));
  if (!first || axis >= shape.rank()) return;
  batch_ = shape[axis];
  // Token ids are [batch, length].
  const bool tokens = !is_floating(dtype) && shape.rank() == 2;
  builder_.set_samples(batch_, tokens ? element_count(shape).count : 0);
  if (!onnx_.batch_axis) builder_.fix_samples();
}

void OnnxLowering::check_open_axes() {
  if (file_.inputs.empty()) {
    throw UserError({.file = file_.path}, "", "the graph has no input");
  }
  if (onnx_.batch_axis &&
      std::all_of(file_.inputs.begin(), file_.inputs.end(), [&](const OnnxInput& input) {
        return *onnx_.batch_axis >= static_cast<std::int64_t>(input.extents.size());
      })) {
    throw UserError({}, "model.batch_axis",
                    fmt::format("no input of {} has an axis {}", file_.path, *onnx_.batch_axis));
  }
  for (const auto& [name, extent] : onnx_.axes) {
    const bool known = std::any_of(
        file_.inputs.begin(), file_.inputs.end(), [&, &name = name](const OnnxInput& input) {
          for (std::size_t axis = 0; axis < input.extents.size(); ++axis) {
            if (input.extents[axis].name == name && !name.empty()) return true;
            if (fmt::format("{}.{}", file_.names[input.value], axis) == name) return true;
          }
          return false;
        });
    if (!known) {
      throw UserError(
          {}, fmt::format("model.axes.{}", name),
          fmt::format("{} has no axis of this name{}; an axis without a name is "
                      "written INPUT.NUMBER, such as {}.0",
                      file_.path, known_names(name, onnx_roots_detail::axis_names(file_)),
                      file_.names[file_.inputs.front().value]));
    }
  }
  if (open_axes_.empty()) return;
  throw UserError(
      {.file = file_.path}, "",
      fmt::format("extents that the file leaves open: {}; give the batch by batch_axis: 0 "
                  "and others by axes: {{NAME: extent}} or {{INPUT.AXIS: extent}}",
                  fmt::join(open_axes_, ", ")));
}

}  // namespace tidemark
