// Values of the file as constants, which are evaluated, or as tensors, which are made where they
// are read.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/onnx/fold.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {

// Whether a node is lowered only where another node reads it: views and joins of parameters alone
// are the exporter's, such as transposed weights of linear layers and gates of recurrent ones in
// another order.
bool OnnxLowering::waits(const OnnxNode& node) const {
  constexpr std::array<std::string_view, 7> kViews = {
      "Transpose", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Slice", "Concat"};
  if (std::find(kViews.begin(), kViews.end(), node.op) == kViews.end() || node.inputs.empty()) {
    return false;
  }
  if (uses_.is_output[node.outputs.front()] != 0) return false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const OnnxValueId value = node.inputs[i];
    if (!value.valid() || is_setting(node, i)) continue;
    const OnnxNodeId source = uses_.producer[value];
    if (!is_initializer(value) && !(source.valid() && waiting_[source] != 0)) return false;
  }
  return node.has_input(0) && !is_computed_with(node.outputs.front());
}

// Whether a view of a parameter is the module's own, as gamma[:, None, None] * x is: arithmetic
// that belongs to no larger operator reads it. Autograd numbers it where it is written.
bool OnnxLowering::is_computed_with(OnnxValueId value) const {
  constexpr std::array<std::string_view, 4> kArithmetic = {"Mul", "Add", "Sub", "Div"};
  constexpr int kMostViews = 8;
  for (int i = 0; i < kMostViews; ++i) {
    const OnnxNodeId reader = uses_.only_reader(value);
    if (!reader.valid() || done_[reader] != 0) return false;
    const OnnxNode& node = file_.nodes[reader];
    if (std::find(kArithmetic.begin(), kArithmetic.end(), node.op) != kArithmetic.end())
      return true;
    if (node.op != "Unsqueeze" && node.op != "Reshape") return false;
    value = node.outputs.front();
  }
  return false;
}

// Whether the node's results are constants: then they are known afterwards.
bool OnnxLowering::fold_node(OnnxNodeId id) {
  const OnnxNode& node = file_.nodes[id];
  if (!node.domain.empty() || node.outputs.empty() || !node.outputs.front().valid()) return false;
  if (constants_[node.outputs.front()]) return true;
  return node.op == "Split" ? split_constant(node) : evaluate(id);
}

// A list of integers in parts of one element, as the exporter takes apart the counts of
// repeat_interleave.
bool OnnxLowering::split_constant(const OnnxNode& node) {
  const OnnxConstant* whole = node.has_input(0) ? constant(node.inputs[0]) : nullptr;
  if (whole == nullptr || !whole->known || is_floating(whole->dtype) || whole->dims.size() != 1 ||
      whole->elements().count != static_cast<std::int64_t>(node.outputs.size())) {
    return false;
  }
  const std::vector<std::int64_t> values = whole->integers;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    constants_[node.outputs[i]] = std::make_unique<OnnxConstant>(integers_constant({values[i]}));
  }
  return true;
}

bool OnnxLowering::evaluate(OnnxNodeId id) {
  const OnnxNode& node = file_.nodes[id];
  if (!is_foldable(node.op) || !node.domain.empty()) return false;
  std::vector<const OnnxConstant*> inputs;
  OnnxConstant measured;
  const bool measures = node.op == "Shape" || node.op == "Size";
  for (OnnxValueId input : node.inputs) {
    const OnnxConstant* value = input.valid() ? constant(input) : nullptr;
    if (input.valid() && value == nullptr) {
      // The shape of a view of a parameter that waits: tensordot's sizes.
      if (!measures || !tensor(input).valid()) return false;
      const Shape& shape = builder_.shape(tensors_[input]);
      measured.dims.assign(shape.begin(), shape.end());
      value = &measured;
    }
    inputs.push_back(value);
  }
  std::optional<OnnxConstant> result = fold(node, inputs);
  if (!result) {
    std::string shapes;
    for (const OnnxConstant* input : inputs) {
      if (input == nullptr) continue;
      shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ", fmt::join(input->dims, ", "));
    }
    throw UserError(
        {.file = file_.path}, "",
        fmt::format("{}: its result cannot be inferred from constants of the shapes {}; "
                    "a size that depends on data cannot be simulated",
                    file_.describe(id), shapes.empty() ? "[]" : shapes));
  }
  constants_[node.outputs.front()] = std::make_unique<OnnxConstant>(std::move(*result));
  return true;
}

// Whether a value is known to be no constant, now and later.
bool OnnxLowering::is_never_constant(OnnxValueId value) const {
  if (never_constant_[value] != 0 || tensors_[value].valid()) return true;
  const OnnxNodeId source = uses_.producer[value];
  if (!source.valid() || done_[source] != 0) return true;
  const OnnxNode& node = file_.nodes[source];
  return node.outputs.front() != value || !node.domain.empty() || !is_foldable(node.op);
}

