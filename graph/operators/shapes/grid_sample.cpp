// torch.nn.functional.grid_sample: an input [batch, channels, spatial...] read at the places of a
// grid [batch, places..., spatial axes]. Both are kept (derivatives.yaml).
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace grid_sample_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kGrid = 1;

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Shape& grid = inference.input(kGrid).shape;
  const int axes = x.shape.rank() - 2;
  inference.require(axes == 2 || axes == 3, "needs batch, channels and two or three more axes");
  inference.require(grid.rank() == axes + 2 && grid[0] == x.shape[0] && grid[-1] == axes, [&] {
    return fmt::format("a grid of the shape {} has no place of {} axes for each sample",
                       to_string(grid), axes);
  });
  Shape shape{x.shape[0], x.shape[1]};
  for (int axis = 1; axis + 1 < grid.rank(); ++axis)
    shape.push_back(grid[axis]);
  inference.create(shape, x.dtype);
}

// Each result mixes the two neighbours along every axis.
ForwardKernel forward(const NodeView& node) {
  constexpr double kFlops = 16;
  return {.work = node.elementwise_work(OperatorClass::kPooling, kFlops)};
}

void save(SavedSet& saved) {
  saved.input(kX);
  saved.input(kGrid);
}

// One kernel adds into zeros of the input's size and makes the grid's gradient.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  BackwardBuilder::Kernel kernel{.name = "grid_sample.backward",
                                 .reads = {b.output_gradient(), node.input(kX), node.input(kGrid)}};
  for (std::size_t i : {kX, kGrid}) {
    if (!b.needs_gradient(i)) continue;
    kernel.creates.push_back(
        b.create_like(i == kX ? "input_gradient" : "grid_gradient", node.input(i)));
    b.set_input_gradient(i, kernel.creates.back());
    kernel.work.written += kernel.creates.back().bytes();
  }
  constexpr double kFlops = 32;
  kernel.work.op_class = OperatorClass::kPooling;
  kernel.work.dtype = node.input(kX).dtype;
  kernel.work.flops = flops_per(kFlops, node.output());
  for (const Tensor& tensor : kernel.reads)
    kernel.work.read += traffic(tensor);
  b.launch(kernel);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "grid_sample",
     .summary = "an input read at the places of a grid; keeps both",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace grid_sample_family_detail

std::span<const OperatorFamily> grid_sample_families() {
  return grid_sample_family_detail::kFamilies;
}

}  // namespace tidemark
