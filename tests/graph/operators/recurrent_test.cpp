// LSTM, GRU and RNN: the single-layer probes stand in product_probes_test.cpp.
#include "graph/models/recurrent.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/models/preset.hpp"
#include "graph/operators/products/recurrent_steps.hpp"
#include "tests/graph/operators/operator_figures.hpp"

namespace tidemark::operators_recurrent_test {
namespace {

using probe::Arguments;
using probe::saved_by_name;

struct Size {
  std::int64_t steps;
  std::int64_t batch;
  std::int64_t features;
  std::int64_t hidden;
};

TensorId in_place(Arguments& a, std::string_view family, TensorId x) {
  return a.op(family, {x}, {{"in_place", std::int64_t{1}}});
}

TensorId zeros(Arguments& a, const Size& size) {
  return a.op("zeros", {}, {{"shape", probe::axes({size.batch, size.hidden})}, {"dtype", "fp32"}});
}

TensorId stacked(Arguments& a, const std::vector<TensorId>& states, const Size& size) {
  std::vector<TensorId> parts;
  for (TensorId state : states)
    parts.push_back(a.builder.view(state, {1, size.batch, size.hidden}));
  return a.builder.cat(parts, 0);
}

// ATen's LSTMCell and GRUCell written out in the families of their functions.
TensorId unrolled_lstm(Arguments& a, TensorId x, const Size& size) {
  ModelBuilder& b = a.builder;
  const std::vector<TensorId> inputs = b.split(b.linear("ih", x, 4 * size.hidden), 1, 0);
  const TensorId weight = b.parameter("hh", {4 * size.hidden, size.hidden});
  const TensorId bias = b.parameter("hh_bias", {4 * size.hidden});
  TensorId h = zeros(a, size);
  TensorId c = zeros(a, size);
  std::vector<TensorId> states;
  for (std::int64_t step = 0; step < size.steps; ++step) {
    const TensorId input = b.view(inputs[static_cast<std::size_t>(step)], {size.batch, -1});
    const TensorId gates = b.add_tensors(b.linear_with(h, weight, bias), input, true);
    const std::vector<TensorId> parts = b.split(gates, size.hidden, 1);
    const TensorId i = in_place(a, "sigmoid", parts[0]);
    const TensorId f = in_place(a, "sigmoid", parts[1]);
    const TensorId g = in_place(a, "tanh", parts[2]);
    const TensorId o = in_place(a, "sigmoid", parts[3]);
    c = b.add_tensors(b.multiply(f, c), b.multiply(i, g), true);
    h = b.multiply(o, a.op("tanh", {c}));
    states.push_back(h);
  }
  return stacked(a, states, size);
}

TensorId unrolled_gru(Arguments& a, TensorId x, const Size& size) {
  ModelBuilder& b = a.builder;
  const std::vector<TensorId> inputs = b.split(b.linear("ih", x, 3 * size.hidden), 1, 0);
  const TensorId weight = b.parameter("hh", {3 * size.hidden, size.hidden});
  const TensorId bias = b.parameter("hh_bias", {3 * size.hidden});
  TensorId h = zeros(a, size);
  std::vector<TensorId> states;
  const Attributes inside{{"in_place", std::int64_t{1}}};
  for (std::int64_t step = 0; step < size.steps; ++step) {
    const TensorId input = b.view(inputs[static_cast<std::size_t>(step)], {size.batch, -1});
    const std::vector<TensorId> from_input = b.split(input, size.hidden, 1);
    const std::vector<TensorId> from_state =
        b.split(b.linear_with(h, weight, bias), size.hidden, 1);
    const TensorId r = in_place(a, "sigmoid", b.add_tensors(from_state[0], from_input[0], true));
    const TensorId z = in_place(a, "sigmoid", b.add_tensors(from_state[1], from_input[1], true));
    const TensorId reset = a.op("mul", {from_state[2], r}, inside);
    const TensorId n = in_place(a, "tanh", b.add_tensors(from_input[2], reset));
    h = b.add_tensors(a.op("mul", {a.op("sub", {h, n}), z}, inside), n, true);
    states.push_back(h);
  }
  return stacked(a, states, size);
}

std::int64_t saved(const std::function<TensorId(Arguments&)>& build) {
  return probe::measure({"recurrent", 0, build}).saved;
}

Graph language_model(const std::string& overrides, ModelOptions options) {
  const Value document = parse_document(overrides, "overrides");
  return find_preset("lstm_lm").build(Decoder(document), options);
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a recurrent node keeps what its steps keep, written out one by one") {
    for (const Size size :
         {Size{1, 1, 3, 5}, Size{2, 3, 7, 4}, Size{5, 2, 4, 8}, Size{9, 4, 1, 1}}) {
      CAPTURE(size.steps);
      const auto input = [&](Arguments& a) { return a.x({size.steps, size.batch, size.features}); };
      const auto node = [&](std::string_view cell) {
        return saved([&](Arguments& a) {
          return recurrent_layers(a.builder, cell, "rnn", input(a), {.hidden = size.hidden});
        });
      };
      CHECK(node("lstm") == saved([&](Arguments& a) { return unrolled_lstm(a, input(a), size); }));
      CHECK(node("gru") == saved([&](Arguments& a) { return unrolled_gru(a, input(a), size); }));
    }
  }

