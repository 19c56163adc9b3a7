#include "graph/import/onnx/onnx_lowering.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/fold.hpp"
#include "graph/import/onnx/onnx_calls.hpp"

namespace tidemark {
OnnxLowering::OnnxLowering(const OnnxModel& file, const OnnxUses& uses, const OnnxModules& modules,
                           const OnnxRoles& roles, const OnnxOptions& onnx,
                           const ModelOptions& options, const OnnxShapes& exported)
    : file_(file),
      uses_(uses),
      modules_(modules),
      roles_(roles),
      onnx_(onnx),
      options_(options),
      exported_(exported),
      builder_("", options.dtype),
      in_place_(file, modules, onnx.in_place),
      tensors_(file.names.size()),
      initializer_(file.names.size(), -1),
      never_constant_(file.names.size(), 0),
      is_chunk_(file.names.size(), 0),
      detaches_(file.names.size(), 0),
      done_(file.nodes.size(), 0),
      waiting_(file.nodes.size(), 0) {
  for (std::size_t i = 0; i < file.names.size(); ++i)
    constants_.push_back(nullptr);
}

void OnnxLowering::run() {
  check_operators();
  add_roots();
  check_open_axes();
  mark_detached();
  for (OnnxNodeId id : ids_of(file_.nodes)) {
    const OnnxNode& node = file_.nodes[id];
    current_ = id;
    if (node.outputs.empty() || !node.outputs.front().valid()) fail("it has no output");
    for (std::size_t i = 0; i < least_operands(node); ++i) {
      if (!node.has_input(i)) fail(fmt::format("operand {} is missing", i));
    }
  }
  IdVector<OnnxNodeId, NodeId> made_so_far;  // the last node of the graph, by node of the file
  for (OnnxNodeId id : ids_of(file_.nodes)) {
    if (done_[id] == 0 && !fold_node(id)) {
      if (waits(file_.nodes[id])) {
        waiting_[id] = 1;
      } else {
        lower(id);
      }
    }
    made_so_far.push_back(builder_.last_node());
  }
  for (const OnnxArgument& argument : arguments_of_calls(file_, uses_)) {
    const TensorId held = tensors_[argument.value];
    const NodeId until = made_so_far[argument.returns];
    if (held.valid() && until.valid()) builder_.hold_until(held, until);
  }
}

// A tensor inside a fused operator is no value of its own. Known when all outputs have been read.
void OnnxLowering::check_detached() const {
  for (const std::string& name : onnx_.detach) {
    for (OnnxValueId value : ids_of(file_.names)) {
      const bool waits = detaches_[value] != 0 && !constants_[value];
      if (file_.names[value] != name || !waits) continue;
      throw UserError(
          {}, "model.detach",
          fmt::format("{} cannot be detached: nothing reads it, or the operators around "
                      "it are one here; name a tensor before or behind them",
                      quoted_excerpt(name)));
    }
  }
}

// Returns the values of one name; a file has it at most once in each of its scopes.
std::vector<OnnxValueId> OnnxLowering::values_called(const std::string& name,
                                                     std::string_view key) const {
  std::vector<OnnxValueId> values;
  for (OnnxValueId value : ids_of(file_.names)) {
    if (file_.names[value] == name) values.push_back(value);
  }
  if (values.empty()) {
    throw UserError({}, fmt::format("model.{}", key),
                    fmt::format("{} has no tensor {}", file_.path, quoted_excerpt(name)));
  }
  return values;
}

void OnnxLowering::mark_detached() {
  for (const std::string& name : onnx_.detach) {
    for (const OnnxValueId value : values_called(name, "detach"))
      detaches_[value] = 1;
  }
}

void OnnxLowering::name_shared() {
  for (const std::string& name : onnx_.shared) {
    bool found = false;
    for (const OnnxValueId value : values_called(name, "shared")) {
      if (!tensors_[value].valid()) continue;
      builder_.share_as(tensors_[value], name);
      found = true;
    }
    if (!found) {
      throw UserError({}, "model.shared",
                      fmt::format("{} cannot be shared: the operators around it are one here; name "
                                  "a tensor before or behind them",
                                  quoted_excerpt(name)));
    }
  }
}

void OnnxLowering::check_operators() const {
  std::map<std::string, std::vector<std::string>> unknown;
  for (const OnnxNode& node : file_.nodes) {
    const bool known =
        node.domain.empty() && (find_onnx_operator(node.op) != nullptr || is_foldable(node.op));
    if (known) continue;
    const std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
    unknown[name].push_back(
        node.name.empty() && !node.outputs.empty() ? file_.names[node.outputs.front()] : node.name);
  }
  if (unknown.empty()) return;
  std::string text;
  constexpr std::size_t kShown = 3;
  for (const auto& [name, nodes] : unknown) {
    text += fmt::format("{}{} (", text.empty() ? "" : "; ", excerpt(name));
    for (std::size_t i = 0; i < nodes.size() && i < kShown; ++i)
      text += fmt::format("{}{}", i == 0 ? "node " : ", ", quoted_excerpt(nodes[i]));
    if (nodes.size() > kShown) text += fmt::format(" and {} more", nodes.size() - kShown);
    text += ")";
  }
  throw UserError({.file = file_.path}, "",
                  fmt::format("operators that are not known: {}; export the model without them, or "
                              "describe it by its layers",
                              text));
}

// Returns the most frequent floating type of the weights, which is the model's own;
// training.precision replaces it.
DType OnnxLowering::model_type(DType file_type) const {
  return file_type == own_type_ ? options_.dtype : file_type;
}

void OnnxLowering::enter_module(std::string_view path, int block) {
  if (path.empty()) {
    builder_.enter({});
    return;
  }
  const auto found = std::lower_bound(
      layers_.begin(), layers_.end(), path,
      [](const auto& known, std::string_view wanted) { return known.first < wanted; });
  if (found != layers_.end() && found->first == path) {
    builder_.enter(found->second);
    return;
  }
  const LayerId layer = builder_.add_layer(std::string(path), block);
  layers_.insert(found, {std::string(path), layer});
  builder_.enter(layer);
}

bool OnnxLowering::is_initializer(OnnxValueId value) const {
  return value.valid() && initializer_[value] >= 0;
}

bool OnnxLowering::is_parameter(OnnxValueId value) const {
  return is_initializer(value) &&
         roles_.initializers[static_cast<std::size_t>(initializer_[value])] == OnnxRole::kParameter;
}

std::string OnnxLowering::module_of(OnnxNodeId id) const {
  const int module = modules_.of_node[id];
  return module == kNoOnnxModule ? "" : modules_.all[static_cast<std::size_t>(module)].path;
}

TensorId OnnxLowering::operand(std::size_t index) {
  if (!has(index)) fail(fmt::format("operand {} is missing", index));
  const TensorId found = tensor(node().inputs[index]);
  if (!found.valid()) {
    fail(fmt::format("its operand {} is an output that is not simulated",
                     quoted_excerpt(file_.names[node().inputs[index]])));
  }
  return found;
}

std::optional<double> OnnxLowering::scalar(std::size_t index) {
  if (!has(index)) return std::nullopt;
  const OnnxConstant* value = constant(node().inputs[index]);
  if (value == nullptr || value->elements() != Elements(1) || value->dims.size() > 1)
    return std::nullopt;
  return value->known ? value->number() : 0.0;
}

std::optional<std::vector<std::int64_t>> OnnxLowering::setting(std::size_t index) {
  if (!has(index)) return std::nullopt;
  const OnnxValueId value = node().inputs[index];
  const OnnxConstant* found = constant(value);
  if (found == nullptr && is_initializer(value)) {
    found = &file_.initializers[static_cast<std::size_t>(initializer_[value])].tensor;
  }
  if (found == nullptr || !found->known) {
    fail(
        fmt::format("its operand {} is computed from data or was stripped, so shapes cannot be "
                    "inferred; export the model with fixed sizes",
                    quoted_excerpt(file_.names[value])));
  }
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(found->elements().count); ++i)
    values.push_back(found->integer(i));
  return values;
}

