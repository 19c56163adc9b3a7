#include "graph/autodiff/evaluate.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "graph/analysis/program_order.hpp"
#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::evaluate_test {
namespace {

TrainingGraph evaluated(const Graph& graph, std::string_view framework, bool with_loss = false) {
  return differentiate(evaluation_graph(graph, with_loss), *find_framework(framework),
                       {.evaluates = true});
}

std::vector<std::string> forward_names(const TrainingGraph& graph) {
  std::vector<std::string> names;
  for (OperatorId id : graph.part(PartKind::kForward))
    names.push_back(graph.operators[id].name);
  return names;
}

// Convolution, batch norm, dropout and a linear layer on [2, 3, 8, 8], with its loss.
Graph small_model() {
  ModelBuilder b("small", DType::kFloat32);
  TensorId x = b.input("x", {2, 3, 8, 8}, DType::kFloat32);
  x = b.conv2d("conv", x, 4, {.kernel = 1, .bias = false});
  x = b.batch_norm("bn", x);
  x = b.dropout(x, 0.5);
  x = b.flatten(x, 1);
  x = b.linear("fc", x, 10);
  b.set_output(x);
  b.cross_entropy_loss(x);
  return b.finish();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("an evaluation saves nothing, makes no gradient and changes nothing that stays") {
    const Graph model = small_model();
    const TrainingGraph trained = differentiate(model, *find_framework("torch-2.4-cuda"), {});
    CHECK(probe::saved_bytes(trained) > 0);
    const TrainingGraph graph = evaluated(model, "torch-2.4-cuda");
    CHECK(probe::saved_bytes(graph) == 0);
    CHECK(graph.part(PartKind::kBackward).empty());
    CHECK(graph.trained.empty());
    for (OperatorId id : graph.part(PartKind::kForward))
      CHECK_FALSE(writes_persistent(graph, id));
  }

  TEST_CASE("dropout, the update of running statistics and the loss do not run") {
    const Graph model = small_model();
    CHECK(forward_names(evaluated(model, "torch-2.4-cuda")) ==
          std::vector<std::string>{"conv2d", "batch_norm", "linear"});
    const std::vector<std::string> with_loss =
        forward_names(evaluated(model, "torch-2.4-cuda", true));
    CHECK(with_loss.size() > 3);
    CHECK(with_loss.back() == "nll_loss");
  }

  TEST_CASE("targets are delivered to an evaluation that takes no loss") {
    const TrainingGraph graph = evaluated(small_model(), "torch-2.4-cuda");
    Bytes inputs;
    for (const Storage& storage : graph.storages)
      inputs += storage.role == Role::kInput ? storage.bytes : Bytes(0);
    CHECK(inputs == Bytes(2 * 3 * 8 * 8 * 4 + 2 * 8));
  }

  TEST_CASE("batch norm in evaluation reads its input once; on a CPU it makes two rows first") {
    const auto norm = [](const TrainingGraph& graph) {
      return graph.part(PartKind::kForward)[1];  // behind the convolution
    };
    const TrainingGraph trained = differentiate(small_model(), *find_framework("ideal"), {});
    const TrainingGraph graph = evaluated(small_model(), "ideal");
    const Bytes input(2 * 4 * 8 * 8 * 4);
    CHECK(trained.operators[norm(trained)].work.read - graph.operators[norm(graph)].work.read ==
          input);
    const TrainingGraph cpu = evaluated(small_model(), "torch-1.13-cpu");
    const probe::Sizes sizes = probe::allocations(cpu, {norm(cpu)});
    CHECK(sizes == probe::Sizes{input.count, 2 * 4 * 4});
  }

  TEST_CASE("what a block is given lives until the block returns") {
    ModelBuilder b("blocks", DType::kFloat32);
    TensorId x = b.linear("in", b.input("x", {1, 64}, DType::kFloat32), 64);
    for (int i = 0; i < 2; ++i) {
      const auto block = b.block("h." + std::to_string(i));
      x = b.linear("a", x, 64);
      x = b.linear("b", x, 64);
    }
    b.set_output(x);
    const Graph model = b.finish();
    // in; h.0.a reads it and makes the second, h.0.b the third: three of 256 bytes under holds.
    const auto activations = [](const TrainingGraph& graph) {
      std::int64_t initial = 0;
      for (const Storage& storage : graph.storages)
        initial += storage.initial ? storage.bytes.count : 0;
      return probe::peak_bytes(graph) - initial;
    };
    CHECK(activations(evaluated(model, "torch-2.4-cuda")) == 3 * 256);
    CHECK(activations(evaluated(model, "ideal")) == 2 * 256);
  }
}

}  // namespace tidemark::evaluate_test
