// Reshape is a view or a copy as strides decide.
#if TIDEMARK_READS_ONNX
#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_strides_test {
namespace {

// Bytes that forward creates after the first tensor.
probe::Sizes made(OnnxProbe& p, const std::string& output) {
  p.w.output(output);
  const TrainingGraph graph = trained(p.w);
  probe::Sizes sizes = probe::allocations(graph, graph.part(PartKind::kForward));
  sizes.erase(sizes.begin());
  return sizes;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("views of contiguous memory are free, those of transposed memory are copies") {
    OnnxProbe view({2, 8, 16});
    CHECK(made(view, view.w.reshape(view.x, {0, -1, 4, 4})).empty());
    OnnxProbe joined({2, 8, 16});
    CHECK(made(joined, joined.w.reshape(joined.x, {-1, 16})).empty());
    OnnxProbe heads(
        {2, 8, 16});  // [2, 8, 4, 4] as [2, 4, 8, 4]: heads * length does not lie together
    const std::string turned =
        heads.w.transpose(heads.w.reshape(heads.x, {2, 8, 4, 4}), {0, 2, 1, 3});
    CHECK(made(heads, heads.w.reshape(turned, {8, 8, 4})) == probe::Sizes{heads.n()});
  }

  TEST_CASE("with a batch of one the heads of attention flatten without a copy") {
    OnnxProbe one({1, 8, 16});
    const std::string turned = one.w.transpose(one.w.reshape(one.x, {1, 8, 4, 4}), {0, 2, 1, 3});
    CHECK(made(one, one.w.reshape(turned, {4, 8, 4})).empty());
  }

  TEST_CASE("expanded axes are free until a reshape copies them: grouped queries") {
    OnnxProbe probe({2, 2, 8, 4});
    OnnxWriter& w = probe.w;
    const std::string apart = w.node("Unsqueeze", {probe.x, w.integers({2})});
    const std::string repeated = w.node("Expand", {apart, w.integers({2, 2, 3, 8, 4})});
    CHECK(made(probe, w.reshape(repeated, {2, 6, 8, 4})) == probe::Sizes{3 * probe.n()});
  }

  TEST_CASE("one place of an axis, whole slices and strided slices are views") {
    OnnxProbe probe({2, 8, 16});
    OnnxWriter& w = probe.w;
    const std::string place =
        w.node("Gather", {probe.x, w.integer(-1)}, {{"axis", std::int64_t{1}}});
    CHECK(made(probe, place).empty());
    OnnxProbe sliced({2, 8, 16});
    const auto slice = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
      return sliced.w.node("Slice", {sliced.x, sliced.w.integers({from}), sliced.w.integers({to}),
                                     sliced.w.integers({1}), sliced.w.integers({step})});
    };
    static_cast<void>(slice(0, INT64_MAX, 1));
    CHECK(made(sliced, slice(1, INT64_MAX, 2)).empty());
  }

  TEST_CASE("elementwise results lie in memory as their first operand of the same shape") {
    OnnxProbe probe({2, 8, 16});
    const std::string turned = probe.w.transpose(probe.x, {0, 2, 1});
    const std::string scaled = probe.w.node("Neg", {turned});
    // Turned back it is contiguous, so the view is free.
    const std::string back = probe.w.transpose(scaled, {0, 2, 1});
    CHECK(made(probe, probe.w.reshape(back, {-1})) == probe::Sizes{probe.n()});
  }

  TEST_CASE("a convolution of channels-last memory gives channels-last memory") {
    OnnxProbe probe({1, 4, 4, 8});
    OnnxWriter& w = probe.w;
    const std::string image = w.transpose(probe.x, {0, 3, 1, 2});
    const std::string y = w.node("Conv", {image, w.parameter("c.weight", {8, 8, 1, 1})});
    const std::string rows = w.reshape(w.transpose(y, {0, 2, 3, 1}), {16, 8});
    CHECK(made(probe, rows) == probe::Sizes{probe.n()});  // the convolution's result alone
  }

  TEST_CASE("nn.MultiheadAttention copies each third of its projection, also at a batch of one") {
    OnnxProbe probe({8, 1, 48});
    OnnxWriter& w = probe.w;
    std::string sum;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::string part = w.node(
          "Slice", {probe.x, w.integers({16 * i}), w.integers({16 * i + 16}), w.integers({-1})});
      const std::string head = w.transpose(w.reshape(part, {8, 4, 4}), {1, 0, 2});
      sum = sum.empty() ? head : w.node("Add", {sum, head});
    }
    const std::int64_t third = probe.n() / 3;
    CHECK(made(probe, sum) == probe::Sizes{third, third, third, third, third});
  }
}

}  // namespace tidemark::test::onnx_strides_test
#endif
