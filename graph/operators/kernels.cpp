#include "graph/operators/kernels.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tidemark {

Strides dense_strides(const Shape& shape, const Strides& like) {
  std::vector<int> axes;  // longer than one element, outermost in memory first
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    if (like[axis] == 0) return contiguous_strides(shape);
    axes.push_back(axis);
  }
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return like[a] > like[b]; });
  Strides strides = shape;
  std::int64_t step = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    strides[*axis] = step;
    step *= shape[*axis];
  }
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1) continue;
    strides[axis] = axis + 1 < shape.rank() ? strides[axis + 1] * shape[axis + 1] : 1;
  }
  return strides;
}

bool is_dense(const Tensor& tensor) {
  const Strides dense = dense_strides(tensor.shape, tensor.strides);
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != dense[axis]) return false;
  }
  return true;
}

ScalarOperand scalar_operand(const FrameworkRules& rules, DType dtype) {
  if (!rules.scalars_are_tensors) return {};
  return {.as_given = bytes_of(DType::kFloat64, Elements(1)),
          .converted = bytes_of(dtype, Elements(1))};
}

Bytes scalar_temporaries(const FrameworkRules& rules, DType dtype) {
  const ScalarOperand scalar = scalar_operand(rules, dtype);
  return scalar.as_given + scalar.converted;
}

Bytes traffic(const Tensor& tensor) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    if (tensor.strides[axis] != 0) elements *= tensor.shape[axis];
  }
  return bytes_of(tensor.dtype, Elements(elements));
}

Work work_on(OperatorClass op_class, Flops flops, std::initializer_list<Tensor> read,
             std::initializer_list<Tensor> written) {
  Work work{.op_class = op_class, .flops = flops};
  for (const Tensor& tensor : read)
    work.read += traffic(tensor);
  for (const Tensor& tensor : written)
    work.written += traffic(tensor);
  if (read.size() > 0) {
    work.dtype = read.begin()->dtype;
    work.channels_last = read.begin()->is_channels_last();
  }
  return work;
}

Work matmul_work(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  return {.op_class = OperatorClass::kMatmul,
          .dtype = dtype,
          .flops = Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) *
                         static_cast<double>(k) * static_cast<double>(batch)),
          .read = bytes_of(dtype, Elements((m * k + k * n) * batch)),
          .written = bytes_of(dtype, Elements(m * n * batch)),
          .extent = {m, n, k, batch}};
}

double dropout_probability(const Attributes& attributes) {
  return attributes.number("p", 0.5);
}

double required_dropout_probability(Inference& inference) {
  const double p = dropout_probability(inference.attributes());
  inference.require(p >= 0 && p < 1, [&] { return fmt::format("p = {} is not in [0, 1)", p); });
  return p;
}

void create_elementwise(Inference& inference, const Shape& shape, DType dtype) {
  for (std::size_t i = 0; i < inference.input_count(); ++i) {
    if (!inference.has_input(i) || !(inference.input(i).shape == shape)) continue;
    inference.create(shape, dtype, dense_strides(shape, inference.input(i).strides));
    return;
  }
  inference.create(shape, dtype);
}

Tensor create_dense(BackwardBuilder& backward, std::string_view name, const Tensor& like) {
  Tensor tensor = backward.create_like(name, like);
  tensor.strides = dense_strides(like.shape, like.strides);
  return tensor;
}

Tensor reshaped(BackwardBuilder& backward, const Tensor& tensor, const Shape& shape) {
  Tensor view = tensor;
  view.shape = shape;
  if (view_strides(tensor.shape, tensor.strides, shape, view.strides)) return view;
  view = backward.contiguous(tensor);
  view.shape = shape;
  view.strides = contiguous_strides(shape);
  return view;
}

bool has_transposed_rows(const Tensor& tensor) {
  return tensor.shape.rank() == 3 && tensor.strides[-1] != 1 &&
         tensor.strides[0] == tensor.shape[1] * tensor.shape[2];
}

void set_fitted_gradient(BackwardBuilder& backward, std::size_t index, const Tensor& gradient) {
  if (!backward.needs_gradient(index)) return;
  const Tensor& input = backward.node().input(index);
  Tensor fitted = backward.sum_to(gradient, input.shape);
  if (fitted.dtype != input.dtype) {
    Tensor converted = backward.create("converted_gradient", input.shape, input.dtype);
    converted.strides = dense_strides(fitted.shape, fitted.strides);
    backward.launch_elementwise("cast", {fitted}, converted);
    fitted = converted;
  }
  backward.set_input_gradient(index, fitted);
}

int checked_axis(const Inference& inference, std::int64_t axis, int rank) {
  inference.require(axis >= -rank && axis < rank, [&] {
    return fmt::format("axis {} does not exist: its input has {} axes", axis, rank);
  });
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape shape_from(const std::vector<std::int64_t>& extents) {
  Shape shape;
  for (std::int64_t extent : extents)
    shape.push_back(extent);
  return shape;
}

ForwardKernel no_kernel(const NodeView& /*node*/) {
  return {};
}
void save_nothing(SavedSet& /*saved*/) {}
void no_backward(BackwardBuilder& /*backward*/) {}
void pass_gradient(BackwardBuilder& backward) {
  backward.set_input_gradient(0, backward.output_gradient());
}

}  // namespace tidemark
