#include <map>
#include <string>

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"

namespace tidemark::operator_part_test {

TEST_SUITE("unit") {
  // Both halves of y = w x, y + relu(y) give y a gradient; fp32 gradients of bf16 weights are
  // copies.
  TEST_CASE("operators know their family and which part of it they are") {
    ModelBuilder b("m", DType::kBFloat16);
    const TensorId x = b.linear("l", b.input("x", {2, 4}, DType::kBFloat16), 4, true);
    b.set_output(b.add_tensors(x, b.activation("relu", x)));
    const TrainingGraph graph = differentiate(b.finish(), *find_framework("torch-2.4-cuda"),
                                              {.gradient_dtype = DType::kFloat32});
    std::map<OperatorPart, int> count;
    for (const Operator& op : graph.operators) {
      ++count[op.part];
      if (op.name == "linear") CHECK(op.forward_family() == "linear");
      if (op.name == "linear.weight_gradient") {
        CHECK(op.part == OperatorPart::kWeightGradient);
        CHECK(op.family->name == "linear");
        CHECK(op.forward_family().empty());
      }
    }
    CHECK(count[OperatorPart::kForward] == 3);
    CHECK(count[OperatorPart::kWeightGradient] == 1);
    CHECK(count[OperatorPart::kBiasGradient] == 1);
    CHECK(count[OperatorPart::kInputGradient] == 0);  // x needs none
    CHECK(count[OperatorPart::kAddGradients] == 1);
    CHECK(count[OperatorPart::kCopyGradient] == 2);
    CHECK(count[OperatorPart::kRootGradient] == 1);
    CHECK(count[OperatorPart::kZeroGrad] == 1);
    CHECK(count[OperatorPart::kEndOfStep] == 1);
    CHECK(count[OperatorPart::kOther] == 0);
  }
}

}  // namespace tidemark::operator_part_test
