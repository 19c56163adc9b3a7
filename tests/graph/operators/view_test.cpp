#include <doctest/doctest.h>

#include "graph/operators/family.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::view_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

constexpr DType kFp32 = DType::kFloat32;
constexpr std::int64_t kFull = 32768;  // the probes' [4, 32, 64] in fp32

TEST_SUITE("golden") {
  TEST_CASE("views need no kernel in either direction") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
    const TensorId y = b.flatten(b.transpose(b.view(x, {4, 32, 8, 8}), 2, 3), 3);
    const TrainingGraph graph = train_on_cpu(b, b.transpose(y, 3, 2));
    CHECK(graph.part(PartKind::kForward).size() == 1);   // scale
    CHECK(graph.part(PartKind::kBackward).size() == 2);  // the root gradient, scale
  }

  TEST_CASE("reshape copies where strides demand it; its gradient is a view in the old order") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
    const TrainingGraph graph = train_on_cpu(b, b.reshape(b.transpose(x, 1, 2), {4, 2048}));
    CHECK(saved_bytes(graph) == 8);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) ==
          Sizes{kFull, 8, kFull});  // reshape_noncontig
    // scale's gradient lies transposed like its own, so .grad is a row-major copy of it.
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull, kFull});
  }

  TEST_CASE("split makes views; their gradients are joined into one tensor") {
    ModelBuilder b("probe", kFp32);
    const std::vector<TensorId> halves = b.split(b.parameter("x", {4, 32, 64}), 32, 2);
    const TrainingGraph graph = train_on_cpu(b, b.cat(halves, 2));
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{kFull});  // split_cat
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }

  TEST_CASE("backward makes zeros for an unused part of a split, and one zero for one of unbind") {
    for (const bool unbound : {false, true}) {
      CAPTURE(unbound);
      ModelBuilder b("probe", kFp32);
      const std::vector<TensorId> halves = b.add_many(
          "split", {b.parameter("x", {4, 32, 64})},
          {{"size", std::int64_t{32}}, {"axis", std::int64_t{2}}, {"unbind", unbound ? 1 : 0}});
      const TrainingGraph graph = train_on_cpu(b, b.multiply(halves[0], halves[0]));
      const Sizes made = allocations(graph, graph.part(PartKind::kBackward));
      REQUIRE(made.size() >= 2);
      CHECK(made[made.size() - 2] == (unbound ? 4 : kFull / 2));
      CHECK(made.back() == kFull);
    }
  }

  TEST_CASE("expand repeats without memory, and its gradient is summed") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.view(b.parameter("x", {4, 32, 64}), {4, 32, 1, 64});
    const TrainingGraph graph = train_on_cpu(b, b.contiguous(b.expand(x, {4, 32, 3, 64})));
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{3 * kFull});  // expand_contig
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }

  TEST_CASE("a slice gets its gradient back inside zeros of the full size") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {4, 32, 64});
    const TensorId first =
        b.add("narrow", {x}, {{"axis", std::int64_t{1}}, {"drop_axis", std::int64_t{1}}});
    CHECK(b.shape(first) == Shape{4, 64});
    const TrainingGraph graph = train_on_cpu(b, first);
    CHECK(graph.part(PartKind::kForward).empty());
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }

  TEST_CASE("sum hands back an expanded view, mean a new tensor") {
    ModelBuilder b("probe", kFp32);
    const Attributes last{{"axes", std::vector<std::int64_t>{-1}}};
    const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
    const TensorId y = b.add("sum", {x}, last);
    CHECK(b.shape(y) == Shape{4, 32});
    const TrainingGraph graph = train_on_cpu(b, y);
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});  // scale's own
  }
}

TEST_SUITE("unit") {
  TEST_CASE("the gradient of a view of a parameter is accumulated once, at the parameter") {
    ModelBuilder b("probe", kFp32);
    const TensorId token = b.parameter("cls_token", {1, 1, 64});
    const TrainingGraph graph =
        train_on_cpu(b, b.cat({b.expand(token, {4, 1, 64}), b.parameter("x", {4, 32, 64})}, 1));
    REQUIRE(graph.trained.size() == 2);
    CHECK(trained_elements(graph.parameters) == Elements(64 + 8192));
  }

  TEST_CASE("a view that strides do not allow says so") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.transpose(b.parameter("x", {4, 8}), 0, 1);
    CHECK(probe::problem_of([&] { b.view(x, {32}); }) ==
          "probe: view: its strides [1, 8] do not allow a view as [32]: use reshape (inputs have "
          "shapes [8, 4])");
    CHECK(probe::problem_of([&] {
            b.reshape(x, {5, -1});
          }) ==
          "probe: reshape: 32 elements do not fill the shape [5, -1] (inputs have shapes [8, 4])");
  }

  TEST_CASE("families are found by name, in alphabetical order") {
    for (const OperatorFamily* family : all_families()) {
      CHECK(find_family(family->name) == family);
      CHECK_FALSE(family->summary.empty());
    }
    CHECK(find_family("no_such_operator") == nullptr);
  }
}

}  // namespace
}  // namespace tidemark::view_test