  TEST_CASE("what layers keep grows by the same bytes with each layer") {
    for (const std::string_view cell : kRecurrentCells) {
      for (const double dropout : {0.0, 0.5}) {
        const auto layers = [&](std::int64_t count) {
          return saved([&](Arguments& a) {
            return recurrent_layers(a.builder, cell, "rnn", a.x({6, 2, 8}),
                                    {.hidden = 8, .layers = count, .dropout = dropout});
          });
        };
        CHECK(layers(3) - layers(2) == layers(2) - layers(1));
        // Above the first, the input of a layer: 6 steps of 64 bytes, with dropout its noise too.
        const std::int64_t inputs = 6 * 64 * (dropout > 0 ? 2 : 1);
        CHECK(layers(2) == 2 * layers(1) + inputs);
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("the most that backward holds is one of two lines in the number of steps") {
    // While the first steps run, or when all gates' gradients are joined at the end.
    for (const CellKind cell : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
      // Up to four steps are simulated one by one; of five and more the middle is not.
      const auto peak = [&](std::int64_t steps) {
        const RecurrentSize size{
            .cell = cell, .steps = steps, .batch = 512, .input = 8, .hidden = 2};
        return unrolled_backward_peak(size).count;
      };
      for (std::int64_t steps = 2; steps < 12; ++steps)
        CHECK(peak(steps + 1) - peak(steps) <= peak(steps + 2) - peak(steps + 1));
      CHECK(peak(2'000'000) - peak(1'000'000) == 1'000'000 * (peak(21) - peak(20)));
    }
  }
}

TEST_SUITE("golden") {
  TEST_CASE("two directions keep what PyTorch 1.13 keeps, their input once") {
    // Measured on 6 steps of 2 samples with 8 features, hidden 5; the input left out.
    const auto kept = [](std::string_view cell, const RecurrentLayers& layers) {
      return saved([&](Arguments& a) {
        return recurrent_layers(a.builder, cell, "rnn", a.x({6, 2, 8}), layers);
      });
    };
    // h and c of two directions; per direction gates 4, tanh(c) 1, h and c of all steps but the
    // last.
    CHECK(kept("lstm", {.hidden = 5, .bidirectional = true}) ==
          4 * 40 + 2 * (6 * 5 * 40 + 2 * 5 * 40));
    CHECK(kept("gru", {.hidden = 5, .bidirectional = true}) == 2 * 40 + 2 * (6 * 6 * 40 + 5 * 40));
    CHECK(kept("rnn", {.hidden = 5, .bidirectional = true}) == 2 * 40 + 2 * 6 * 40);
    // Batch first, now 6 samples of 2 steps: each direction multiplies a copy of its own; both
    // share the first layer's result.
    const RecurrentLayers two{.hidden = 5, .layers = 2, .batch_first = true, .bidirectional = true};
    CHECK(kept("lstm", two) == 7968);
    CHECK(kept("gru", two) == 7968);
    CHECK(kept("rnn", two) == 2688);
    const Graph graph = [&] {
      ModelBuilder b("probe", DType::kFloat32);
      b.set_output(
          recurrent_layers(b, "lstm", "rnn", b.input("x", {2, 6, 8}, DType::kFloat32), two));
      return b.finish();
    }();
    CHECK(graph.tensors[graph.logits].shape == Shape{2, 6, 10});
    // 20 rows of 8 or 10 features, 5 states and two biases, in two directions.
    CHECK(graph.parameter_count().count == 2 * 20 * (8 + 5 + 2) + 2 * 20 * (10 + 5 + 2));
  }

  TEST_CASE("the recurrent language model has the example's parameters") {
    // 33,278 * 200 twice and a bias; per layer 4 * 200 * (200 + 200 + 2).
    const Graph graph = language_model("{}", {.micro_batch = 20, .dtype = DType::kFloat32});
    CHECK(graph.parameter_count().count == 2 * 6'655'600 + 33'278 + 2 * 321'600);
    CHECK(graph.tensors[graph.logits].shape == Shape{35, 20, 33'278});
    CHECK(graph.tokens == 700);
    const Graph tied = language_model("{tie: true, cell: gru, layers: 1}", {});
    CHECK(tied.parameter_count().count == 6'655'600 + 33'278 + 3 * 200 * 402);
  }

  TEST_CASE("cuDNN keeps one reserve for all layers, the steps on a CPU keep their own") {
    const Graph graph =
        language_model("{dropout: 0}", {.micro_batch = 20, .dtype = DType::kFloat32});
    const std::int64_t state = 20 * 200 * 4;
    const auto bytes = [&](std::string_view framework, std::string_view name) {
      std::int64_t sum = 0;
      for (const auto& [known, size] : saved_by_name(probe::train(graph, framework))) {
        if (known == name) sum += size;
      }
      return sum;
    };
    CHECK(bytes("torch-1.13-cpu", "reserve") == 0);
    // h and c of two layers.
    CHECK(bytes("torch-1.13-cpu", "initial_states") == 4 * state);
    // Gates 4, tanh(c) 1; h and c of all steps but the last.
    CHECK(bytes("torch-1.13-cpu", "steps") == 2 * state * (5 * 35 + 2 * 34));
    CHECK(bytes("torch-1.13-cpu", "layer_inputs") == 35 * state);
    CHECK(bytes("torch-2.4-cuda", "steps") == 0);
    CHECK(bytes("torch-2.4-cuda", "reserve") == 2 * 35 * 6 * state);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("weights that do not fit are named with their layer and shapes") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 2, 8});
    const TensorId wrong = b.parameter("weight_ih", {12, 8});
    const TensorId weight = b.parameter("weight_hh", {16, 4});
    const auto layer = b.scope("encoder");
    CHECK(probe::problem_of([&] {
            b.add("lstm", {x, wrong, weight});
          }) ==
          "encoder: lstm: weight_ih of layer 0 has shape [12, 8] instead of [16, 8] "
          "(inputs have shapes [4, 2, 8], [12, 8], [16, 4])");
  }
}

}  // namespace tidemark::operators_recurrent_test
