#include "policies/rewrite/accumulate.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "policies/rewrite/precision.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::accumulate_test {
namespace {

// Backward: root, linear (input, weight and bias gradient).
TrainingGraph linear_graph(std::string_view framework) {
  ModelBuilder b("linear", DType::kFloat32);
  const TensorId x = b.parameter("x", {64, 256});
  b.set_output(b.linear("fc", x, 1024));
  return differentiate(b.finish(), *find_framework(framework), {});
}

// One table that is embedding and head at once.
TrainingGraph tied_graph(std::string_view framework, std::optional<DType> gradient_dtype = {}) {
  ModelBuilder b("tied", DType::kFloat32);
  TensorId table;
  const TensorId tokens = b.input("tokens", {4, 16}, DType::kInt64);
  const TensorId x = b.embedding("wte", tokens, 100, 32, &table);
  b.cross_entropy_loss(b.linear_with(b.layer_norm("ln", x), table));
  return differentiate(b.finish(), *find_framework(framework), {.gradient_dtype = gradient_dtype});
}

std::vector<std::string> names_of(const TrainingGraph& graph, const std::vector<OperatorId>& part) {
  std::vector<std::string> names;
  for (OperatorId id : part)
    names.push_back(graph.operators[id].name);
  return names;
}

std::size_t shared_with_backward(const TrainingGraph& graph) {
  return static_cast<std::size_t>(
      std::count_if(graph.part(PartKind::kBackwardAccumulate).begin(),
                    graph.part(PartKind::kBackwardAccumulate).end(), [&](OperatorId id) {
                      return std::find(graph.part(PartKind::kBackward).begin(),
                                       graph.part(PartKind::kBackward).end(),
                                       id) != graph.part(PartKind::kBackward).end();
                    }));
}

// Every gradient is changed by exactly one operator of each accumulating backward.
void check_each_gradient_is_added_once(const TrainingGraph& graph) {
  std::map<std::uint32_t, int> writes;
  for (OperatorId id : graph.part(PartKind::kBackwardAccumulate)) {
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.access == Access::kRead || !graph.storages[touch.storage].persistent) continue;
      CHECK(touch.access == Access::kMutate);
      ++writes[touch.storage.value];
    }
  }
  CHECK(writes.size() == graph.trained.size());
  for (const auto& [storage, count] : writes)
    CHECK(count == 1);
}

