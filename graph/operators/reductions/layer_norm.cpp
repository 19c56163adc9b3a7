// layer_norm, group_norm and the fused rms_norm. Hugging Face's decomposed RMSNorm is a composite
// (ModelBuilder::rms_norm): each of its nodes keeps what it needs by itself.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace layer_norm_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;  // optional
constexpr std::size_t kBias = 2;    // optional

DType statistics_type(const NodeView& node) {
  return node.rules().norm_statistics_in_fp32 ? DType::kFloat32 : node.input(kX).dtype;
}

void require_affine(const Inference& inference, const Shape& wanted) {
  for (std::size_t i : {kWeight, kBias}) {
    if (!inference.has_input(i)) continue;
    const Shape& shape = inference.input(i).shape;
    inference.require(shape == wanted, [&] {
      return fmt::format("the {} has shape {}, but {} is normalised",
                         i == kWeight ? "weight" : "bias", to_string(shape), to_string(wanted));
    });
  }
}

// Returns the number of trailing axes that are normalised: those that the weight covers; without a
// weight the last ones, by the attribute `axes`.
template <class NodeLike>
int normalized_rank(const NodeLike& node) {
  return node.has_input(kWeight) ? node.input(kWeight).shape.rank()
                                 : static_cast<int>(node.attributes().integer("axes", 1));
}

Shape normalized_shape(const Tensor& x, int rank) {
  Shape shape;
  for (int axis = x.shape.rank() - rank; axis < x.shape.rank(); ++axis) {
    shape.push_back(x.shape[axis]);
  }
  return shape;
}

void infer_trailing(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const int rank = normalized_rank(inference);
  inference.require(rank >= 1 && rank <= x.shape.rank(), "the weight has more axes than the input");
  require_affine(inference, normalized_shape(x, rank));
  inference.create(x.shape, x.dtype);
}

std::int64_t rows_of(const NodeView& node) {
  const Tensor& x = node.input(kX);
  return x.elements().count / element_count(normalized_shape(x, normalized_rank(node))).count;
}

// Returns the bytes of the kernel's copy of a strided input.
Bytes copy_of_strided(const Tensor& x) {
  return x.is_contiguous() ? Bytes(0) : x.bytes();
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kNormalization, 8),
          .workspace = copy_of_strided(node.input(kX))};
}

void save_layer_norm(SavedSet& saved) {
  const std::int64_t rows = rows_of(saved.node());
  saved.input(kX);
  for (std::size_t i : {kWeight, kBias}) {
    if (saved.node().has_input(i)) saved.input(i);
  }
  saved.extra("mean", {rows}, statistics_type(saved.node()));
  saved.extra("rstd", {rows}, statistics_type(saved.node()));
}

// One backward node makes the gradients of input, weight and bias.
void launch_backward(BackwardBuilder& b, std::string_view name,
                     const std::vector<Tensor>& statistics, Bytes workspace,
                     Bytes temporary = Bytes(0)) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor& x = node.input(kX);
  BackwardBuilder::Kernel kernel{.name = name, .reads = {gradient, x}};
  if (node.has_input(kWeight)) kernel.reads.push_back(node.input(kWeight));
  for (const Tensor& tensor : statistics)
    kernel.reads.push_back(tensor);
  constexpr std::string_view kNames[] = {"input_gradient", "weight_gradient", "bias_gradient"};
  kernel.work = {.op_class = OperatorClass::kNormalization, .dtype = x.dtype};
  for (std::size_t i : {kX, kWeight, kBias}) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result = b.create_like(kNames[i], node.input(i));
    kernel.creates.push_back(result);
    kernel.work.written += result.bytes();
    b.set_input_gradient(i, result);
  }
  if (kernel.creates.empty()) return;
  kernel.work.flops = flops_per(14, x);
  // Input and weight gradient are separate kernels that both read x and the incoming gradient.
  kernel.work.launches = b.needs_gradient(kX) && kernel.creates.size() > 1 ? 2 : 1;
  kernel.work.read = (gradient.bytes() + x.bytes()) * kernel.work.launches;
  kernel.workspace = workspace;
  kernel.temporary = temporary;
  b.launch(kernel);
}

void backward_layer_norm(BackwardBuilder& b) {
  const NodeView& node = b.node();
  Bytes workspace = copy_of_strided(node.input(kX));
  // The CPU kernel sums weight and bias gradients in one buffer of two rows (one thread).
  if (node.rules().sums_layer_norm_gradients_in_rows && node.has_input(kWeight)) {
    workspace += node.input(kWeight).bytes() * 2;
  }
  launch_backward(b, "layer_norm.backward", {b.saved("mean"), b.saved("rstd")}, workspace);
}

void save_rms_norm(SavedSet& saved) {
  saved.input(kX);
  if (saved.node().has_input(kWeight)) saved.input(kWeight);
  saved.extra("rstd", {rows_of(saved.node())}, statistics_type(saved.node()));
}

void backward_rms_norm(BackwardBuilder& b) {
  launch_backward(b, "rms_norm.backward", {b.saved("rstd")}, copy_of_strided(b.node().input(kX)));
}

void infer_group_norm(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const std::int64_t groups = inference.attributes().integer("groups", 1);
  inference.require(x.shape.rank() >= 2, "needs the axes batch and channels");
  inference.require(groups >= 1 && x.shape[1] % groups == 0, [&] {
    return fmt::format("{} channels do not split into {} groups", x.shape[1], groups);
  });
  require_affine(inference, {x.shape[1]});
  inference.create(x.shape, x.dtype);
}

void save_group_norm(SavedSet& saved) {
  const std::int64_t groups = saved.node().attributes().integer("groups", 1);
  const Shape statistics{saved.node().input(kX).shape[0], groups};
  saved.input(kX);
  if (saved.node().has_input(kWeight)) saved.input(kWeight);
  saved.extra("mean", statistics, statistics_type(saved.node()));
  saved.extra("rstd", statistics, statistics_type(saved.node()));
}

// ds and db: one sum per sample and channel each. The formula hands on grad.contiguous().
void backward_group_norm(BackwardBuilder& b) {
  const Tensor& x = b.node().input(kX);
  const Bytes sums = bytes_of(DType::kFloat32, Elements(2 * x.shape[0] * x.shape[1]));
  launch_backward(b, "group_norm.backward", {b.saved("mean"), b.saved("rstd")},
                  sums + copy_of_strided(x), copy_of_strided(b.output_gradient()));
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "layer_norm",
     .summary = "normalises the axes of the weight; keeps the input, mean and rstd",
     .infer = infer_trailing,
     .forward = forward,
     .save = save_layer_norm,
     .backward = backward_layer_norm},
    {.name = "rms_norm",
     .summary = "fused RMSNorm; keeps the input and rstd",
     .infer = infer_trailing,
     .forward = forward,
     .save = save_rms_norm,
     .backward = backward_rms_norm},
    {.name = "group_norm",
     .summary = "normalises groups of channels; keeps the input, mean and rstd",
     .infer = infer_group_norm,
     .forward = forward,
     .save = save_group_norm,
     .backward = backward_group_norm},
};

}  // namespace layer_norm_family_detail

std::span<const OperatorFamily> layer_norm_families() {
  return layer_norm_family_detail::kFamilies;
}

}  // namespace tidemark