std::vector<std::int64_t> OnnxLowering::setting_or_attribute(std::size_t index,
                                                             std::string_view attribute) {
  if (const auto values = setting(index)) return *values;
  return node().list(attribute);
}

void OnnxLowering::set(TensorId result, std::size_t output) {
  if (output < node().outputs.size() && node().outputs[output].valid()) {
    tensors_[node().outputs[output]] = result;
  }
}

TensorId OnnxLowering::leading_slices(TensorId x, std::int64_t axis) {
  const int rank = builder_.shape(x).rank();
  if (axis < 0) axis += rank;
  if (axis + 1 == rank && rank > 2) return x;
  // An index on the result of an index belongs to the same expression: x[:, 1:, 2].
  std::int64_t done = 0;
  const OnnxNodeId source =
      node().inputs.empty() ? OnnxNodeId() : uses_.producer[node().inputs.front()];
  if (source.valid() && file_.nodes[source].op == "Slice") {
    const auto axes =
        file_.nodes[source].has_input(3) ? constant(file_.nodes[source].inputs[3]) : nullptr;
    if (axes != nullptr && axes->known && axes->elements() == Elements(1))
      done = axes->integer() + 1;
  }
  for (std::int64_t before = done; before < axis; ++before) {
    x = builder_.add("narrow", {x},
                     {{"axis", before}, {"length", builder_.shape(x)[static_cast<int>(before)]}});
  }
  return x;
}

