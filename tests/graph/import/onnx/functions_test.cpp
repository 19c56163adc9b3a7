// Functions that exporters write as many operators or as a loop. Figures measured on PyTorch 1.13.1
// (bench/torch_steps.py).
#if TIDEMARK_READS_ONNX
#include <algorithm>

#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_functions_test {
namespace {

std::int64_t nodes_of(const OnnxWriter& w, std::string_view family) {
  const Graph graph = imported(w);
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

// As torch.onnx writes torch.lerp(x, end, weight).
std::string lerp(OnnxWriter& w, const std::string& x, const std::string& end,
                 const std::string& weight) {
  const std::string difference = w.node("Sub", {end, x});
  const std::string near = w.node("Less", {weight, w.number(0.5)});
  const std::string from_x = w.node("Add", {x, w.node("Mul", {weight, difference})});
  const std::string rest = w.node("Sub", {w.number(1), weight});
  const std::string from_end = w.node("Sub", {end, w.node("Mul", {difference, rest})});
  return w.node("Where", {near, from_x, from_end});
}

struct Distances {
  std::int64_t left_axis = 2;
  std::int64_t summed = -1;
  std::int64_t keepdims = 0;
  double more = 1e-6;  // the exporter's root is the power 1 / (2 + 1e-6)
};
std::string cdist(OnnxWriter& w, const std::string& x, const std::string& y, Distances form = {}) {
  const std::string left = w.node("Unsqueeze", {x, w.integers({form.left_axis})});
  const std::string right = w.node("Unsqueeze", {y, w.integers({1})});
  const std::string squares = w.node("Pow", {w.node("Sub", {left, right}), w.number(2)});
  const std::string sum =
      w.node("ReduceSum", {squares, w.integers({form.summed})}, {{"keepdims", form.keepdims}});
  const std::string exponent =
      w.node("Div", {w.number(1), w.node("Add", {w.number(2), w.number(form.more)})});
  return w.node("Pow", {sum, exponent});
}

// Adds nodes that replace infinities of `x` by 3e38: those whose `comparison` with 0 holds.
std::string without_infinity(OnnxWriter& w, const std::string& x, const std::string& comparison) {
  const OnnxAttributes to_double{{"to", std::int64_t{11}}};
  const OnnxAttributes to_bool{{"to", std::int64_t{kOnnxBool}}};
  const std::string infinite = w.node("IsInf", {w.node("Cast", {x}, to_double)});
  const std::string sign = w.node(comparison, {x, w.number(0)});
  const std::string both =
      w.node("And", {w.node("Cast", {infinite}, to_bool), w.node("Cast", {sign}, to_bool)});
  return w.node("Where", {both, w.number(3e38), x});
}

// nn.EmbeddingBag(50, 8, mode) of 4 rows of 6 indices, as torch.onnx writes it; `reduction` stands
// in the body of the loop.
OnnxWriter bag(const std::string& reduction, bool with_offsets) {
  OnnxWriter w;
  const std::string given =
      w.input("indices", with_offsets ? OnnxDims{24} : OnnxDims{4, 6}, kOnnxInt64);
  const std::string weight = w.parameter("bag.weight", {50, 8});
  const std::string indices = with_offsets ? given : w.reshape(given, {-1});
  const std::string offsets =
      with_offsets ? w.input("offsets", {4}, kOnnxInt64) : w.integers({0, 6, 12, 18});
  const std::string count = w.node("Gather", {w.node("Shape", {indices}), w.integer(0)});
  const std::string ends =
      w.node("Concat", {offsets, w.node("Unsqueeze", {count, w.integers({0})})},
             {{"axis", std::int64_t{0}}});
  const std::string rest =
      w.node("Slice", {ends, w.integers({1}), w.integers({INT64_MAX}), w.integers({0})});
  const std::string bags = w.node("Gather", {w.node("Shape", {rest}), w.integer(0)});
  const std::string result =
      w.node("Loop", {bags, w.node("Cast", {w.integer(1)}, {{"to", std::int64_t{kOnnxBool}}})});
  onnx_file::NodeProto& loop =
      *w.model().mutable_graph()->mutable_node(w.model().graph().node_size() - 1);
  onnx_file::AttributeProto& body = *loop.add_attribute();
  body.set_name("body");
  body.set_type(5);
  const auto inner = [&](const std::string& op, const std::vector<std::string>& inputs,
                         const std::string& output) {
    onnx_file::NodeProto& node = *body.mutable_g()->add_node();
    node.set_op_type(op);
    for (const std::string& input : inputs)
      node.add_input(input);
    node.add_output(output);
  };
  inner("Gather", {ends, "i"}, "begin");
  inner("Gather", {rest, "i"}, "end");
  inner("Unsqueeze", {"begin", "axes"}, "begins");
  inner("Unsqueeze", {"end", "axes"}, "stops");
  inner("Slice", {indices, "begins", "stops"}, "bag");
  inner("Gather", {weight, "bag"}, "rows");
  inner(reduction, {"rows"}, "result");
  w.output(result);
  return w;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("lerp by a number keeps nothing, by a tensor what the gradients need") {
    OnnxProbe number({2, 3, 4});
    OnnxWriter& w = number.w;
    const std::string end = w.parameter("end", {4});
    w.output(lerp(w, number.x, end, w.number(0.3)));
    CHECK(nodes_of(w, "lerp") == 1);
    CHECK(saved(w) == 0);
    // A product for each operand, and the sum of that of the end over the axes that it lacks.
    const TrainingGraph graph = trained(w);
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) ==
          probe::Sizes{number.n(), number.n(), 16});

    OnnxProbe tensor({2, 3, 4});
    OnnxWriter& t = tensor.w;
    const std::string weight = t.parameter("weight", {2, 3, 4});
    t.output(lerp(t, tensor.x, t.parameter("end", {2, 3, 4}), weight));
    CHECK(nodes_of(t, "lerp") == 1);
    CHECK(nodes_of(t, "sub") + nodes_of(t, "neg") == 0);
    CHECK(saved(t) == tensor.n());
  }

