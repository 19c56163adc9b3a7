// nn.LSTM and nn.GRU as PyTorch 1.13 exports them, one node per layer.
#if TIDEMARK_READS_ONNX
#include <doctest/doctest.h>

#include "graph/operators/family.hpp"
#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_recurrent_test {
namespace {

constexpr std::int64_t kSteps = 4;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHidden = 8;

// The gates in ONNX's order, with the axis of directions in front.
std::string reordered(OnnxWriter& w, const std::string& weight, const OnnxDims& order) {
  std::vector<std::string> parts;
  for (std::int64_t gate : order) {
    parts.push_back(w.node("Slice", {weight, w.integers({gate * kHidden}),
                                     w.integers({(gate + 1) * kHidden}), w.integers({0})}));
  }
  return w.node("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string layer(OnnxWriter& w, const std::string& x, const std::string& op,
                  const std::string& name, const OnnxDims& order) {
  const auto gates = static_cast<std::int64_t>(order.size());
  const auto direction = [&](const std::string& value) {
    return w.node("Unsqueeze", {value, w.integers({0})});
  };
  const auto weight = [&](const std::string& kind, const OnnxDims& dims) {
    return reordered(w, w.parameter("rnn." + kind + name, dims), order);
  };
  const std::string input = direction(weight("weight_ih", {gates * kHidden, kHidden}));
  const std::string hidden = direction(weight("weight_hh", {gates * kHidden, kHidden}));
  const std::string biases = direction(
      w.node("Concat", {weight("bias_ih", {gates * kHidden}), weight("bias_hh", {gates * kHidden})},
             {{"axis", std::int64_t{0}}}));
  const std::string zeros = w.node("ConstantOfShape", {w.integers({1, kBatch, kHidden})});
  std::vector<std::string> inputs{x, input, hidden, biases, "", zeros};
  if (op == "LSTM") inputs.push_back(zeros);
  OnnxAttributes attributes{{"hidden_size", kHidden}};
  if (op == "GRU") attributes.emplace_back("linear_before_reset", std::int64_t{1});
  const std::string y = w.nodes(op, inputs, op == "LSTM" ? 3 : 2, attributes)[0];
  return w.node("Squeeze", {y, w.integers({1})});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("weights joined with themselves over and over are searched once") {
    OnnxWriter w;
    std::string joined = w.parameter("m", {1, 1, 8});
    for (int i = 0; i < 40; ++i)  // 2^40 ways to the parameter
      joined = w.node("Concat", {joined, joined}, {{"axis", std::int64_t{0}}});
    const std::string x = w.node("Add", {w.input("x", {4, 2, 8}), w.parameter("p", {4, 2, 8})});
    w.output(w.nodes("LSTM", {x, joined, w.parameter("r", {1, 32, 8})}, 3,
                     {{"hidden_size", std::int64_t{8}}})[0]);
    CHECK_FALSE(problem(w).empty());  // one row is not the four gates of eight
  }

  TEST_CASE("recurrent layers keep their input and seven numbers per step and unit") {
    struct Cell {
      std::string op;
      OnnxDims order;
    };
    for (const Cell& cell : {Cell{"LSTM", {0, 3, 1, 2}}, Cell{"GRU", {1, 0, 2}}}) {
      CAPTURE(cell.op);
      OnnxProbe probe({kSteps, kBatch, kHidden});
      const std::string y = layer(probe.w, probe.x, cell.op, "_l0", cell.order);
      probe.w.output(layer(probe.w, y, cell.op, "_l1", cell.order));
      const TrainingGraph graph = trained(probe.w);
      // Both layers: the input (of the second: the first one's result) and 7 per step and unit.
      const std::int64_t n = 4 * kSteps * kBatch * kHidden;
      CHECK(probe.n() == n);
      CHECK(probe::saved_bytes(graph) == 2 * (n + 7 * n));
      CHECK(graph.trained.size() == 9);  // the parameters themselves, not their reordered copies
    }
  }
}

}  // namespace tidemark::test::onnx_recurrent_test
#endif
