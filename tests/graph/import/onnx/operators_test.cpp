// Operators and patterns of exports beyond those of the supplied models. Saved bytes are those that
// PyTorch 1.13.1 keeps for the module whose export this is.
#if TIDEMARK_READS_ONNX
#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_operators_test {
namespace {

const OnnxDims kImage = {2, 8, 6, 6};
const OnnxDims kTokens = {2, 6, 8};

// Constant ones or zeros of one axis, as exporters write them for affine=False.
std::string filled(OnnxWriter& w, std::int64_t count) {
  return w.node("ConstantOfShape", {w.integers({count})});
}

// Reduces axes that are an attribute, or from operator set 18 on an operand.
std::string reduced(OnnxProbe& probe, const std::string& op, const std::string& x,
                    const OnnxDims& axes) {
  if (probe.opset < 18) return probe.w.node(op, {x}, {{"axes", axes}});
  return probe.w.node(op, {x, probe.w.integers(axes)});
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("norms without parameters keep no weight") {
    OnnxProbe instance(kImage);
    const std::string y = instance.w.node(
        "InstanceNormalization", {instance.x, filled(instance.w, 8), filled(instance.w, 8)});
    CHECK(instance.saved_with(y) == 2432);  // x and two statistics per sample and channel
    OnnxProbe group(kImage);
    OnnxWriter& w = group.w;
    const std::string rows = w.node("Reshape", {group.x, w.integers({0, 4, -1})});
    const std::string normal = w.node("InstanceNormalization", {rows, filled(w, 4), filled(w, 4)});
    const std::string back = w.node("Reshape", {normal, w.node("Shape", {group.x})});
    const auto one = [&] { return w.node("ConstantOfShape", {w.integers({1, 1, 1})}); };
    const std::string scaled = w.node("Mul", {back, one()});
    CHECK(group.saved_with(w.node("Add", {scaled, one()})) == 2368);  // and per group
  }

  TEST_CASE("a layer norm of several axes without a weight has one row per sample and channel") {
    for (const std::int64_t opset : {14, 18}) {
      OnnxProbe probe(kImage, opset);
      OnnxWriter& w = probe.w;
      const std::string d =
          w.node("Sub", {probe.x, reduced(probe, "ReduceMean", probe.x, {-2, -1})});
      const std::string variance =
          reduced(probe, "ReduceMean", w.node("Pow", {d, w.number(2)}), {-2, -1});
      const std::string root = w.node("Sqrt", {w.node("Add", {variance, w.number(1e-5)})});
      CHECK(probe.saved_with(w.node("Div", {d, root})) == 2432);
    }
  }

  TEST_CASE("log_sigmoid keeps its input and a buffer") {
    OnnxProbe probe(kImage);
    CHECK(probe.saved_with(probe.w.node("Log", {probe.w.node("Sigmoid", {probe.x})})) == 4608);
  }

  TEST_CASE("x.max of one axis keeps positions, of all the input and the maximum") {
    for (const std::int64_t opset : {14, 18}) {
      OnnxProbe one(kTokens, opset);
      CHECK(one.saved_with(reduced(one, "ReduceMax", one.x, {-1})) == 96);
      OnnxProbe two(kTokens, opset);
      CHECK(two.saved_with(reduced(two, "ReduceMax", two.x, {1, 2})) == 384 + 8);
    }
  }

  TEST_CASE("variance and standard deviation in pieces keep the input, the latter its result") {
    constexpr int kForms = 8;
    for (int form = 0; form < kForms; ++form) {
      const bool root = (form & 1) != 0;
      const bool unbiased = (form & 2) != 0;
      OnnxProbe probe(kTokens, (form & 4) != 0 ? 18 : 14);
      OnnxWriter& w = probe.w;
      const std::string d = w.node("Sub", {probe.x, reduced(probe, "ReduceMean", probe.x, {1})});
      std::string y = reduced(probe, "ReduceMean", w.node("Mul", {d, d}), {1});
      if (unbiased) y = w.node("Div", {w.node("Mul", {y, w.number(6)}), w.number(5)});
      if (root) y = w.node("Sqrt", {y});
      CHECK(probe.saved_with(y) == 384 + (root ? 64 : 0));
    }
  }

  TEST_CASE("products with vectors keep the matrix, and the vector is a parameter") {
    OnnxProbe column(kTokens);
    CHECK(column.saved_with(column.w.node("MatMul", {column.x, column.w.parameter("q", {8})})) ==
          384);
    OnnxProbe row(kTokens);
    CHECK(row.saved_with(row.w.node("MatMul", {row.w.parameter("q", {6}), row.x})) == 384);
    OnnxProbe dot({8});
    CHECK(dot.saved_with(dot.w.node("MatMul", {dot.x, dot.w.parameter("q", {8})})) == 32);
  }

  TEST_CASE("a product with 1 is the exporter's beta") {
    OnnxProbe probe(kTokens);
    OnnxWriter& w = probe.w;
    const std::string product =
        w.node("MatMul", {probe.x, w.node("Transpose", {probe.x}, {{"perm", OnnxDims{0, 2, 1}}})});
    const std::string bias = w.node("Mul", {w.parameter("b", {2, 6, 6}), w.number(1)});
    CHECK(probe.saved_with(w.node("Add", {w.node("Mul", {product, w.number(1)}), bias})) == 384);
  }

  TEST_CASE("a slice that is assigned keeps nothing, grid_sample its input and grid") {
    OnnxProbe assigned({6, 8});
    OnnxWriter& w = assigned.w;
    CHECK(
        assigned.saved_with(w.node(
            "ScatterND", {assigned.x, w.constant(kOnnxInt64, {2, 1}, OnnxWriter::bytes_of({0, 2})),
                          w.parameter("v", {2, 8})})) == 0);
    OnnxProbe grid(kImage);
    CHECK(grid.saved_with(grid.w.node("GridSample", {grid.x, grid.w.input("g", {2, 6, 6, 2})})) ==
          2304);  // the grid is an input of the model
  }

  TEST_CASE("patches that the exporter gathers by both axes are one unfold, which keeps nothing") {
    const auto unfolded = [](OnnxProbe& probe, std::vector<std::int64_t> columns) {
      OnnxWriter& w = probe.w;
      const auto places = [&](const std::vector<std::int64_t>& at, const OnnxDims& dims) {
        return w.constant(kOnnxInt64, dims, OnnxWriter::bytes_of(at));
      };
      const std::string pads =
          w.constant(kOnnxInt64, {8}, OnnxWriter::bytes_of({0, 0, 1, 1, 0, 0, 1, 1}));
      const std::string rows = w.node(
          "Gather", {w.node("Pad", {probe.x, pads}), places({0, 3, 1, 4}, {2, 2})}, {{"axis", 2}});
      const OnnxDims dims{2, static_cast<std::int64_t>(columns.size()) / 2};
      const std::string patches = w.node("Gather", {rows, places(columns, dims)}, {{"axis", 4}});
      const std::string moved =
          w.node("Transpose", {patches}, {{"perm", OnnxDims{0, 1, 2, 4, 3, 5}}});
      return probe.saved_with(w.reshape(moved, {2, 32, -1}));
    };
    OnnxProbe regular(kImage);
    CHECK(unfolded(regular, {0, 2, 4, 2, 4, 6}) == 0);
    OnnxProbe irregular(kImage);  // no kernel reads these: two gathers keep their indices
    CHECK(unfolded(irregular, {0, 2, 5, 2, 4, 6}) > 0);
  }

  TEST_CASE("masks by xor, isnan and isinf are bools") {
    const auto masked = [](const std::string& op) {
      OnnxProbe probe(kTokens);
      OnnxWriter& w = probe.w;
      const std::string positive = w.node("Greater", {probe.x, w.number(0)});
      const std::string mask =
          op == "Xor" ? w.node("Xor", {positive, w.node("Less", {probe.x, w.number(1)})})
                      : w.node(op, {probe.x});
      return probe.saved_with(w.node("Where", {mask, w.number(0), probe.x}));
    };
    CHECK(masked("Xor") == 96);
    CHECK(masked("IsNaN") == 96);
    CHECK(masked("IsInf") == 96);
  }

  TEST_CASE("a decoder that starts from its encoder's state keeps that state and trains both") {
    OnnxProbe probe(kTokens);
    OnnxWriter& w = probe.w;
    const auto recurrent = [&](const std::string& name, const std::string& state) {
      return w.nodes(
          "GRU",
          {probe.x, w.parameter(name + ".w", {1, 24, 8}), w.parameter(name + ".r", {1, 24, 8}),
           w.parameter(name + ".b", {1, 48}), "", state},
          2, {{"hidden_size", std::int64_t{8}}, {"linear_before_reset", std::int64_t{1}}});
    };
    const std::string zeros = w.node("ConstantOfShape", {w.integers({1, 6, 8})});
    const std::string y = recurrent("decoder", recurrent("encoder", zeros)[1])[0];
    w.output(y);
    const TrainingGraph graph = trained(w);
    CHECK(graph.trained.size() == 7);
    // Saved: x; 7 states a step, and the state that the first step passes on in place of zeros.
    const std::int64_t state = 6 * 8 * 4;
    CHECK(probe::saved_bytes(graph) == probe.n() + 2 * (2 * 6 * state + state + state));
  }

  TEST_CASE("what other outputs than that of the loss need is kept, too") {
    OnnxProbe probe(kTokens);
    OnnxWriter& w = probe.w;
    w.output(w.node("Relu", {probe.x}));
    w.output(w.node("Sigmoid", {probe.x}));
    CHECK(saved(w) == 2 * probe.n());
  }
}

TEST_SUITE("unit") {
  TEST_CASE("how many elements are not zero depends on data") {
    OnnxProbe probe(kTokens);
    probe.w.output(probe.w.node("NonZero", {probe.x}));
    CHECK(problem(probe.w).find("depends on data") != std::string::npos);
  }

  TEST_CASE("random tensors have the shape and type of what they are like") {
    OnnxProbe probe(kTokens);
    OnnxWriter& w = probe.w;
    CHECK(probe.saved_with(w.node("Mul", {probe.x, w.node("RandomNormalLike", {probe.x})})) ==
          probe.n());  // the random tensor, for the gradient of x
  }
}

}  // namespace tidemark::test::onnx_operators_test
#endif
