#include "graph/import/onnx/import_onnx.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

OnnxOptions decode_onnx_options(const Decoder& model) {
  OnnxOptions options;
  options.batch_axis = model.maybe<std::int64_t>("batch_axis", between(0, kMaxRank - 1));
  constexpr double kLongestAxis = 1 << 30;
  for (const auto& [name, extent] : model.optional_child("axes").entries())
    options.axes.emplace_back(name, extent.as<std::int64_t>(between(1, kLongestAxis)));
  constexpr std::string_view kRoleNames[] = {"parameter", "buffer"};
  const Decoder roles = model.optional_child("roles");
  for (const auto& [name, value] : roles.entries()) {
    const std::string role = roles.required_word(name, kRoleNames);
    options.roles.emplace_back(name, role == "buffer" ? OnnxRole::kBuffer : OnnxRole::kParameter);
  }
  options.output = model.optional<std::string>("output", "");
  return options;
}

namespace {

// The output that the loss is taken of.
TensorId chosen_output(OnnxLowering& lowering, const OnnxModel& file, const std::string& wanted) {
  std::vector<std::string> names;
  for (OnnxValueId value : file.outputs) {
    names.push_back(file.names[value]);
    const TensorId output = lowering.tensor(value);
    if (!output.valid()) continue;
    const bool trains = lowering.builder().tensor(output).requires_grad;
    if (wanted.empty() ? trains : file.names[value] == wanted) return output;
  }
  if (!wanted.empty()) {
    throw UserError({}, "model.output",
                    fmt::format("{} has no output {}{}", file.path, tidemark::quoted(wanted),
                                did_you_mean(wanted, names)));
  }
  throw UserError({.file = file.path}, "",
                  "no output depends on a parameter, so there is nothing to train");
}

// A batch that the user states and that would be ignored.
void check_stated_batch(const OnnxModel& file, const OnnxOptions& onnx, std::int64_t batch) {
  if (!onnx.batch_is_stated || onnx.batch_axis || file.inputs.empty()) return;
  for (const OnnxInput& input : file.inputs) {
    for (const OnnxExtent& extent : input.extents) {
      if (extent.extent == batch || extent.extent < 0) return;
    }
  }
  const std::vector<OnnxExtent>& first = file.inputs.front().extents;
  throw UserError(
      {}, "training.micro_batch",
      fmt::format("{} was exported with a batch of {}, not {}; write batch_axis: 0 beside "
                  "its name to change it",
                  file.path, first.empty() ? 1 : first.front().extent, batch));
}

}  // namespace

void OnnxLowering::add_loss() {
  builder_.enter({});
  const TensorId output = chosen_output(*this, file_, onnx_.output);
  const Tensor& tensor = builder_.tensor(output);
  if (!tensor.requires_grad) {
    throw UserError({}, "model.output", "this output does not depend on a parameter");
  }
  if (tensor.shape.rank() == 0) return builder_.set_loss(output);
  builder_.set_output(output);
  if (options_.loss == LossKind::kNone) return;
  if (options_.loss == LossKind::kMse) return builder_.mse_loss(output);
  if (tensor.shape.rank() < 2) {
    throw UserError({.file = file_.path}, "",
                    fmt::format("its output {} has no axis of classes for cross_entropy; write "
                                "training.loss: mse or none",
                                to_string(tensor.shape)));
  }
  builder_.cross_entropy_loss(output);
}

Graph import_onnx(const std::string& path, const OnnxOptions& onnx, const ModelOptions& options) {
  check_options(options);
  const OnnxModel file = read_onnx(path);
  check_stated_batch(file, onnx, options.micro_batch);
  const OnnxUses uses(file);
  const OnnxModules modules(file);
  const OnnxRoles roles = onnx_roles(file, uses, onnx.roles);
  // Where the batch changes, the shapes at the file's own batch tell what an exporter has frozen.
  OnnxShapes exported;
  if (onnx.batch_axis && !file.inputs.empty()) {
    const auto axis = static_cast<std::size_t>(*onnx.batch_axis);
    const std::vector<OnnxExtent>& extents = file.inputs.front().extents;
    const std::int64_t batch = axis < extents.size() ? extents[axis].extent : -1;
    if (batch > 0 && batch != options.micro_batch) {
      OnnxOptions same = onnx;
      ModelOptions own = options;
      own.micro_batch = batch;
      OnnxLowering lowering(file, uses, modules, roles, same, own, exported);
      lowering.run();
      exported = lowering.shapes();
    }
  }
  OnnxLowering lowering(file, uses, modules, roles, onnx, options, exported);
  lowering.run();
  lowering.add_loss();
  Graph graph = lowering.finish();
  graph.name = std::filesystem::path(path).stem().string();
  return checked(std::move(graph));
}

}  // namespace tidemark
