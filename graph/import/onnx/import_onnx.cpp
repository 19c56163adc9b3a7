#include "graph/import/onnx/import_onnx.hpp"

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/import/onnx/merged_operators.hpp"
#include "graph/import/onnx/merged_slices.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"
#include "graph/models/losses.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

namespace import_onnx_detail {
namespace {

// Returns the output that the loss is taken of.
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
                    fmt::format("{} has no output {}{}", file.path,
                                tidemark::quoted_excerpt(wanted), known_names(wanted, names)));
  }
  throw UserError({.file = file.path}, "",
                  "no output depends on a parameter, so there is nothing to train");
}

// Returns the entry of model.axes for an axis of an input; null when there is none.
const std::pair<std::string, std::int64_t>* stated_extent(const OnnxModel& file,
                                                          const OnnxOptions& onnx,
                                                          const OnnxInput& input,
                                                          std::size_t axis) {
  const std::string place = fmt::format("{}.{}", file.names[input.value], axis);
  const std::string& own_name = input.extents[axis].name;
  for (const auto& stated : onnx.axes) {
    if (stated.first == place || (!own_name.empty() && stated.first == own_name)) return &stated;
  }
  return nullptr;
}

// Refuses a batch that the user states twice, differently, or that would be ignored. The batch is
// axis batch_axis of every input, or else axis 0 of the first.
void check_stated_batch(const OnnxModel& file, const OnnxOptions& onnx, std::int64_t batch) {
  const auto axis = static_cast<std::size_t>(onnx.batch_axis.value_or(0));
  for (const OnnxInput& input : file.inputs) {
    if (&input != &file.inputs.front() && !onnx.batch_axis) break;
    if (axis >= input.extents.size()) continue;
    const auto* stated = stated_extent(file, onnx, input, axis);
    if (stated == nullptr || stated->second == batch) continue;
    if (!onnx.batch_is_stated && !onnx.batch_axis) continue;
    throw UserError({}, fmt::format("model.axes.{}", stated->first),
                    fmt::format("axis {} of input {} is the batch, which is {} here but {} by "
                                "training.micro_batch; write batch_axis: {} and the batch as "
                                "training.micro_batch only",
                                axis, tidemark::quoted_excerpt(file.names[input.value]),
                                stated->second, batch, axis));
  }
  if (!onnx.batch_is_stated || onnx.batch_axis || file.inputs.empty()) return;
  const OnnxInput& first = file.inputs.front();
  if (!first.extents.empty() &&
      (first.extents.front().extent < 0 || stated_extent(file, onnx, first, 0) != nullptr)) {
    return;
  }
  const std::int64_t exported = first.extents.empty() ? 1 : first.extents.front().extent;
  if (exported == batch) return;
  throw UserError(
      {}, "training.micro_batch",
      fmt::format("{} was exported with a batch of {} (axis 0 of input {}), not {}; write "
                  "batch_axis: 0 beside its name to change it, or the number of another axis "
                  "if that is the batch",
                  file.path, exported, tidemark::quoted_excerpt(file.names[first.value]), batch));
}

}  // namespace
}  // namespace import_onnx_detail

void OnnxLowering::add_loss() {
  builder_.enter({});
  const TensorId output = import_onnx_detail::chosen_output(*this, file_, onnx_.output);
  const Tensor tensor = builder_.tensor(output);
  if (!tensor.requires_grad) {
    throw UserError({}, "model.output", "this output does not depend on a parameter");
  }
  const bool returns_loss = tensor.shape.rank() == 0;
  const std::string_view loss = kLossNames.at(static_cast<std::size_t>(options_.loss));
  const std::size_t count = results_of(options_.loss);
  if (returns_loss && (count > 1 || options_.loss == LossKind::kCtc)) {
    throw UserError({}, "training.loss",
                    fmt::format("{} returns its loss, so {} would not be taken; leave it out",
                                file_.path, loss));
  }
  // The loss takes the output, or as many outputs as it compares, in the file's order. The caller
  // holds the others.
  std::vector<TensorId> results;
  if (count == 1) results.push_back(output);
  for (OnnxValueId value : file_.outputs) {
    const TensorId other = this->tensor(value);
    if (!other.valid() || (count == 1 && other == output)) continue;
    if (results.size() < count) {
      results.push_back(other);
    } else if (builder_.tensor(other).requires_grad) {
      builder_.add_other_output(other);
    }
  }
  check_detached();
  name_shared();
  if (returns_loss) return builder_.set_loss(output);
  builder_.set_output(output);
  if (takes_classes(options_.loss) && tensor.shape.rank() < 2) {
    throw UserError({.file = file_.path}, "",
                    fmt::format("its output {} has no axis of classes for {}; write "
                                "training.loss: mse or none",
                                to_string(tensor.shape),
                                kLossNames.at(static_cast<std::size_t>(options_.loss))));
  }
  if (results.size() < count) {
    throw UserError({.file = file_.path}, "",
                    fmt::format("{} compares {} outputs and the file has {}; return them all from "
                                "the module",
                                loss, count, results.size()));
  }
  tidemark::add_loss(builder_, results, options_);
}

Graph import_onnx(const std::string& path, const OnnxOptions& onnx, const ModelOptions& options) {
  check_options(options);
  OnnxModel file = read_onnx(path);
  split_merged_operators(file);
  split_merged_slices(file);
  import_onnx_detail::check_stated_batch(file, onnx, options.micro_batch);
  const OnnxUses uses(file);
  const OnnxModules modules(file);
  const OnnxRoles roles = onnx_roles(file, uses, onnx.roles);
  // Shapes at the file's own batch show which constants an exporter has frozen, if the batch
  // changes.
  OnnxShapes exported;
  if (onnx.batch_axis && !file.inputs.empty()) {
    const auto axis = static_cast<std::size_t>(*onnx.batch_axis);
    const std::vector<OnnxExtent>& extents = file.inputs.front().extents;
    const std::int64_t batch = axis < extents.size() ? extents[axis].extent : -1;
    if (batch > 0 && batch != options.micro_batch) {
      ModelOptions own = options;
      own.micro_batch = batch;
      OnnxLowering lowering(file, uses, modules, roles, onnx, own, exported);
      lowering.run();
      exported = lowering.shapes();
    }
  }
  OnnxLowering lowering(file, uses, modules, roles, onnx, options, exported);
  try {
    lowering.run();
    lowering.add_loss();
  } catch (const UserError& error) {
    // A shape that no device can hold has no place of its own.
    if (!error.location().file.empty() || !error.path().empty()) throw;
    throw UserError({.file = path}, "", error.problem());
  }
  Graph graph = lowering.finish();
  graph.name = title_of_file(path);
  return checked(std::move(graph));
}

}  // namespace tidemark