// Walks to the operands with a stack of its own: files hold chains of any length.
const OnnxConstant* OnnxLowering::constant(OnnxValueId value) {
  struct Visit {
    OnnxValueId value;
    std::size_t next = 0;  // operand
  };
  if (!value.valid()) return nullptr;
  std::vector<Visit> pending{{value}};
  while (!pending.empty()) {
    const OnnxValueId at = pending.back().value;
    if (constants_[at]) {
      pending.pop_back();
      continue;
    }
    if (is_never_constant(at)) {
      never_constant_[at] = 1;
      pending.pop_back();
      continue;
    }
    const OnnxNodeId source = uses_.producer[at];
    const OnnxNode& node = file_.nodes[source];
    const bool measures = node.op == "Shape" || node.op == "Size";
    bool waits = false;
    for (std::size_t& i = pending.back().next; i < node.inputs.size(); ++i) {
      const OnnxValueId input = node.inputs[i];
      if (!input.valid() || constants_[input] || (measures && tensors_[input].valid())) continue;
      waits = true;
      break;
    }
    if (!waits) {
      if (!evaluate(source)) return nullptr;
      continue;
    }
    const OnnxValueId input = node.inputs[pending.back().next];
    if (!is_never_constant(input)) {
      pending.push_back({input});
    } else if (measures) {
      return nullptr;  // until the tensor is made whose shape is needed
    } else {
      never_constant_[at] = 1;
    }
  }
  return constants_[value].get();
}

std::optional<double> OnnxLowering::number(OnnxValueId value) {
  const OnnxConstant* found = constant(value);
  if (found == nullptr || !found->known || found->elements() != Elements(1)) return std::nullopt;
  return found->number();
}

// Constants that an exporter froze at the file's batch (zeros_like of the input) follow the new
// one.
std::vector<std::int64_t> OnnxLowering::rebatched(std::vector<std::int64_t> dims) const {
  const bool changes = !exported_.empty() && dims.size() >= 2;
  if (changes && exported_batch() > 1 && dims[0] == exported_batch()) dims[0] = batch_;
  return dims;
}

TensorId OnnxLowering::materialised(const OnnxConstant& constant) {
  const std::vector<std::int64_t> dims = rebatched(constant.dims);
  static_cast<void>(shape(dims));
  return builder_.add(
      "zeros", {}, {{"shape", dims}, {"dtype", std::string(name_of(model_type(constant.dtype)))}});
}

// Returns a constant that is an expanded view of a smaller one, as indices and masks of all samples
// are; invalid for other constants.
TensorId OnnxLowering::expanded(OnnxValueId value, const OnnxConstant& known) {
  OnnxValueId whole = value;
  for (OnnxNodeId source = uses_.producer[whole];
       source.valid() && file_.nodes[source].op == "Expand"; source = uses_.producer[whole])
    whole = file_.nodes[source].inputs[0];
  const OnnxConstant* smaller = whole != value ? constant(whole) : nullptr;
  if (smaller == nullptr) return {};
  // A module makes all of a constant of one number: torch.full, the zeros that a cell begins with.
  if (is_floating(smaller->dtype) && smaller->elements() <= Elements(1)) return {};
  return builder_.expand(tensor(whole), shape(rebatched(known.dims)));
}

// Lowers operands first, in their order; chains may have any length.
void OnnxLowering::lower_waiting(OnnxNodeId id) {
  struct Visit {
    OnnxNodeId node;
    std::size_t next = 0;  // operand
  };
  const OnnxNodeId outer = current_;
  std::vector<Visit> pending{{id}};
  while (!pending.empty()) {
    Visit& visit = pending.back();
    const OnnxNode& node = file_.nodes[visit.node];
    OnnxNodeId source;
    while (visit.next < node.inputs.size() && !source.valid()) {
      const OnnxValueId input = node.inputs[visit.next++];
      if (!input.valid() || tensors_[input].valid()) continue;
      const OnnxNodeId producer = uses_.producer[input];
      if (producer.valid() && waiting_[producer] != 0) source = producer;
    }
    if (source.valid()) {
      pending.push_back({source});
      continue;
    }
    const OnnxNodeId ready = visit.node;
    pending.pop_back();
    if (waiting_[ready] == 0 || done_[ready] != 0) continue;
    waiting_[ready] = 0;
    lower(ready);
  }
  current_ = outer;
}

TensorId OnnxLowering::tensor(OnnxValueId value) {
  if (!value.valid()) return {};
  const OnnxNodeId source = uses_.producer[value];
  if (!tensors_[value].valid() && source.valid() && waiting_[source] != 0) lower_waiting(source);
  if (!tensors_[value].valid()) {
    if (const OnnxConstant* known = constant(value)) {
      tensors_[value] = expanded(value, *known);
      if (!tensors_[value].valid()) tensors_[value] = materialised(*known);
    }
  }
  if (tensors_[value].valid() && detaches_[value] != 0) {
    detaches_[value] = 0;
    tensors_[value] = builder_.add("detach", {tensors_[value]});
  }
  return tensors_[value];
}

}  // namespace tidemark
