// Operators that the exporter takes apart keep the same bytes as in PyTorch; the same expression
// written by hand keeps more. Figures measured on PyTorch 1.13.1.
#if TIDEMARK_READS_ONNX
#include <cmath>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_patterns_test {
namespace {

constexpr std::int64_t kRows = 2 * 8;
const OnnxDims kTokens = {2, 8, 16};

// The decomposition of nn.LayerNorm up to operator set 16; d is the difference from the mean.
// Means that a model takes by itself are written with `keepdims`.
std::string layer_norm(OnnxWriter& w, const std::string& x, std::string* d, bool affine,
                       const OnnxDims& weight = {16}, const OnnxDims& axes = {-1},
                       bool by_hand = false) {
  OnnxAttributes of_mean = {{"axes", axes}};
  if (by_hand) of_mean.emplace_back("keepdims", std::int64_t{1});
  const std::string mean = w.node("ReduceMean", {x}, of_mean);
  *d = w.node("Sub", {x, mean});
  const std::string squares = w.node("Pow", {*d, w.number(2)});
  const std::string variance = w.node("ReduceMean", {squares}, of_mean);
  const std::string root = w.node("Sqrt", {w.node("Add", {variance, w.number(1e-5)})});
  const std::string y = w.node("Div", {*d, root});
  if (!affine) return y;
  const std::string scaled = w.node("Mul", {y, w.parameter("n.weight", weight)});
  return w.node("Add", {scaled, w.parameter("n.bias", weight)});
}

std::string gelu(OnnxWriter& w, const std::string& x, std::string* erf) {
  *erf = w.node("Erf", {w.node("Div", {x, w.number(std::sqrt(2.0))})});
  const std::string product = w.node("Mul", {x, w.node("Add", {*erf, w.number(1)})});
  return w.node("Mul", {product, w.number(0.5)});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("layer_norm keeps its input and two numbers per row, whole or in pieces") {
    OnnxProbe pieces(kTokens);
    std::string d;
    CHECK(pieces.saved_with(layer_norm(pieces.w, pieces.x, &d, true)) == pieces.n() + 8 * kRows);
    OnnxProbe plain(kTokens);
    CHECK(plain.saved_with(layer_norm(plain.w, plain.x, &d, false)) == plain.n() + 8 * kRows);
    OnnxProbe whole(kTokens, 17);
    const std::string y = whole.w.node(
        "LayerNormalization",
        {whole.x, whole.w.parameter("n.weight", {16}), whole.w.parameter("n.bias", {16})});
    CHECK(whole.saved_with(y) == whole.n() + 8 * kRows);
    OnnxProbe two(kTokens);
    CHECK(two.saved_with(layer_norm(two.w, two.x, &d, true, {8, 16}, {-2, -1})) == two.n() + 8 * 2);
  }

  TEST_CASE("a layer norm whose difference is used elsewhere keeps every intermediate tensor") {
    // x for its mean, x - mean, its square and the root per row.
    OnnxProbe probe(kTokens);
    std::string d;
    const std::string y = layer_norm(probe.w, probe.x, &d, false);
    CHECK(probe.saved_with(probe.w.node("Add", {y, d})) == 3 * probe.n() + 4 * kRows);
  }

  TEST_CASE("a layer norm that a model writes itself keeps what its operators keep") {
    // x for its mean, x - mean, its square and the root per row.
    OnnxProbe probe(kTokens);
    std::string d;
    const std::string y = layer_norm(probe.w, probe.x, &d, false, {16}, {-1}, true);
    CHECK(probe.saved_with(y) == 3 * probe.n() + 4 * kRows);
  }

  TEST_CASE("gelu keeps its input; by hand two tensors and two scalars more") {
    OnnxProbe fused(kTokens);
    std::string erf;
    CHECK(fused.saved_with(gelu(fused.w, fused.x, &erf)) == fused.n());
    OnnxProbe by_hand(kTokens);
    const std::string y = gelu(by_hand.w, by_hand.x, &erf);
    CHECK(by_hand.saved_with(by_hand.w.node("Add", {y, erf})) == 3 * by_hand.n() + 16);
  }

  TEST_CASE("gelu by tanh keeps its input; GPT-2's own expression keeps four tensors") {
    OnnxProbe fused(kTokens);
    OnnxWriter& w = fused.w;
    const std::string cube = w.node("Mul", {fused.x, w.node("Mul", {fused.x, fused.x})});
    const std::string inner = w.node("Add", {fused.x, w.node("Mul", {w.number(0.044715), cube})});
    const std::string tanh = w.node("Tanh", {w.node("Mul", {w.number(0.797885), inner})});
    const std::string product = w.node("Mul", {fused.x, w.node("Add", {w.number(1), tanh})});
    CHECK(fused.saved_with(w.node("Mul", {w.number(0.5), product})) == fused.n());

    // 0.5 x (1 + tanh(c (x + 0.044715 x^3))): x, 0.5 x, tanh, 1 + tanh and three scalars.
    OnnxProbe own(kTokens);
    OnnxWriter& v = own.w;
    const std::string half = v.node("Mul", {own.x, v.number(0.5)});
    const std::string power =
        v.node("Mul", {v.node("Pow", {own.x, v.number(3)}), v.number(0.044715)});
    const std::string sum = v.node("Mul", {v.node("Add", {own.x, power}), v.number(0.797885)});
    const std::string gate = v.node("Add", {v.node("Tanh", {sum}), v.number(1)});
    CHECK(own.saved_with(v.node("Mul", {half, gate})) == 4 * own.n() + 24);
  }

  TEST_CASE("silu, hardswish and mish keep their input") {
    OnnxProbe silu(kTokens);
    CHECK(silu.saved_with(silu.w.node("Mul", {silu.x, silu.w.node("Sigmoid", {silu.x})})) ==
          silu.n());
    OnnxProbe old(kTokens, 13);
    const std::string gate = old.w.node("HardSigmoid", {old.x}, {{"alpha", 1.0 / 6}});
    CHECK(old.saved_with(old.w.node("Mul", {old.x, gate})) == old.n());
    OnnxProbe hardswish(kTokens);
    CHECK(hardswish.saved_with(hardswish.w.node("HardSwish", {hardswish.x})) == hardswish.n());
    OnnxProbe mish(kTokens);
    const std::string soft = mish.w.node("Tanh", {mish.w.node("Softplus", {mish.x})});
    CHECK(mish.saved_with(mish.w.node("Mul", {mish.x, soft})) == mish.n());
  }

  TEST_CASE("a sigmoid that gates another tensor stays: squeeze and excitation") {
    OnnxProbe probe(kTokens);
    const std::string other = probe.w.node("Add", {probe.x, probe.w.parameter("q", kTokens)});
    const std::string y = probe.w.node("Mul", {probe.w.node("Sigmoid", {probe.x}), other});
    CHECK(probe.saved_with(y) == 2 * probe.n());
  }

  TEST_CASE("glu keeps its input, both halves") {
    OnnxProbe probe(kTokens);
    const auto halves = probe.w.nodes("Split", {probe.x}, 2, {{"axis", std::int64_t{-1}}});
    const std::string y = probe.w.node("Mul", {halves[0], probe.w.node("Sigmoid", {halves[1]})});
    CHECK(probe.saved_with(y) == probe.n());
  }

  TEST_CASE("RMSNorm keeps its input, the squares, the product and one number per row") {
    OnnxProbe probe(kTokens);
    OnnxWriter& w = probe.w;
    const std::string squares = w.node("Pow", {probe.x, w.number(2)});
    const std::string mean = w.node("ReduceMean", {squares}, {{"axes", OnnxDims{-1}}});
    const std::string root = w.node("Sqrt", {w.node("Add", {mean, w.number(1e-5)})});
    const std::string rstd = w.node("Div", {w.number(1), root});
    const std::string product = w.node("Mul", {probe.x, rstd});
    const std::string y = w.node("Mul", {product, w.parameter("n.weight", {16})});
    CHECK(probe.saved_with(y) == 3 * probe.n() + 4 * kRows);
  }

  TEST_CASE("linear on three axes keeps its input; the bias makes no second tensor") {
    OnnxProbe probe(kTokens);
    const std::string y = probe.w.linear(probe.x, "fc", 16, 32);
    probe.w.output(probe.w.node("Relu", {y}));
    const TrainingGraph graph = trained(probe.w);
    CHECK(probe::saved_bytes(graph) == 3 * probe.n());  // x and relu's result of twice its size
    CHECK(probe::allocations(graph, graph.part(PartKind::kForward)) ==
          probe::Sizes{probe.n(), 2 * probe.n(), 2 * probe.n()});
  }

  TEST_CASE("linear of a transposed tensor keeps a copy instead of the tensor") {
    OnnxProbe probe(kTokens);
    const std::string y = probe.w.linear(probe.w.transpose(probe.x, {1, 0, 2}), "fc", 16, 16);
    probe.w.output(y);
    const TrainingGraph graph = trained(probe.w);
    CHECK(probe::saved_bytes(graph) == probe.n());
    CHECK(probe::allocations(graph, graph.part(PartKind::kForward)) ==
          probe::Sizes{probe.n(), probe.n(), probe.n()});
  }

  TEST_CASE("dropout keeps noise; with probability 0 it is nothing") {
    for (const double p : {0.1, 0.0}) {
      CAPTURE(p);
      OnnxProbe probe(kTokens);
      const std::string on = probe.w.constant(kOnnxBool, {}, std::string(1, '\1'));
      const auto y = probe.w.nodes("Dropout", {probe.x, probe.w.number(p), on}, 2);
      CHECK(probe.saved_with(y[0]) == (p > 0 ? probe.n() : 0));
    }
    OnnxProbe old(kTokens, 11);  // the probability is an attribute there
    CHECK(old.saved_with(old.w.node("Dropout", {old.x}, {{"ratio", 0.5}})) == old.n());
  }

  TEST_CASE("masked_fill keeps one byte per element of the mask, not of what is masked") {
    OnnxProbe probe({2, 4, 8, 8});
    OnnxWriter& w = probe.w;
    const std::string mask = w.buffer("mask", {1, 1, 8, 8});
    const std::string zero =
        w.node("Cast", {w.node("Equal", {mask, w.number(0)})}, {{"to", std::int64_t{kOnnxBool}}});
    CHECK(probe.saved_with(w.node("Where", {zero, w.number(-1e9), probe.x})) == 64);
  }

  TEST_CASE("a number beside a tensor is a Python scalar of 8 bytes; a cast to itself is nothing") {
    OnnxProbe probe(kTokens);
    const std::string scaled = probe.w.node("Mul", {probe.x, probe.w.number(0.25)});
    const std::string same = probe.w.node("Cast", {scaled}, {{"to", std::int64_t{kOnnxFloat}}});
    CHECK(probe.saved_with(probe.w.node("Add", {same, probe.w.number(1)})) == 8);
  }

  TEST_CASE("positions made in forward are kept by their embedding") {
    OnnxWriter w;
    const std::string ids = w.input("ids", {2, 8}, kOnnxInt64);
    const std::string tokens = w.node("Gather", {w.parameter("tok.weight", {32, 16}), ids});
    OnnxDims range;
    for (std::int64_t i = 0; i < 8; ++i)
      range.push_back(i);
    const std::string arange = w.constant(kOnnxInt64, {1, 8}, OnnxWriter::bytes_of(range));
    const std::string places = w.node("Gather", {w.parameter("pos.weight", {8, 16}), arange});
    w.output(w.node("Add", {tokens, places}));
    CHECK(saved(w) == 8 * 8);
  }

  TEST_CASE("the padding of avg_pool is inside the operator") {
    for (const std::int64_t pad : {0, 1}) {
      CAPTURE(pad);
      OnnxProbe probe({1, 3, 8, 8});
      OnnxWriter& w = probe.w;
      const std::string padded =
          w.node("Pad", {probe.x, w.integers({0, 0, pad, pad, 0, 0, pad, pad})});
      w.output(w.node("AveragePool", {padded},
                      {{"kernel_shape", OnnxDims{3, 3}}, {"strides", OnnxDims{1, 1}}}));
      const TrainingGraph graph = trained(w);
      const std::int64_t side = 6 + 2 * pad;
      CHECK(probe::saved_bytes(graph) == probe.n());
      CHECK(probe::allocations(graph, graph.part(PartKind::kForward)) ==
            probe::Sizes{probe.n(), 3 * side * side * 4});
    }
  }

  TEST_CASE("any other padding makes a tensor, also when it pads nothing") {
    OnnxProbe probe({1, 3, 8, 8});
    probe.w.output(probe.w.node("Pad", {probe.x, probe.w.integers(OnnxDims(8, 0))}));
    const TrainingGraph graph = trained(probe.w);
    CHECK(probe::allocations(graph, graph.part(PartKind::kForward)) ==
          probe::Sizes{probe.n(), probe.n()});
  }

  TEST_CASE("group norm of pieces keeps its input and two numbers per sample and group") {
    OnnxProbe probe({2, 8, 4, 4});
    OnnxWriter& w = probe.w;
    const std::string ones(2 * 4, '\0');
    const std::string grouped = w.reshape(probe.x, {0, 2, -1});
    const std::string normal =
        w.node("InstanceNormalization",
               {grouped, w.constant(kOnnxFloat, {2}, ones), w.constant(kOnnxFloat, {2}, ones)});
    const std::string back = w.node("Reshape", {normal, w.node("Shape", {probe.x})});
    const auto affine = [&](const std::string& name) {
      return w.node("Unsqueeze", {w.parameter(name, {8}), w.integers({1, 2})});
    };
    const std::string scaled = w.node("Mul", {back, affine("n.weight")});
    CHECK(probe.saved_with(w.node("Add", {scaled, affine("n.bias")})) == probe.n() + 2 * 2 * 2 * 4);
  }

  TEST_CASE("roll keeps nothing and makes one tensor, forward and backward") {
    // By 8, and by 9, the part in front takes all of the axis and the other one is empty.
    for (const std::int64_t shift : {3, 8, 9}) {
      CAPTURE(shift);
      OnnxProbe probe({1, 8, 8, 4});
      OnnxWriter& w = probe.w;
      const auto part = [&](std::int64_t from, std::int64_t to) {
        return w.node("Slice", {probe.x, w.integers({from}), w.integers({to}), w.integers({1})});
      };
      const std::string end = part(-shift, INT64_MAX);
      w.output(w.node("Concat", {end, part(0, -shift)}, {{"axis", std::int64_t{1}}}));
      const TrainingGraph graph = trained(w);
      CHECK(probe::saved_bytes(graph) == 0);
      CHECK(probe::allocations(graph, graph.part(PartKind::kForward)) ==
            probe::Sizes{probe.n(), probe.n()});
      CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) == probe::Sizes{probe.n()});
    }
  }

  TEST_CASE("an empty slice that is joined with something else is refused where it is joined") {
    OnnxProbe probe({4, 8});
    OnnxWriter& w = probe.w;
    const std::string none = w.node("Slice", {probe.x, w.integers({2}), w.integers({2})});
    w.output(w.node("Concat", {none, probe.x}, {{"axis", std::int64_t{0}}}));
    CHECK(problem(w).find("its operand Slice_") != std::string::npos);
    CHECK(problem(w).find("is an empty slice") != std::string::npos);
  }

  TEST_CASE("chunk is one split: backward joins the gradients of its parts once") {
    OnnxProbe probe({4, 2, 6});
    OnnxWriter& w = probe.w;
    std::string sum;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::string part = w.node(
          "Slice", {probe.x, w.integers({2 * i}), w.integers({2 * i + 2}), w.integers({-1})});
      sum = sum.empty() ? part : w.node("Add", {sum, part});
    }
    w.output(sum);
    const TrainingGraph graph = trained(w);
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) == probe::Sizes{probe.n()});
  }

  TEST_CASE("batch norm counts its batches in 8 bytes that the file does not hold") {
    OnnxProbe probe({2, 8, 4, 4});
    OnnxWriter& w = probe.w;
    const auto y =
        w.nodes("BatchNormalization",
                {probe.x, w.parameter("bn.weight", {8}), w.parameter("bn.bias", {8}),
                 w.parameter("bn.running_mean", {8}), w.parameter("bn.running_var", {8})},
                3, {{"training_mode", std::int64_t{1}}});
    w.output(y[0]);
    const TrainingGraph graph = trained(w);
    CHECK(probe::saved_bytes(graph) == probe.n() + 2 * 8 * 4);
    std::int64_t buffers = 0;
    for (const Storage& storage : graph.storages)
      buffers += storage.role == Role::kBuffer ? storage.bytes.count : 0;
    CHECK(buffers == 2 * 8 * 4 + 8);
    CHECK(graph.trained.size() == 3);  // the running statistics are buffers by their place
  }
}

}  // namespace tidemark::test::onnx_patterns_test
#endif
