// Reductions that keep tensors: var, std, norm, logsumexp, max, min, prod; and cumsum.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/reductions/reduction.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace statistics_family_detail {

void infer(Inference& inference) {
  inference.create(reduced_shape(inference), inference.input(0).dtype);
}

ForwardKernel forward(const NodeView& node) {
  const Tensor& x = node.input(0);
  return {.work = work_on(OperatorClass::kReduction, flops_per(3, x), {x}, {node.output()})};
}

void save_input(SavedSet& saved) {
  saved.input(0);
}

void save_input_and_output(SavedSet& saved) {
  saved.input(0);
  saved.output();
}

// The tensors that the kernels of a formula make beside its result.
struct Temporaries {
  int full = 0;           // of the input's size
  int reduced = 0;        // of the result's size
  int masks = 0;          // bool, of the input's size
  int reduced_masks = 0;  // bool, of the result's size
  int counts = 0;         // int64, of the result's size

  [[nodiscard]] Bytes bytes(const Tensor& x, const Tensor& out) const {
    return x.bytes() * full + out.bytes() * reduced + bytes_of(DType::kBool, x.elements()) * masks +
           bytes_of(DType::kBool, out.elements()) * reduced_masks +
           bytes_of(DType::kInt64, out.elements()) * counts;
  }
  [[nodiscard]] int kernels() const { return full + reduced + masks + reduced_masks + counts; }
};

void launch_formula(BackwardBuilder& b, std::vector<Tensor> reads, const Temporaries& made) {
  const Tensor& x = b.node().input(0);
  const Tensor& out = b.node().output();
  const Tensor result = b.create_like("input_gradient", x);
  reads.push_back(expanded_gradient(b));
  Work work{.op_class = OperatorClass::kElementwise, .dtype = x.dtype};
  work.flops = flops_per(2 + made.full, x);
  for (const Tensor& tensor : reads)
    work.read += traffic(tensor);
  const Bytes temporaries = made.bytes(x, out);
  work.read += temporaries;
  work.written = result.bytes() + temporaries;
  work.launches = 1 + made.kernels();
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch({.name = name,
            .reads = std::move(reads),
            .creates = {result},
            .work = work,
            .temporary = temporaries});
  b.set_input_gradient(0, result);
}

// (2 / (n - correction)) * grad * (self - self.mean(dim, true))
void backward_variance(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0)}, {.full = 1, .reduced = 2});
}

// The gradient of the variance comes first: grad / (result * 2).
void backward_deviation(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0), b.node().output()}, {.full = 1, .reduced = 3});
}

// grad * (self / norm).masked_fill_(norm == 0, 0)
void backward_norm(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0), b.node().output()}, {.full = 1, .reduced_masks = 1});
}

// Maxima, and exp(self - maxima) before its sum.
ForwardKernel forward_logsumexp(const NodeView& node) {
  const Tensor& x = node.input(0);
  Work work = work_on(OperatorClass::kReduction, flops_per(5, x), {x, x, x}, {x, node.output()});
  work.launches = 4;
  return {.work = work, .workspace = x.bytes() + node.output().bytes()};
}

// grad * (self - result).exp()
void backward_logsumexp(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0), b.node().output()}, {.full = 2});
}

// (grad * result) / self where no element is zero: a mask of the zeros and their numbers come
// first.
void backward_product(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0), b.node().output()}, {.full = 1, .masks = 1, .counts = 1});
}

// Values and int64 positions along one axis.
void infer_extremum(Inference& inference) {
  inference.require(inference.attributes().list("axes").size() == 1,
                    "reduces one axis: amax and amin reduce more");
  const Shape shape = reduced_shape(inference);
  inference.create(shape, inference.input(0).dtype);
  inference.create(shape, DType::kInt64);
}

ForwardKernel forward_extremum(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kReduction, 1)};
}

void save_positions(SavedSet& saved) {
  saved.output(1);
}

// Zeros of the input's size, into which the gradient is scattered.
void backward_extremum(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work =
      work_on(OperatorClass::kMemset, Flops(0), {gradient, b.node().output(1)}, {result, gradient});
  work.launches = 2;
  b.launch({.name = "max.backward",
            .reads = {gradient, b.node().output(1)},
            .creates = {result},
            .work = work});
  b.set_input_gradient(0, result);
}

// amax and amin share the gradient between equal elements, (grad / mask.sum(dim)) * mask: they keep
// both.
void backward_shared(BackwardBuilder& b) {
  launch_formula(b, {b.node().input(0), b.node().output()},
                 {.reduced = 1, .masks = 1, .counts = 1});
}

void infer_position(Inference& inference) {
  inference.create(reduced_shape(inference), DType::kInt64);
}

void infer_cumsum(Inference& inference) {
  const Tensor& x = inference.input(0);
  static_cast<void>(
      checked_axis(inference, inference.attributes().integer("axis", -1), x.shape.rank()));
  create_elementwise(inference, x.shape, x.dtype);
}

ForwardKernel forward_cumsum(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kReduction, 1)};
}

// grad.flip(dim).cumsum(dim).flip(dim)
void backward_cumsum(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  b.launch_elementwise("cumsum.backward", {gradient}, result, OperatorClass::kReduction, 1,
                       Bytes(0), result.bytes() * 2);
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "var",
     .summary = "variance over axes; keeps its input",
     .infer = infer,
     .forward = forward,
     .save = save_input,
     .backward = backward_variance},
    {.name = "std",
     .summary = "standard deviation over axes; keeps input and output",
     .infer = infer,
     .forward = forward,
     .save = save_input_and_output,
     .backward = backward_deviation},
    {.name = "norm",
     .summary = "2-norm over axes; keeps input and output",
     .infer = infer,
     .forward = forward,
     .save = save_input_and_output,
     .backward = backward_norm},
    {.name = "logsumexp",
     .summary = "log(sum(exp(x))) over axes; keeps input and output",
     .infer = infer,
     .forward = forward_logsumexp,
     .save = save_input_and_output,
     .backward = backward_logsumexp},
    {.name = "prod",
     .summary = "product over axes; keeps input and output",
     .infer = infer,
     .forward = forward,
     .save = save_input_and_output,
     .backward = backward_product},
    {.name = "max",
     .summary = "maxima of an axis and their int64 positions, which are kept",
     .infer = infer_extremum,
     .forward = forward_extremum,
     .save = save_positions,
     .backward = backward_extremum},
    {.name = "min",
     .summary = "minima of an axis and their int64 positions, which are kept",
     .infer = infer_extremum,
     .forward = forward_extremum,
     .save = save_positions,
     .backward = backward_extremum},
    {.name = "amax",
     .summary = "maxima over axes; keeps input and output",
     .infer = infer,
     .forward = forward,
     .save = save_input_and_output,
     .backward = backward_shared},
    {.name = "amin",
     .summary = "minima over axes; keeps input and output",
     .infer = infer,
     .forward = forward,
     .save = save_input_and_output,
     .backward = backward_shared},
    {.name = "argmax",
     .summary = "int64 positions of the maxima over axes",
     .infer = infer_position,
     .forward = forward_extremum,
     .save = save_nothing,
     .backward = no_backward},
    {.name = "cumsum",
     .summary = "running sums along an axis; keeps nothing",
     .infer = infer_cumsum,
     .forward = forward_cumsum,
     .save = save_nothing,
     .backward = backward_cumsum},
};

}  // namespace statistics_family_detail

std::span<const OperatorFamily> statistics_families() {
  return statistics_family_detail::kFamilies;
}

}  // namespace tidemark
