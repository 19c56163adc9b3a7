// Recurrent layers as the steps that autograd sees on a CPU.
#include "graph/rewrite/unroll_recurrence.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "graph/models/recurrent.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::unroll_recurrence_test {
namespace {

std::int64_t count(const Graph& graph, std::string_view family) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

// Tokens [4, 7] embedded in 6 features, one layer of 8 units, the mean of its states over the
// batch, and 5 classes.
Graph model(std::string_view cell, bool bidirectional = false) {
  ModelBuilder b("probe", DType::kFloat32);
  const TensorId tokens = b.input("tokens", {4, 7}, DType::kInt64);
  TensorId x = b.embedding("e", tokens, 11, 6);
  x = recurrent_layers(b, cell, "r", x, {.hidden = 8, .layers = 1, .bidirectional = bidirectional});
  x = b.add("mean", {x}, {{"axes", std::vector<std::int64_t>{1}}});
  b.cross_entropy_loss(b.linear("l", x, 5));
  return b.finish();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("each step of a cell is nodes of its own") {
    const Graph lstm = unroll_recurrence(model("lstm"));
    CHECK(count(lstm, "lstm") == 0);
    CHECK(count(lstm, "linear") == 1 + 4 + 1);  // of the input, of each state, the classes
    CHECK(count(lstm, "sigmoid") == 3 * 4);
    CHECK(count(lstm, "tanh") == 2 * 4);
    const Graph gru = unroll_recurrence(model("gru", true));
    CHECK(count(gru, "gru") == 0);
    CHECK(count(gru, "linear") == 2 * (1 + 4) + 1);
    CHECK(count(gru, "sigmoid") == 2 * 2 * 4);
    CHECK_NOTHROW(check_invariants(gru));
  }

  TEST_CASE("layers of very many steps stay one node") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {20'000, 1, 2});
    b.set_output(recurrent_layers(b, "rnn", "r", x, {.hidden = 2, .layers = 1}));
    CHECK(count(unroll_recurrence(b.finish()), "rnn") == 1);
  }
}

TEST_SUITE("golden") {
  TEST_CASE("the peak of a step of an RNN is that of PyTorch 1.13.1") {
    // Recorded without kernel workspaces, gradients made anew: 5,112 bytes, in backward.
    const Graph graph = unroll_recurrence(model("rnn"));
    CHECK(probe::peak_bytes(probe::train(graph, "torch-1.13-cpu")) == 5112);
  }

  TEST_CASE("the steps save what a node for all of them is known to save") {
    for (const std::string_view cell : {"lstm", "gru", "rnn"}) {
      CAPTURE(cell);
      const Graph whole = model(cell);
      const TrainingGraph steps = probe::train(unroll_recurrence(whole), "torch-1.13-cpu");
      CHECK(probe::saved_bytes(steps) == probe::saved_bytes(probe::train(whole, "torch-1.13-cpu")));
    }
  }
}

}  // namespace tidemark::unroll_recurrence_test
