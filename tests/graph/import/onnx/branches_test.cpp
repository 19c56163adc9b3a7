// Operators that exporters write where they do not know sizes, or that make constants.
#if TIDEMARK_READS_ONNX
#include <cmath>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_branches_test {
namespace {

// squeeze(1) of a tensor whose sizes the exporter does not know.
std::string squeezed(OnnxWriter& w, const std::string& x) {
  const std::string extent = w.node("Gather", {w.node("Shape", {x}), w.integer(1)});
  return w.node("If", {w.node("Equal", {extent, w.integer(1)})});
}

ModelOptions without_loss() {
  ModelOptions options;
  options.loss = LossKind::kNone;
  return options;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("model.detach names tensors through which no gradient flows") {
    const auto two = [](OnnxProbe& probe) {
      const std::string inner = probe.w.node("Exp", {probe.x});
      const std::string outer = probe.w.node("Mul", {inner, probe.w.parameter("q", {2, 6, 8})});
      probe.w.output(outer);
      return inner;
    };
    OnnxProbe whole({2, 6, 8});
    two(whole);
    CHECK(saved(whole.w) == whole.n());  // exp's result, for itself and for q's gradient
    CHECK(trained(whole.w).trained.size() == 2);
    OnnxProbe half({2, 6, 8});
    OnnxOptions onnx;
    onnx.detach = {two(half)};
    // exp's result is kept for q's gradient alone; p, behind it, has none.
    CHECK(saved(half.w, onnx) == half.n());
    CHECK(trained(half.w, onnx).trained.size() == 1);
    onnx.detach = {"fake"};
    CHECK(problem(half.w, onnx).find("no tensor 'fake'") != std::string::npos);
  }

  TEST_CASE("views of parameters can be detached, and what a fused operator takes in cannot") {
    OnnxProbe view({2, 6, 8});
    const std::string q =
        view.w.node("Unsqueeze", {view.w.parameter("q", {6, 8}), view.w.integers({0})});
    view.w.output(view.w.node("Mul", {view.w.node("Exp", {view.x}), q}));
    CHECK(trained(view.w).trained.size() == 2);
    OnnxOptions onnx;
    onnx.detach = {q};
    CHECK(trained(view.w, onnx).trained.size() == 1);

    OnnxProbe gelu({2, 6, 8});
    OnnxWriter& w = gelu.w;
    const std::string erf = w.node("Erf", {w.node("Div", {gelu.x, w.number(std::sqrt(2.0))})});
    const std::string half = w.node("Mul", {gelu.x, w.node("Add", {erf, w.number(1.0)})});
    w.output(w.node("Mul", {half, w.number(0.5)}));
    onnx.detach = {erf};
    CHECK(problem(w, onnx).find("'" + erf + "' cannot be detached") != std::string::npos);
  }

  TEST_CASE("If that squeezes an axis is a view, by the extent of the axis") {
    OnnxProbe one({2, 1, 8});
    const std::string y = squeezed(one.w, one.x);
    one.w.output(one.w.node("Exp", {y}));
    CHECK(imported(one.w, {}, without_loss()).tensors.back().shape == Shape{2, 8});
    OnnxProbe three({2, 3, 8});
    const std::string z = squeezed(three.w, three.x);
    three.w.output(three.w.node("Exp", {z}));
    CHECK(imported(three.w, {}, without_loss()).tensors.back().shape == Shape{2, 3, 8});
  }

  TEST_CASE("another If is refused with what to do") {
    OnnxProbe probe({2, 3, 8});
    probe.w.output(probe.w.node("If", {probe.w.node("ReduceMax", {probe.x})}));
    CHECK(problem(probe.w).find("export the model with the one that it trains by") !=
          std::string::npos);
  }

  TEST_CASE("torch.eye is made by the forward pass and kept where it multiplies") {
    OnnxProbe probe({2, 6, 8});
    OnnxWriter& w = probe.w;
    const std::string eye = w.node("EyeLike", {w.node("ConstantOfShape", {w.integers({6, 8})})});
    // x * eye keeps the 48 elements of eye.
    CHECK(probe.saved_with(w.node("Mul", {probe.x, eye})) == 4 * 48);
  }
}

}  // namespace tidemark::test::onnx_branches_test
#endif