std::int64_t gradient_bytes(const TrainingGraph& graph) {
  std::int64_t sum = 0;
  for (ParameterId id : graph.trained)
    sum += graph.storages[graph.parameters[id].gradient].bytes.count;
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one micro-batch whose gradients are dropped leaves the graph as it is") {
    TrainingGraph graph = tied_graph("torch-2.4-cuda");
    const std::size_t operators = graph.operators.size();
    const std::size_t storages = graph.storages.size();
    const std::size_t holds = graph.holds.size();
    Accumulate(1, ZeroGrad::kNone).apply(graph, {});
    CHECK(graph.operators.size() == operators);
    CHECK(graph.storages.size() == storages);
    CHECK(graph.holds.size() == holds);
    CHECK(graph.part(PartKind::kBackwardAccumulate).empty());
    CHECK(graph.micro_batches == 1);
  }

  TEST_CASE("operators that make a gradient are cloned and the gradient is added behind the node") {
    TrainingGraph graph = linear_graph("torch-2.4-cuda");
    Accumulate(2, ZeroGrad::kNone).apply(graph, {});
    check_invariants(graph);
    CHECK(names_of(graph, graph.part(PartKind::kBackwardAccumulate)) ==
          std::vector<std::string>{"root_gradient", "linear.input_gradient",
                                   "linear.weight_gradient", "linear.bias_gradient",
                                   "accumulate_gradient", "accumulate_gradient",
                                   "accumulate_gradient"});
    CHECK(shared_with_backward(graph) == 1);  // the root: all others make a .grad here
    check_each_gradient_is_added_once(graph);
    CHECK(graph.micro_batches == 2);
  }

  TEST_CASE("a tied weight is added once, after both of its uses") {
    for (std::string_view framework : {"torch-2.4-cuda", "torch-1.13-cpu", "ideal"}) {
      TrainingGraph graph = tied_graph(framework);
      const std::size_t backward = graph.part(PartKind::kBackward).size();
      Accumulate(4, ZeroGrad::kNone).apply(graph, {});
      check_invariants(graph);
      // Where the loss is a variable it is divided first.
      CHECK(graph.part(PartKind::kBackward).size() == backward + 1);  // the division of the loss
      CHECK(graph.part(PartKind::kBackwardAccumulate).size() ==
            backward + 1 + graph.trained.size());
      check_each_gradient_is_added_once(graph);
      CHECK(names_of(graph, graph.part(PartKind::kBackwardAccumulate)).back() ==
            "accumulate_gradient");
    }
  }

  TEST_CASE("several micro-batches divide their losses: quotient and gradient are scalars") {
    TrainingGraph graph = tied_graph("torch-1.13-cpu");
    Accumulate(4, ZeroGrad::kNone).apply(graph, {});
    const Operator& divide = graph.operators[graph.part(PartKind::kForward).back()];
    CHECK(divide.name == "divide_loss");
    CHECK(names_of(graph, graph.part(PartKind::kBackward))[1] == "divide_loss.backward");
    const OperatorId end = graph.part(PartKind::kEndOfStep).back();
    for (const Touch& touch : graph.touches_of(graph.part(PartKind::kForward).back())) {
      CHECK(graph.storages[touch.storage].bytes == Bytes(4));
      for (const Hold& hold : graph.holds) {
        const bool of_loss = hold.storage == touch.storage;
        CHECK_FALSE((of_loss && hold.until == end));  // each micro-batch drops its own
      }
    }
    // The root's gradient goes no further than the division.
    const StorageId root =
        graph.touches_of(graph.part(PartKind::kBackward).front()).front().storage;
    int readers = 0;
    for (OperatorId id : graph.part(PartKind::kBackward)) {
      for (const Touch& touch : graph.touches_of(id))
        readers += touch.storage == root && touch.access == Access::kRead ? 1 : 0;
    }
    CHECK(readers == 1);
    // One micro-batch divides nothing.
    TrainingGraph whole = tied_graph("torch-1.13-cpu");
    const std::size_t forward = whole.part(PartKind::kForward).size();
    Accumulate(1, ZeroGrad::kZero).apply(whole, {});
    CHECK(whole.part(PartKind::kForward).size() == forward);
  }

  TEST_CASE("a gradient that would be converted is added in its own type, without a copy") {
    TrainingGraph graph = tied_graph("torch-2.4-cuda", DType::kBFloat16);
    const std::size_t backward = graph.part(PartKind::kBackward).size();
    const std::vector<std::string> before = names_of(graph, graph.part(PartKind::kBackward));
    REQUIRE(std::count(before.begin(), before.end(), "copy_gradient") == 3);
    Accumulate(2, ZeroGrad::kNone).apply(graph, {});
    check_invariants(graph);
    const std::vector<std::string> after =
        names_of(graph, graph.part(PartKind::kBackwardAccumulate));
    CHECK(after.size() == backward + 1);  // the division of the loss
    CHECK(std::count(after.begin(), after.end(), "copy_gradient") == 0);
    CHECK(std::count(after.begin(), after.end(), "accumulate_gradient") == 3);
    CHECK(shared_with_backward(graph) == backward + 1 - 3);
    check_each_gradient_is_added_once(graph);
  }

  TEST_CASE("holds that end in a cloned operator end in its clone too") {
    TrainingGraph graph = linear_graph("torch-2.4-cuda");
    const OperatorId last = graph.part(PartKind::kBackward).back();
    const auto ending = [&](OperatorId id) {
      return std::count_if(graph.holds.begin(), graph.holds.end(),
                           [&](const Hold& hold) { return hold.until == id; });
    };
    REQUIRE(ending(last) > 0);
    Accumulate(2, ZeroGrad::kNone).apply(graph, {});
    CHECK(ending(graph.part(PartKind::kBackwardAccumulate)[3]) == ending(last));
    for (const Hold& hold : graph.holds) {
      if (hold.until == graph.part(PartKind::kZeroGrad)[0])
        CHECK(graph.storages[hold.storage].persistent);
    }
  }

  TEST_CASE("gradients filled with zeros persist and are overwritten once per parameter") {
    TrainingGraph graph = tied_graph("torch-1.13-cpu");
    Accumulate(1, ZeroGrad::kZero).apply(graph, {});
    check_invariants(graph);
    CHECK(graph.gradients_persist);
    CHECK(graph.micro_batches == 1);
    std::size_t fills = 0;
    for (OperatorId id : graph.part(PartKind::kZeroGrad)) {
      for (const Touch& touch : graph.touches_of(id)) {
        CHECK(touch.access == Access::kOverwrite);
        CHECK(graph.storages[touch.storage].role == Role::kGradient);
        CHECK(graph.operators[id].work.op_class == OperatorClass::kMemset);
        ++fills;
      }
    }
    CHECK(fills == graph.trained.size());
    for (const Hold& hold : graph.holds) {
      CHECK(graph.storages[hold.storage].role != Role::kGradient);
    }
  }

  TEST_CASE("zero_grad follows the framework unless the scenario says otherwise") {
    const Value document = parse_document("zero_grad: none", "test.yaml");
    const Decoder empty;
    CHECK(decode_zero_grad(empty, *find_framework("torch-2.4-cuda")) == ZeroGrad::kNone);
    CHECK(decode_zero_grad(empty, *find_framework("torch-1.13-cpu")) == ZeroGrad::kZero);
    CHECK(decode_zero_grad(Decoder(document), *find_framework("torch-1.13-cpu")) ==
          ZeroGrad::kNone);
  }
}

