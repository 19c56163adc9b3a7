#include "graph/models/experts.hpp"

#include <string>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/models/preset.hpp"
#include "graph/operators/family.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::experts_test {
namespace {

constexpr MixtureOfExperts kMixture{.experts = 4, .per_token = 2, .ffn = 24};

Graph mixture(const MixtureOfExperts& mixture) {
  ModelBuilder b("probe", DType::kFloat32);
  const TensorId x = b.parameter("x", {2, 8, 16});  // 16 tokens of width 16
  b.set_output(mixture_of_experts(b, "moe", x, mixture));
  return b.finish();
}

MixtureOfExperts with_capacity(double factor) {
  MixtureOfExperts limited = kMixture;
  limited.capacity_factor = factor;
  return limited;
}

// Returns the tokens that each expert's first layer works on.
std::vector<std::int64_t> loads(const Graph& graph) {
  std::vector<std::int64_t> rows;
  for (const Node& node : graph.nodes) {
    if (node.family->name != "linear") continue;
    const Shape& weight = graph.tensors[node.inputs[1]].shape;
    const bool first = weight == Shape{24, 16};
    if (first) rows.push_back(graph.tensors[node.inputs[0]].shape[0]);
  }
  return rows;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the capacity of an expert is its even share times the factor, rounded up") {
    CHECK(expert_capacity(with_capacity(1), 16) == 8);  // 16 * 2 / 4
    CHECK(expert_capacity(with_capacity(1.25), 16) == 10);
    CHECK(expert_capacity(with_capacity(1.01), 16) == 9);  // 8.08
    CHECK(expert_capacity(with_capacity(0.5), 16) == 4);
    CHECK(expert_capacity(with_capacity(100), 16) == 16);  // no expert sees a token twice
    CHECK(expert_capacity(with_capacity(0.001), 16) == 1);
  }

  TEST_CASE("with a capacity every expert works on as many places, padding included") {
    // Two layers of a gated network read each expert's tokens.
    CHECK(loads(mixture(kMixture)) == std::vector<std::int64_t>(8, 8));
    CHECK(loads(mixture(with_capacity(1.25))) == std::vector<std::int64_t>(8, 10));
    CHECK(loads(mixture(with_capacity(0.5))) == std::vector<std::int64_t>(8, 4));
  }

  TEST_CASE("what experts keep grows with their capacity, and every weight is trained") {
    const auto saved = [](double factor) {
      const TrainingGraph graph = probe::train(mixture(with_capacity(factor)), "torch-2.4-cuda");
      CHECK(graph.trained.size() == 2 + 4 * 3);
      return probe::saved_bytes(graph);
    };
    CHECK(saved(0.5) < saved(1));
    CHECK(saved(1) < saved(1.5));
    // Affine in the places: 4 experts of 4 places more each time.
    CHECK(saved(1.5) - saved(1) == saved(1) - saved(0.5));
  }

  TEST_CASE("a capacity needs experts and is above zero") {
    const auto problem = [](const std::string& preset, const std::string& overrides) {
      return probe::problem_of([&] {
        const Value document = parse_document(overrides, "s.yaml");
        static_cast<void>(find_preset(preset).build(Decoder(document), {}));
      });
    };
    CHECK(problem("llama", "{capacity_factor: 1.25}") ==
          "s.yaml:1:19: capacity_factor: there are no experts to limit");
    CHECK(problem("llama", "{experts: 4, capacity_factor: 0}").find("capacity_factor") !=
          std::string::npos);
    CHECK(problem("llama", "{experts: 4, capacity_factor: 1.25}").empty());
  }
}

}  // namespace tidemark::experts_test
