// Tensors that the formulas of derivatives.yaml make between their kernels, as recorded on PyTorch
// 1.13.1: they are allocations beside the result, not a workspace inside one kernel.
#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::formulas_test {
namespace {

using probe::Sizes;

constexpr std::int64_t kN = 8 * 16 * 4;  // bytes of [8, 16]
constexpr std::int64_t kMask = 8 * 16;   // bool
constexpr std::int64_t kRow = 8 * 4;     // bytes of [8, 1]

struct Formula {
  std::string_view family;
  std::int64_t temporaries = 0;  // bytes beside the result while the most are alive
};

Sizes backward_of(ModelBuilder& b, TensorId output) {
  const TrainingGraph graph = probe::train_on_cpu(b, output);
  for (OperatorId id : graph.part(PartKind::kBackward))
    CHECK(graph.operators[id].workspace <= Bytes(12));
  return probe::allocations(graph, graph.part(PartKind::kBackward));
}

Sizes with(std::int64_t temporaries) {
  return temporaries == 0 ? Sizes{kN} : Sizes{kN, temporaries};
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("formulas of one operand") {
    for (const Formula& formula :
         {Formula{"exp", 0}, Formula{"neg", 0}, Formula{"log", 0}, Formula{"abs", kN},
          Formula{"sqrt", kN}, Formula{"sin", kN}, Formula{"log1p", kN}, Formula{"expm1", kN},
          Formula{"cos", 2 * kN}, Formula{"rsqrt", 2 * kN}, Formula{"reciprocal", 2 * kN},
          Formula{"tan", 2 * kN}, Formula{"atan", 2 * kN}, Formula{"asinh", 3 * kN},
          Formula{"asin", 4 * kN}, Formula{"erf", 4 * kN}, Formula{"pow", 2 * kN},
          Formula{"clamp", 2 * kMask + 4}}) {
      CAPTURE(formula.family);
      ModelBuilder b("probe", DType::kFloat32);
      const TensorId y = b.add(formula.family, {b.parameter("x", {8, 16})});
      CHECK(backward_of(b, y) == with(formula.temporaries));
    }
  }

  TEST_CASE("a clamp without one of its bounds compares once") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId y = b.add("clamp", {b.parameter("x", {8, 16})}, {{"bounds", std::int64_t{1}}});
    CHECK(backward_of(b, y) == Sizes{kN, kMask + 4});
  }

  TEST_CASE("formulas of reductions along an axis") {
    // Each result of the input's size, and what stands beside it.
    for (const Formula& formula :
         {Formula{"var", kN + 2 * kRow}, Formula{"std", kN + 3 * kRow}, Formula{"norm", kN + 8},
          Formula{"logsumexp", 2 * kN}, Formula{"prod", kN + kMask + 2 * kRow},
          Formula{"amax", kMask + 3 * kRow}}) {
      CAPTURE(formula.family);
      ModelBuilder b("probe", DType::kFloat32);
      const TensorId y = b.add(formula.family, {b.parameter("x", {8, 16})},
                               {{"axes", std::vector<std::int64_t>{1}}});
      CHECK(backward_of(b, y) == Sizes{kN, formula.temporaries});
    }
  }

  TEST_CASE("formulas of two operands") {
    ModelBuilder quotient("probe", DType::kFloat32);
    const TensorId a = quotient.parameter("a", {8, 16});
    const TensorId y = quotient.add("div", {a, quotient.parameter("b", {8, 16})});
    CHECK(backward_of(quotient, y) == Sizes{kN, 3 * kN, kN});  // of b first
    ModelBuilder power("probe", DType::kFloat32);
    const TensorId base = power.parameter("a", {8, 16});
    const TensorId z = power.add("tensor_power", {base, power.parameter("b", {8, 16})});
    CHECK(backward_of(power, z) == Sizes{kN, 3 * kN + kMask + 4, kN, 4 * kN + kMask + 4});
  }
}

}  // namespace tidemark::formulas_test
