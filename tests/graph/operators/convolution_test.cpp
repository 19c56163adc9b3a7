#include <vector>

#include <doctest/doctest.h>

#include "graph/ir/convolutions.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::convolution_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

constexpr DType kFp32 = DType::kFloat32;
constexpr std::int64_t kInput = 4 * 16 * 32 * 32 * 4;  // 262,144: the probes' [4, 16, 32, 32]

TrainingGraph convolution(std::int64_t out_channels, Conv2dOptions options) {
  ModelBuilder b("probe", kFp32);
  const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 16, 32, 32})});
  return train_on_cpu(b, b.conv2d("conv", x, out_channels, options));
}

TEST_SUITE("golden") {
  TEST_CASE("a convolution keeps its input and makes input, weight and bias gradient") {
    const TrainingGraph graph = convolution(32, {.kernel = 3, .padding = 1});
    CHECK(saved_bytes(graph) == kInput);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{kInput, 524288});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kInput, 18432, 128});
    // oneDNN's blocked copies: forward peaks at 1,048,576 = output + its blocked copy.
    CHECK(graph.operators[graph.part(PartKind::kForward).back()].workspace ==
          Bytes(1'048'576 - 524'288));
    // Backward peaks at 1,067,136 = input gradient, weight gradient, and in the kernel of the
    // latter the bias gradient and the blocked copies of incoming gradient and input: probe
    // conv2d_3x3.
    const Bytes blocked = graph.operators[graph.part(PartKind::kBackward)[2]].workspace;
    CHECK(blocked == Bytes(1'067'136 - kInput - 18'432));
  }

  TEST_CASE("strides, groups and dilation set the output's size") {
    const TrainingGraph strided = convolution(32, {.kernel = 3, .stride = 2, .padding = 1});
    CHECK(allocations(strided, strided.part(PartKind::kForward)).back() == 131072);  // conv2d_3x3s2
    const TrainingGraph dilated = convolution(32, {.kernel = 3, .padding = 2, .dilation = 2});
    CHECK(allocations(dilated, dilated.part(PartKind::kForward)).back() == 524288);  // conv2d_dil2
    const TrainingGraph depthwise =
        convolution(16, {.kernel = 3, .padding = 1, .groups = 16, .bias = false});
    CHECK(allocations(depthwise, depthwise.part(PartKind::kBackward)) ==
          Sizes{kInput, 576});  // conv2d_dw3x3
    CHECK(depthwise.operators[depthwise.part(PartKind::kForward).back()].work.op_class ==
          OperatorClass::kDepthwiseConvolution);
  }

  TEST_CASE("filters in channels_last order the result, and the input is copied for the kernel") {
    ModelBuilder b("probe", kFp32);
    const std::vector<std::int64_t> to_channels_last{0, 3, 1, 2};
    const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 16, 32, 32})});
    const TensorId filters =
        b.add("permute", {b.parameter("weight", {32, 3, 3, 16})}, {{"axes", to_channels_last}});
    const TensorId y = b.add("conv2d", {x, filters}, {{"padding", std::int64_t{1}}});
    CHECK_FALSE(b.tensor(x).is_channels_last());
    CHECK(b.tensor(y).is_channels_last());
    // A join keeps the order that all of its parts have.
    CHECK(b.tensor(b.add("cat", {y, y}, {{"axis", std::int64_t{1}}})).is_channels_last());
    const TensorId mixed = b.add("cat", {y, x}, {{"axis", std::int64_t{1}}});
    CHECK(b.tensor(mixed).is_contiguous());
    const std::vector<std::int64_t> border{1, 1, 1, 1};
    CHECK(b.tensor(b.add("pad", {y}, {{"pads", border}})).is_channels_last());
    CHECK(b.tensor(b.add("pad", {x}, {{"pads", border}})).is_contiguous());
    const TrainingGraph graph = train_on_cpu(b, y);
    std::size_t kernels = 0;
    for (const Operator& op : graph.operators) {
      if (!is_convolution(op.work.op_class)) continue;
      ++kernels;
      CHECK(op.work.channels_last);
      const bool reads_input = op.work.op_class != OperatorClass::kConvolutionBackwardData;
      // The filters of 18,432 bytes in oneDNN's blocks, and for their gradient this too.
      const std::int64_t own =
          op.work.op_class == OperatorClass::kConvolutionBackwardWeight ? 2 * 18'432 : 18'432;
      CHECK(op.workspace == Bytes(own + (reads_input ? kInput : 0)));
    }
    CHECK(kernels == 3);
  }

  TEST_CASE("max_pool2d keeps its input and eight bytes per output element") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 16, 32, 32})});
    const TrainingGraph graph = train_on_cpu(b, b.max_pool2d(x, 2, 2, 0));
    CHECK(saved_bytes(graph) == kInput + 131072);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{kInput, 65536, 131072});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kInput});
  }

  TEST_CASE("a global average pool is a mean: it keeps its input in 1.13 only") {
    const auto build = [] {
      ModelBuilder b("probe", kFp32);
      const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 16, 32, 32})});
      b.set_output(b.global_avg_pool2d(x));
      return b.finish();
    };
    const TrainingGraph old = probe::train(build(), "torch-1.13-cpu");
    CHECK(saved_bytes(old) == kInput);
    CHECK(allocations(old, old.part(PartKind::kForward)).back() == 256);
    CHECK(saved_bytes(probe::train(build(), "torch-2.4-cuda")) == 0);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("each gradient of a convolution costs as many flops as forward") {
    const TrainingGraph graph = convolution(32, {.kernel = 3, .padding = 1, .bias = false});
    const double forward = 2.0 * 4 * 32 * 32 * 32 * 16 * 9;  // 2 N P Q K C R S
    CHECK(graph.operators[graph.part(PartKind::kForward).back()].work.flops.count == forward);
    CHECK(probe::flops(graph, graph.part(PartKind::kBackward)) == 2 * forward);
  }

  TEST_CASE("channels that do not match the weight are an error") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {1, 16, 8, 8});
    const TensorId weight = b.parameter("weight", {32, 8, 3, 3});
    CHECK(probe::problem_of([&] {
            b.add("conv2d", {x, weight});
          }) ==
          "probe: conv2d: 16 input channels do not match a weight of [32, 8, 3, 3] in 1 groups "
          "(inputs have shapes [1, 16, 8, 8], [32, 8, 3, 3])");
    CHECK(probe::problem_of([&] { b.conv2d("c", x, 8, {.kernel = 9}); })
              .find("a kernel that reaches over 9 is larger than the padded input of 8; it takes a "
                    "padding of 1") != std::string::npos);
    // The product of two such strides is 0 in 64 bits.
    CHECK(probe::problem_of([&] {
            b.conv2d("c", x, 8, {.kernel = 3, .stride = std::int64_t{1} << 32});
          }).find("stride, dilation, padding and kernel are at most 1048576") != std::string::npos);
    // Three such places reach over 2^63 and more.
    CHECK(probe::problem_of([&] {
            b.add("conv2d", {x, b.parameter("w", {8, 16, 3, 3})},
                  {{"dilation", std::int64_t{1} << 62}});
          }).find("stride, dilation, padding and kernel are at most 1048576") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidemark::convolution_test