TensorId OnnxLowering::activation(std::string_view family, TensorId x, Attributes attributes) {
  if (in_place_.contain(module_of(current_))) {
    return builder_.add_in_place(family, x, std::move(attributes));
  }
  return builder_.add(family, {x}, std::move(attributes));
}

void OnnxLowering::fail(const std::string& problem) const {
  throw UserError({.file = file_.path}, "",
                  fmt::format("{}: {}", file_.describe(current_), problem));
}

Shape OnnxLowering::shape(const std::vector<std::int64_t>& extents) const {
  if (extents.size() > static_cast<std::size_t>(kMaxRank)) {
    fail(fmt::format("its result has {} axes; at most {} are simulated", extents.size(), kMaxRank));
  }
  Shape result;
  for (std::int64_t extent : extents) {
    if (extent < 1) {
      fail(fmt::format("its result would have the shape [{}]", fmt::join(extents, ", ")));
    }
    result.push_back(extent);
  }
  return result;
}

void OnnxLowering::lower(OnnxNodeId id) {
  current_ = id;
  const int module = modules_.of_node[id];
  if (module == kNoOnnxModule) {
    enter_module("", -1);
  } else {
    const OnnxModule& m = modules_.all[static_cast<std::size_t>(module)];
    enter_module(m.path, m.block);
  }
  try {
    for (const OnnxPattern& pattern : onnx_patterns()) {
      if (pattern.first == node().op && pattern.lower(*this)) return;
    }
    const OnnxOperator* op = find_onnx_operator(node().op);
    if (op == nullptr) fail("this operator is understood on constants only");
    op->lower(*this);
  } catch (const UserError& error) {
    if (!error.location().file.empty() || !error.path().empty()) throw;
    std::string problem = error.problem();
    if (problem.starts_with(": ")) problem.erase(0, 2);  // the node has no module
    const bool rebatched = !exported_.empty();
    if (rebatched)
      problem += "; the file may hold its batch as a constant: export it at this batch";
    fail(problem);
  }
}

std::vector<std::int64_t> OnnxLowering::axes_of(const OnnxNode& reduction) {
  if (!reduction.has_input(1)) return reduction.list("axes");
  const OnnxConstant* axes = constant(reduction.inputs[1]);
  return axes != nullptr && axes->known ? axes->integers : std::vector<std::int64_t>();
}

TensorId OnnxLowering::add_buffer(std::string_view name, const Shape& shape, DType dtype) {
  const auto known = added_buffers_.find(name);
  if (known != added_buffers_.end()) return known->second;
  const int module = modules_.of_node[current_];
  enter_module(module_of_tensor(name),
               module == kNoOnnxModule ? -1 : modules_.all[static_cast<std::size_t>(module)].block);
  const TensorId buffer = builder_.buffer(name_in_module(name), shape, dtype);
  added_buffers_.emplace(name, buffer);
  enter_module(module_of(current_),
               module == kNoOnnxModule ? -1 : modules_.all[static_cast<std::size_t>(module)].block);
  return buffer;
}

std::int64_t OnnxLowering::exported_batch() const {
  const auto& shape = exported_[file_.inputs.front().value];
  const auto axis = static_cast<int>(onnx_.batch_axis.value_or(0));
  return shape && axis < shape->rank() ? (*shape)[axis] : batch_;
}

OnnxShapes OnnxLowering::shapes() const {
  OnnxShapes result(file_.names.size());
  for (OnnxValueId value : ids_of(tensors_)) {
    if (tensors_[value].valid()) result[value] = builder_.shape(tensors_[value]);
  }
  return result;
}

}  // namespace tidemark
