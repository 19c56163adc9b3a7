// Operators of PyTorch that the exporter takes apart, and weights that modules compute: what
// autograd keeps of them, as recorded on PyTorch 1.13.1.
#if TIDEMARK_READS_ONNX
#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::composites_test {
namespace {

// The exporter's own one, which has an axis.
std::string exported_one(OnnxWriter& w) {
  const float one = 1;
  std::string raw(sizeof one, '\0');
  std::memcpy(raw.data(), &one, sizeof one);
  return w.constant(kOnnxFloat, {1}, raw);
}

std::string bce_with_logits(OnnxWriter& w, const std::string& x, const std::string& y,
                            const std::string& one, const std::string& same_y = {}) {
  const std::string s = w.node("Sigmoid", {x});
  const std::string log = w.node("Log", {s});
  const std::string rest = w.node("Sub", {one, s});
  const std::string other = w.node("Sub", {one, same_y.empty() ? y : same_y});
  const std::string log_rest = w.node("Log", {rest});
  const std::string positive = w.node("Mul", {y, log});
  const std::string negative = w.node("Mul", {other, log_rest});
  return w.node("Neg", {w.node("Add", {positive, negative})});
}

std::int64_t nodes_of(const OnnxWriter& w, std::string_view family) {
  ModelOptions options;
  options.loss = LossKind::kNone;
  const Graph graph = imported(w, {}, options);
  std::int64_t count = 0;
  for (const Node& node : graph.nodes)
    count += node.family->name == family ? 1 : 0;
  return count;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("binary cross-entropy of logits keeps them; by hand three tensors") {
    OnnxProbe fused({4, 5});
    const std::string y = fused.w.input("y", {4, 5});
    const std::string loss = bce_with_logits(fused.w, fused.x, y, exported_one(fused.w));
    CHECK(fused.saved_with(fused.w.node("ReduceMean", {loss}, {{"keepdims", std::int64_t{0}}})) ==
          fused.n());
    OnnxProbe by_hand({4, 5});
    const std::string target = by_hand.w.input("y", {4, 5});
    const std::string sum = bce_with_logits(by_hand.w, by_hand.x, target, by_hand.w.number(1));
    CHECK(by_hand.saved_with(by_hand.w.node("ReduceMean", {sum},
                                            {{"keepdims", std::int64_t{0}}})) == 3 * by_hand.n());
  }

  TEST_CASE("a target that is constant stands in the file twice, and is one tensor of forward") {
    const auto constant = [](OnnxWriter& w, float value) {
      std::string raw;
      for (int i = 0; i < 20; ++i)
        raw.append(reinterpret_cast<const char*>(&value), sizeof value);
      return w.constant(kOnnxFloat, {4, 5}, raw);
    };
    const auto saved_with = [&](float first, float second) {
      OnnxProbe probe({4, 5});
      const std::string y = constant(probe.w, first);
      const std::string loss =
          bce_with_logits(probe.w, probe.x, y, exported_one(probe.w), constant(probe.w, second));
      return probe.saved_with(probe.w.node("ReduceMean", {loss}, {{"keepdims", std::int64_t{0}}}));
    };
    CHECK(saved_with(1, 1) == 2 * 80);  // the logits and the target
    // s and 1 - s, and the factors y and 1 - y, which need no gradient: the logarithms are not
    // kept.
    CHECK(saved_with(1, 0) == 4 * 80);
  }

  TEST_CASE("weight_norm is one kernel that keeps the norms, and its weight is the module's") {
    OnnxProbe probe({4, 12});
    OnnxWriter& w = probe.w;
    const std::string v = w.parameter("v", {14, 12});
    const std::string norm =
        w.node("ReduceL2", {v}, {{"axes", OnnxDims{1}}, {"keepdims", std::int64_t{1}}});
    const std::string weight = w.node("Mul", {w.node("Div", {v, norm}), w.parameter("g", {14, 1})});
    const std::string y = w.node("Gemm", {probe.x, weight}, {{"transB", std::int64_t{1}}});
    // x, the computed weight and 14 norms.
    CHECK(probe.saved_with(y) == probe.n() + 14 * 12 * 4 + 14 * 4);
    const TrainingGraph graph = trained(w);
    bool until_end = false;
    for (const Hold& hold : graph.holds) {
      until_end = until_end || (graph.storages[hold.storage].bytes == Bytes(14 * 12 * 4) &&
                                hold.until == graph.part(PartKind::kEndOfStep).back());
    }
    CHECK(until_end);
  }

  TEST_CASE("functions that the exporter takes apart are one node again") {
    OnnxProbe log1p({4, 5});
    log1p.w.output(log1p.w.node("Log", {log1p.w.node("Add", {log1p.w.number(1), log1p.x})}));
    CHECK(nodes_of(log1p.w, "log1p") == 1);
    OnnxProbe log({4, 5});  // log(x + 1) is written by hand
    log.w.output(log.w.node("Log", {log.w.node("Add", {log.x, log.w.number(1)})}));
    CHECK(nodes_of(log.w, "log1p") == 0);
    OnnxProbe shrink({4, 5});
    OnnxWriter& w = shrink.w;
    const OnnxAttributes to_bool{{"to", std::int64_t{kOnnxBool}}};
    const std::string above =
        w.node("Cast", {w.node("Greater", {shrink.x, w.number(0.5)})}, to_bool);
    const std::string below = w.node("Cast", {w.node("Less", {shrink.x, w.number(-0.5)})}, to_bool);
    const std::string outside = w.node("Or", {above, below});
    w.output(w.node("Where", {outside, shrink.x, w.number(0)}));
    CHECK(nodes_of(w, "hardshrink") == 1);
    CHECK(saved(w) == shrink.n());
  }

  TEST_CASE("repeat_interleave selects by indices, which are kept") {
    OnnxProbe probe({2, 3, 4});
    OnnxWriter& w = probe.w;
    const std::vector<std::string> parts =
        w.nodes("Split", {probe.x, w.integers({1, 1, 1})}, 3, {{"axis", std::int64_t{1}}});
    std::vector<std::string> repeated;
    for (const std::string& part : parts) {
      const std::string lifted = w.node("Unsqueeze", {part, w.integers({2})});
      const std::string copies = w.node("Expand", {lifted, w.integers({2, 1, 5, 4})});
      repeated.push_back(w.node("Reshape", {copies, w.integers({2, -1, 4})}));
    }
    CHECK(probe.saved_with(w.node("Concat", repeated, {{"axis", std::int64_t{1}}})) == 8 * 3 * 5);
  }

  TEST_CASE("baddbmm's factors make no tensors; those of module code do") {
    const auto build = [](OnnxProbe& probe, bool cast) {
      OnnxWriter& w = probe.w;
      const auto number = [&](double value) {
        return cast ? w.node("Cast", {w.number(value)}, {{"to", std::int64_t{kOnnxFloat}}})
                    : w.number(value);
      };
      const std::string product = w.node("MatMul", {probe.x, w.parameter("b", {2, 4, 4})});
      const std::string scaled = w.node("Mul", {product, number(0.5)});
      const std::string added = w.node("Mul", {w.parameter("c", {2, 3, 4}), number(2)});
      return w.node("Add", {scaled, added});
    };
    OnnxProbe fused({2, 3, 4});
    CHECK(fused.saved_with(build(fused, true)) == fused.n());
    OnnxProbe by_hand({2, 3, 4});
    CHECK(by_hand.saved_with(build(by_hand, false)) == by_hand.n() + 2 * 8);
  }

  TEST_CASE("x[:, i] slices the axes before i in 1.13, whose backward fills all of x each time") {
    OnnxProbe probe({4, 10, 14});
    probe.w.output(
        probe.w.node("Gather", {probe.x, probe.w.integer(1)}, {{"axis", std::int64_t{1}}}));
    const TrainingGraph old = trained(probe.w);
    const probe::Sizes made = probe::allocations(old, old.part(PartKind::kBackward));
    CHECK(std::count(made.begin(), made.end(), probe.n()) >= 2);
    OnnxProbe last({4, 10, 14});  // x[..., i]
    last.w.output(last.w.node("Gather", {last.x, last.w.integer(1)}, {{"axis", std::int64_t{2}}}));
    const TrainingGraph of_last = trained(last.w);
    CHECK(probe::allocations(of_last, of_last.part(PartKind::kBackward)).size() == made.size() - 1);
  }
}

}  // namespace tidemark::test::composites_test

#endif  // TIDEMARK_READS_ONNX
