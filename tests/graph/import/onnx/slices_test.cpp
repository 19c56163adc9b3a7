// Slices that exporters write once for several indices, or for x.unfold. Forms as torch.onnx of
// PyTorch 1.13.1 writes them.
#if TIDEMARK_READS_ONNX
#include <algorithm>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_slices_test {
namespace {

std::int64_t nodes_of(const OnnxWriter& w, std::string_view family) {
  ModelOptions options;
  options.loss = LossKind::kNone;
  const Graph graph = imported(w, {}, options);
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

// x[..., start::2, ...] of an axis, as module code writes it: with a step.
std::string every_second(OnnxWriter& w, const std::string& x, std::int64_t axis,
                         std::int64_t start) {
  return w.node("Slice", {x, w.integers({start}), w.integers({INT64_MAX}), w.integers({axis}),
                          w.integers({2})});
}

// A part that the exporter itself cuts: without a step.
std::string window(OnnxWriter& w, const std::string& x, std::int64_t axis, std::int64_t start,
                   std::int64_t size) {
  return w.node("Slice", {x, w.integers({start}), w.integers({start + size}), w.integers({axis})});
}

std::string joined(OnnxWriter& w, const std::vector<std::string>& parts, std::int64_t axis) {
  return w.node("Concat", parts, {{"axis", axis}});
}

}  // namespace

TEST_SUITE("unit") {
  // [x[:, i::2, j::2] for i, j] is two slices in the file and four of those. PyTorch cuts three
  // axes for each of the four, the first one whole.
  TEST_CASE("each index of two axes has a first slice of its own") {
    OnnxProbe probe({2, 4, 4});
    OnnxWriter& w = probe.w;
    std::vector<std::string> corners;
    for (const std::int64_t row : {0, 1}) {
      const std::string rows = every_second(w, probe.x, 1, row);
      for (const std::int64_t column : {0, 1})
        corners.push_back(every_second(w, rows, 2, column));
    }
    w.output(joined(w, corners, 0));
    CHECK(nodes_of(w, "narrow") == 12);
  }

  TEST_CASE("a first slice that is read otherwise, or is the only one, is a variable") {
    OnnxProbe one({2, 4, 4});
    const std::string rows = every_second(one.w, one.x, 1, 0);
    one.w.output(
        joined(one.w, {every_second(one.w, rows, 2, 0), every_second(one.w, rows, 2, 1)}, 0));
    CHECK(nodes_of(one.w, "narrow") == 4);  // two axes, then one twice
    OnnxProbe read({2, 4, 4});
    OnnxWriter& w = read.w;
    const std::string even = every_second(w, read.x, 1, 0);
    const std::string odd = every_second(w, read.x, 1, 1);
    const std::string columns = joined(
        w, {every_second(w, even, 2, 0), every_second(w, even, 2, 1), every_second(w, odd, 2, 0)},
        0);
    w.output(columns);
    w.output(w.node("Exp", {odd}));
    CHECK(nodes_of(w, "narrow") == 7);  // two axes twice, then one three times
  }

  // x.unfold(1, 4, 2) of [2, 8, 3]: three windows of four elements, [2, 3, 3, 4].
  TEST_CASE("windows that the exporter cuts and joins are one view") {
    OnnxProbe probe({2, 8, 3});
    OnnxWriter& w = probe.w;
    std::vector<std::string> windows;
    for (const std::int64_t start : {0, 2, 4}) {
      const std::string moved = w.transpose(window(w, probe.x, 1, start, 4), {0, 2, 1});
      windows.push_back(w.node("Unsqueeze", {moved, w.integers({1})}));
    }
    w.output(joined(w, windows, 1));
    CHECK(nodes_of(w, "unfold_axis") == 1);
    CHECK(nodes_of(w, "cat") == 0);
    ModelOptions options;
    options.loss = LossKind::kNone;
    const Graph graph = imported(w, {}, options);
    CHECK(to_string(graph.tensors[graph.output(NodeId(graph.nodes.size() - 1))].shape) ==
          "[2, 3, 3, 4]");
  }

  TEST_CASE("windows of module code are stacked, and so are those of another step") {
    OnnxProbe stacked({2, 8, 3});
    std::vector<std::string> parts;
    for (const std::int64_t start : {0, 2, 4}) {
      OnnxWriter& w = stacked.w;
      const std::string part =
          w.node("Slice", {stacked.x, w.integers({start}), w.integers({start + 4}), w.integers({1}),
                           w.integers({1})});
      parts.push_back(w.node("Unsqueeze", {part, w.integers({1})}));
    }
    stacked.w.output(joined(stacked.w, parts, 1));
    CHECK(nodes_of(stacked.w, "unfold_axis") == 0);
    CHECK(nodes_of(stacked.w, "cat") == 1);
    OnnxProbe uneven({2, 8, 3});
    std::vector<std::string> windows;
    for (const std::int64_t start : {0, 2, 3}) {
      const std::string part = window(uneven.w, uneven.x, 2, start % 2, 2);
      windows.push_back(uneven.w.node("Unsqueeze", {part, uneven.w.integers({2})}));
    }
    uneven.w.output(joined(uneven.w, windows, 2));
    CHECK(nodes_of(uneven.w, "unfold_axis") == 0);
  }

  TEST_CASE("log10 divides by a number with an axis, module code by one without") {
    OnnxProbe exported({4, 5});
    OnnxWriter& w = exported.w;
    const std::string ten = w.node("Unsqueeze", {w.number(2.302585093), w.integers({0})});
    w.output(w.node("Div", {w.node("Log", {exported.x}), ten}));
    CHECK(nodes_of(w, "log10") == 1);
    OnnxProbe by_hand({4, 5});
    by_hand.w.output(
        by_hand.w.node("Div", {by_hand.w.node("Log", {by_hand.x}), by_hand.w.number(2.302585093)}));
    CHECK(nodes_of(by_hand.w, "log10") == 0);
    CHECK(nodes_of(by_hand.w, "scale") == 1);
  }

  TEST_CASE("integers are clamped as integers, which nothing keeps") {
    OnnxProbe probe({4, 5});
    OnnxWriter& w = probe.w;
    const std::string places = w.input("places", {4}, kOnnxInt64);
    const std::string chosen = w.node("Clip", {places, w.integer(0), w.integer(6)});
    w.output(w.node("Gather", {probe.x, w.node("Clip", {chosen, w.integer(0), w.integer(3)})}));
    CHECK(nodes_of(w, "clamp") == 2);
    CHECK(nodes_of(w, "relu6") == 0);
  }
}

}  // namespace tidemark::test::onnx_slices_test
#endif