  TEST_CASE("nan_to_num keeps its input; backward makes three masks beside the gradient") {
    OnnxProbe probe({2, 3, 4});
    OnnxWriter& w = probe.w;
    const std::string numbers = w.node("Where", {w.node("IsNaN", {probe.x}), w.number(0), probe.x});
    w.output(without_infinity(w, without_infinity(w, numbers, "Greater"), "Less"));
    CHECK(nodes_of(w, "nan_to_num") == 1);
    CHECK(nodes_of(w, "masked_fill") + nodes_of(w, "where") == 0);
    CHECK(saved(w) == probe.n());
    const TrainingGraph graph = trained(w);
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) ==
          probe::Sizes{probe.n(), 3 * probe.n() / 4});
  }

  TEST_CASE("cdist keeps both tensors and the distances") {
    OnnxProbe probe({2, 3, 4});
    OnnxWriter& w = probe.w;
    w.output(cdist(w, probe.x, w.parameter("y", {2, 5, 4})));
    CHECK(nodes_of(w, "cdist") == 1);
    CHECK(saved(w) == probe.n() + 2 * 3 * 5 * 4);
    // Differences of pairs, another axis, an axis that stays, and a root written by hand.
    for (const Distances& other : {Distances{.left_axis = 1}, Distances{.summed = 1},
                                   Distances{.keepdims = 1}, Distances{.more = 0}}) {
      OnnxProbe pairs({2, 3, 4});
      pairs.w.output(cdist(pairs.w, pairs.x, pairs.w.parameter("y", {2, 3, 4}), other));
      CHECK(nodes_of(pairs.w, "cdist") == 0);
    }
  }

  TEST_CASE("an EmbeddingBag is one node that keeps the tables of its bags") {
    struct Case {
      const char* reduction;
      std::int64_t tables;  // the bag of each index, the bags' sizes and largest indices
    };
    // 24 indices in 4 bags of 8 columns.
    for (const Case& one : {Case{"ReduceSum", 32 + 32}, Case{"ReduceMean", 25 * 8 + 32 + 32},
                            Case{"ReduceMax", 25 * 8 + 32 + 4 * 8 * 8}}) {
      CAPTURE(one.reduction);
      const OnnxWriter rows = bag(one.reduction, false);
      CHECK(nodes_of(rows, "embedding_bag") == 1);
      CHECK(saved(rows) == one.tables + 32);  // and the offsets, which forward makes
      const OnnxWriter given = bag(one.reduction, true);
      CHECK(nodes_of(given, "embedding_bag") == 1);
      CHECK(nodes_of(given, "cat") == 0);
      CHECK(saved(given) == one.tables);
      const TrainingGraph graph = trained(given);
      const probe::Sizes made = probe::allocations(graph, graph.part(PartKind::kBackward));
      CHECK(std::count(made.begin(), made.end(), 50 * 8 * 4) == 1);
    }
  }

  TEST_CASE("spectral_norm is one node that keeps its vectors, and its weight is the module's") {
    OnnxProbe probe({4, 12});
    OnnxWriter& w = probe.w;
    const std::string weight = w.parameter("l.weight_orig", {14, 12});
    const std::string u = w.parameter("l.weight_u", {14});  // by their names no parameters
    const std::string v = w.parameter("l.weight_v", {12});
    const std::string product = w.node("MatMul", {w.reshape(weight, {14, 12}), v});
    const std::string sigma = w.node("MatMul", {u, product});
    const std::string normalised = w.node("Div", {weight, sigma});
    w.output(w.node("Gemm", {probe.x, normalised}, {{"transB", std::int64_t{1}}}));
    CHECK(nodes_of(w, "spectral_norm") == 1);
    CHECK(nodes_of(w, "bmm") == 0);
    const TrainingGraph graph = trained(w);
    // x, the weight, the clones of the vectors, and the value.
    const std::int64_t bytes = 14 * 12 * 4;
    CHECK(probe::saved_bytes(graph) == probe.n() + bytes + 4 * (14 + 12) + 4);
    CHECK(graph.module_state.size() == 1);
    CHECK(graph.storages[graph.module_state.front()].bytes == Bytes(bytes));
    CHECK(graph.trained.size() == 2);
  }

  TEST_CASE("bags of a file that is changed to another batch are as many as its rows") {
    CHECK(saved(bag("ReduceSum", false), {.batch_axis = 0}, 8) == 3 * 8 * 8);
  }

  TEST_CASE("another loop is an operator that is not known, and a damaged one no crash") {
    CHECK(problem(bag("ReduceMin", false)).find("Loop") != std::string::npos);
    for (int i = 0; i < 7; ++i) {  // a node of the body without operands
      CAPTURE(i);
      OnnxWriter w = bag("ReduceSum", false);
      for (onnx_file::NodeProto& node : *w.model().mutable_graph()->mutable_node()) {
        if (node.op_type() != "Loop") continue;
        onnx_file::GraphProto& body =
            *node.mutable_attribute(node.attribute_size() - 1)->mutable_g();
        body.mutable_node(i)->clear_input();
      }
      // The ends of the bags (nodes 1 and 3) say nothing that their begins do not.
      CHECK((problem(w) == "") == (i == 1 || i == 3));
    }
    OnnxWriter direct;
    direct.output(direct.node(
        "EmbeddingBag", {direct.parameter("w", {5, 4}), direct.input("i", {6}, kOnnxInt64), ""}));
    CHECK(problem(direct).find("operand") != std::string::npos);
  }
}

}  // namespace tidemark::test::onnx_functions_test
#endif