TEST_SUITE("golden") {
  // The probes "grad None" and "grad exists": a new gradient is made, added and freed.
  TEST_CASE("a gradient that exists costs a second one for the length of its backward node") {
    TrainingGraph graph = linear_graph("torch-2.4-cuda");
    Accumulate(2, ZeroGrad::kNone).apply(graph, {});
    const ProgramOrder order = program_order(graph, 2);
    const test::LiveBytes live = test::live_bytes(graph, order);
    // x 64 * 256 * 4 = 65,536; weight 1,048,576 and bias 4,096: gradients of 1,118,208 bytes.
    CHECK(gradient_bytes(graph) == 1'118'208);
    std::vector<std::int64_t> peak(4, 0);
    for (Position p : ids_of(order.at)) {
      const Occurrence& at = order.at[p];
      if (graph.operators[at.op].phase != Phase::kBackward) continue;
      std::int64_t& of = peak[static_cast<std::size_t>(at.step) * 2 + at.micro_batch];
      of = std::max(of, live.during[p.index()]);
    }
    // Parameters 1,118,208, gradients, and the root gradient of the output's 262,144 bytes.
    CHECK(peak[0] == 2 * 1'118'208 + 262'144);
    CHECK(peak[1] == 3 * 1'118'208 + 262'144);
    CHECK(peak[2] == peak[0]);
    CHECK(peak[3] == peak[1]);
    CHECK(live.after.back() == 2 * 1'118'208);  // nothing else is left
  }

  TEST_CASE("persistent gradients make every step but the first accumulate") {
    TrainingGraph graph = linear_graph("torch-1.13-cpu");
    Accumulate(1, ZeroGrad::kZero).apply(graph, {});
    const ProgramOrder order = program_order(graph, 3);
    CHECK(test::peak_above_start(graph, order, Phase::kBackward, 0) == 1'118'208 + 262'144);
    CHECK(test::peak_above_start(graph, order, Phase::kBackward, 1) == 1'118'208 + 262'144);
    CHECK(test::peak_above_start(graph, order, Phase::kBackward, 2) == 1'118'208 + 262'144);
    const test::LiveBytes live = test::live_bytes(graph, order);
    CHECK(live.after.back() == 2 * 1'118'208);
    CHECK(live.peak == 3 * 1'118'208 + 262'144);
  }
}

}  // namespace tidemark::accumulate_test
