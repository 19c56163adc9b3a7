// torch.einsum: autograd keeps the operands that bmm is given.
#if TIDEMARK_READS_ONNX
#include <doctest/doctest.h>

#include "tests/graph/import/onnx/onnx_probe.hpp"

namespace tidemark::test::onnx_einsum_test {
namespace {

struct Result {
  Shape shape;
  std::int64_t saved = 0;
};

// Runs the equation on exp(input + parameter) of these shapes; exp keeps its result, so that
// everything kept beyond those is a copy.
Result einsum(const std::string& equation, const std::vector<OnnxDims>& operands,
              std::int64_t* kept_by_exp = nullptr) {
  OnnxWriter w;
  std::vector<std::string> inputs;
  std::int64_t bytes = 0;
  for (const OnnxDims& dims : operands) {
    const std::string number = std::to_string(inputs.size());
    const std::string sum =
        w.node("Add", {w.input("x" + number, dims), w.parameter("p" + number, dims)});
    inputs.push_back(w.node("Exp", {sum}));
    std::int64_t size = 4;
    for (std::int64_t extent : dims)
      size *= extent;
    bytes += size;
  }
  if (kept_by_exp != nullptr) *kept_by_exp = bytes;
  w.output(w.node("Einsum", inputs, {{"equation", equation}}, "/Einsum"));
  ModelOptions options;
  options.loss = LossKind::kNone;
  const Graph graph = imported(w, {}, options);
  const TensorId result = graph.logits.valid() ? graph.logits : graph.loss;  // a number is the loss
  return {graph.tensors[result].shape, saved(w)};
}

std::string einsum_problem(const std::string& equation, const std::vector<OnnxDims>& operands) {
  return probe::problem_of([&] { static_cast<void>(einsum(equation, operands)); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a batched product keeps its operands, copied only where their strides demand it") {
    constexpr std::int64_t kQ = 4 * 2 * 3 * 5 * 7;
    constexpr std::int64_t kK = 4 * 2 * 3 * 6 * 7;
    struct Case {
      std::string equation;
      std::vector<OnnxDims> operands;
      Shape shape;
      std::int64_t copies;
    };
    for (const Case& c : {
             // Queries times keys with the heads in front: both are seen through views.
             Case{"bhid,bhjd->bhij", {{2, 3, 5, 7}, {2, 3, 6, 7}}, {2, 3, 5, 6}, 0},
             Case{" b h i d , b h j d -> b h i j", {{2, 3, 5, 7}, {2, 3, 6, 7}}, {2, 3, 5, 6}, 0},
             // Heads behind the places: batch and heads do not lie side by side.
             Case{"bihd,bjhd->bhij", {{2, 5, 3, 7}, {2, 6, 3, 7}}, {2, 3, 5, 6}, kQ + kK},
             Case{"bihd,bhjd->bhij", {{2, 5, 3, 7}, {2, 3, 6, 7}}, {2, 3, 5, 6}, kQ},
             // One axis of heads is no hindrance.
             Case{"bihd,bjhd->bhij", {{2, 5, 1, 7}, {2, 6, 1, 7}}, {2, 1, 5, 6}, 0},
             Case{"...id,...jd->...ij", {{2, 3, 5, 7}, {2, 3, 6, 7}}, {2, 3, 5, 6}, 0},
             Case{"...id,...jd", {{2, 3, 5, 7}, {2, 3, 6, 7}}, {2, 3, 5, 6}, 0},
             Case{"ij,jk", {{4, 5}, {5, 6}}, {4, 6}, 0},
             Case{"ij,jk->ki", {{4, 5}, {5, 6}}, {6, 4}, 0},
             Case{"kj,ji", {{4, 5}, {5, 6}}, {6, 4}, 0},  // alphabetical: i, k
             // Two summed axes that lie side by side in both.
             Case{"bchw,bdhw->bcd", {{2, 3, 5, 7}, {2, 4, 5, 7}}, {2, 3, 4}, 0},
             // The second has them in the other order.
             Case{"bchw,bdwh->bcd", {{2, 3, 5, 7}, {2, 4, 7, 5}}, {2, 3, 4}, 4 * 2 * 4 * 5 * 7},
             Case{"i,i->", {{5}, {5}}, {}, 0},
             Case{"bi,bi->bi", {{2, 5}, {2, 5}}, {2, 5}, 0},  // no product of matrices
             Case{"bi,j->bij", {{2, 5}, {3}}, {2, 5, 3}, 0},
             // From left to right: the first product, of 4 bytes per element, is kept for the next.
             Case{"ij,jk,kl->il", {{4, 5}, {5, 6}, {6, 7}}, {4, 7}, 4 * 4 * 6},
             Case{"i,j,k->ijk", {{2}, {3}, {4}}, {2, 3, 4}, 4 * 2 * 3},
         }) {
      CAPTURE(c.equation);
      std::int64_t kept = 0;
      const Result result = einsum(c.equation, c.operands, &kept);
      CHECK(to_string(result.shape) == to_string(c.shape));
      CHECK(result.saved == kept + c.copies);
    }
  }

  TEST_CASE("an equation of one operand turns and sums its axes and keeps nothing") {
    for (const auto& [equation, shape] :
         {std::pair{"bij->jbi", Shape{5, 2, 3}}, std::pair{"bij->bj", Shape{2, 5}},
          std::pair{"...j->...", Shape{2, 3}}, std::pair{"cba", Shape{5, 3, 2}}}) {
      CAPTURE(equation);
      std::int64_t kept = 0;
      const Result result = einsum(equation, {{2, 3, 5}}, &kept);
      CHECK(to_string(result.shape) == to_string(shape));
      CHECK(result.saved == kept);
    }
  }

  TEST_CASE("an axis that only one operand has is summed before the product") {
    std::int64_t kept = 0;
    // The sum [2, 5] is what the product keeps instead of the operand.
    const Result result = einsum("bic,ij->bj", {{2, 5, 7}, {5, 3}}, &kept);
    CHECK(result.shape == Shape{2, 3});
    CHECK(result.saved == kept + 4 * 2 * 5);
  }

  TEST_CASE("equations that cannot be simulated are reported at their node") {
    const auto fails = [](const std::string& equation, const std::vector<OnnxDims>& operands,
                          std::string_view text) {
      const std::string found = einsum_problem(equation, operands);
      INFO(found);
      CHECK(found.find("node '/Einsum' (Einsum): ") != std::string::npos);
      CHECK(found.find(text) != std::string::npos);
    };
    fails("", {{2, 2}}, "of the equation ''");
    fails("ii->i", {{2, 2}}, "is not understood");
    fails("ij->k", {{2, 2}}, "is not understood");
    fails("ij,jk->ik", {{2, 2}}, "is not understood");
    fails("ij->ij", {{2, 2}, {2, 2}}, "is not understood");
    fails("i?->i", {{2, 2}}, "is not understood");
    fails("ijk->i", {{2, 2}}, "operand 0 of the equation");
    fails("ij,jk->ik", {{2, 3}, {4, 2}}, "is 3 of one and 4 of the other");
  }
}

}  // namespace tidemark::test::onnx_einsum_test
#endif
