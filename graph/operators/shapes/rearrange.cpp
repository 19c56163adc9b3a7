// Copies that move elements: clone, roll, flip, tril, pad, pixel_shuffle, repeat. Backward is the
// opposite copy.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace rearrange_family_detail {

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0)};
}

void launch_copy(BackwardBuilder& b, const Tensor& result) {
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch_elementwise(name, {b.output_gradient()}, result, OperatorClass::kElementwise, 0);
  b.set_input_gradient(0, result);
}

// Copies the gradient in the input's shape.
void backward_copy(BackwardBuilder& b) {
  launch_copy(b, b.create_like("input_gradient", b.node().input(0)));
}

void infer_clone(Inference& inference) {
  create_elementwise(inference, inference.input(0).shape, inference.input(0).dtype);
}

void infer_same(Inference& inference) {
  inference.create(inference.input(0).shape, inference.input(0).dtype);
}

// Padding with a constant keeps nothing; the other modes keep the input.
void save_pad(SavedSet& saved) {
  if (saved.node().attributes().text("mode", "constant") != "constant") saved.input(0);
}

// A constant keeps channels_last (torch's constant_pad_nd), forward and backward.
// `pads`: before and after of the last axis first, as torch.nn.functional.pad; negative ones crop.
void infer_pad(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::vector<std::int64_t> pads = inference.attributes().list("pads");
  const std::string mode = inference.attributes().text("mode", "constant");
  inference.require(mode == "constant" || mode == "reflect" || mode == "replicate", [&] {
    return fmt::format("mode '{}' is not constant, reflect or replicate", mode);
  });
  inference.require(
      pads.size() % 2 == 0 && static_cast<int>(pads.size()) <= 2 * x.shape.rank(),
      [&] { return fmt::format("{} pads do not fit {} axes", pads.size(), x.shape.rank()); });
  Shape shape = x.shape;
  for (std::size_t i = 0; i < pads.size(); ++i)
    shape[-1 - static_cast<int>(i / 2)] += pads[i];
  inference.create(shape, x.dtype,
                   mode == "constant" ? channel_order(shape, x) : contiguous_strides(shape));
}

void backward_pad(BackwardBuilder& b) {
  const Tensor& x = b.node().input(0);
  Tensor result = b.create_like("input_gradient", x);
  const bool constant = b.node().attributes().text("mode", "constant") == "constant";
  if (constant) result.strides = channel_order(x.shape, b.output_gradient());
  launch_copy(b, result);
}

// [n, c r r, h, w] to [n, c, h r, w r].
void infer_pixel_shuffle(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::int64_t r = inference.attributes().integer("factor", 2);
  inference.require(x.shape.rank() >= 3 && r >= 1 && x.shape[-3] % (r * r) == 0, [&] {
    return fmt::format("the channels are not a multiple of {} squared", r);
  });
  Shape shape = x.shape;
  shape[-3] /= r * r;
  shape[-2] *= r;
  shape[-1] *= r;
  inference.create(shape, x.dtype);
}

void infer_pixel_unshuffle(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::int64_t r = inference.attributes().integer("factor", 2);
  inference.require(x.shape.rank() >= 3 && r >= 1 && x.shape[-2] % r == 0 && x.shape[-1] % r == 0,
                    [&] { return fmt::format("height or width is not a multiple of {}", r); });
  Shape shape = x.shape;
  shape[-3] *= r * r;
  shape[-2] /= r;
  shape[-1] /= r;
  inference.create(shape, x.dtype);
}

// torch.Tensor.repeat: `counts` copies along each axis.
void infer_repeat(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::vector<std::int64_t> counts = inference.attributes().list("counts");
  const int added = static_cast<int>(counts.size()) - x.shape.rank();
  inference.require(added >= 0, "repeat cannot drop axes");
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(counts.size()); ++axis) {
    shape.push_back(counts[static_cast<std::size_t>(axis)] *
                    (axis < added ? 1 : x.shape[axis - added]));
  }
  inference.create(shape, x.dtype);
}

// repeat_backward sums over the axes that were repeated; without any it views the gradient.
void backward_repeat(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Shape& shape = b.node().input(0).shape;
  if (gradient.shape == shape) return b.set_input_gradient(0, gradient);
  backward_copy(b);
}

constexpr OperatorFamily copy(std::string_view name, std::string_view summary,
                              void (*infer)(Inference&)) {
  return {.name = name,
          .summary = summary,
          .infer = infer,
          .forward = forward,
          .save = save_nothing,
          .backward = backward_copy};
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "clone",
     .summary = "a copy; its gradient is the incoming one",
     .infer = infer_clone,
     .forward = forward,
     .save = save_nothing,
     .backward = pass_gradient},
    copy("roll", "shifts axes around; keeps nothing", infer_same),
    copy("flip", "reverses axes; keeps nothing", infer_same),
    copy("tril", "zeros above the diagonal; keeps nothing", infer_same),
    copy("triu", "zeros below the diagonal; keeps nothing", infer_same),
    {.name = "pad",
     .summary = "adds borders; keeps nothing unless it reflects or replicates",
     .infer = infer_pad,
     .forward = forward,
     .save = save_pad,
     .backward = backward_pad},
    copy("pixel_shuffle", "channels to places; keeps nothing", infer_pixel_shuffle),
    copy("pixel_unshuffle", "places to channels; keeps nothing", infer_pixel_unshuffle),
    {.name = "repeat",
     .summary = "copies along axes; keeps nothing",
     .infer = infer_repeat,
     .forward = forward,
     .save = save_nothing,
     .backward = backward_repeat},
};

}  // namespace rearrange_family_detail

std::span<const OperatorFamily> rearrange_families() {
  return rearrange_family_detail::kFamilies;
}

}  // namespace tidemark
