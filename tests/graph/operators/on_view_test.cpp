// Functions in place on views, as recorded on PyTorch 1.13.1: CopySlices around their own backward.
#include <algorithm>

#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::on_view_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;

constexpr std::int64_t kN = 4 * 6 * 10 * 4;  // bytes of [4, 6, 10]

TrainingGraph changed(std::string_view family, bool on_view, Attributes attributes = {}) {
  ModelBuilder b("probe", DType::kFloat32);
  TensorId x = b.add("clone", {b.parameter("x", {4, 6, 10})});
  if (on_view) x = b.transpose(x, 1, 2);
  x = b.add_in_place(family, x, std::move(attributes));
  return probe::train_on_cpu(b, x);
}

Sizes backward_of(const TrainingGraph& graph) {
  return allocations(graph, graph.part(PartKind::kBackward));
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("in place on a view: zeros, a copy, a clone and the function's own gradient") {
    // AsStridedBackward0, then new_empty_strided, clone and threshold_backward in CopySlices.
    CHECK(backward_of(changed("relu", true)) == Sizes{kN, kN, kN, kN});
    CHECK(backward_of(changed("relu", false)) == Sizes{kN});
    CHECK(backward_of(changed("dropout", true, {{"p", 0.1}})) == Sizes{kN, kN, kN, kN});
  }

  TEST_CASE("composite backwards make their result inside CopySlices") {
    const TrainingGraph graph = changed("silu", true);
    CHECK(backward_of(graph) == Sizes{kN, kN, kN});
    CHECK(graph.operators[graph.part(PartKind::kBackward).back()].workspace == Bytes(kN));
    CHECK(saved_bytes(graph) == kN);  // the clone of its input
  }

  TEST_CASE("a root is not changed in place, and an identity is no view") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 6, 10});
    const TensorId copied = b.add_in_place("relu", x);  // before any reference into the graph
    CHECK(b.tensor(copied).storage != b.tensor(x).storage);
    const TensorId same = b.dropout(b.add("clone", {x}), 0);
    const TensorId changed_itself = b.add_in_place("relu", same);
    CHECK(backward_of(probe::train_on_cpu(b, changed_itself)) == Sizes{kN});
  }

  TEST_CASE("F.linear over three axes with a bias ends in a view, without one it does not") {
    for (const bool bias : {true, false}) {
      ModelBuilder b("probe", DType::kFloat32);
      const TensorId y = b.linear("fc", b.parameter("x", {2, 3, 4}), 4, bias);
      const TrainingGraph graph = probe::train_on_cpu(b, b.add_in_place("relu", y));
      constexpr std::int64_t kY = 2 * 3 * 4 * 4;
      const Sizes made = backward_of(graph);
      REQUIRE(made.size() >= 3);
      const Sizes in_view{kY, kY, kY, kY};
      CHECK((made.size() > 4 && std::equal(in_view.begin(), in_view.end(), made.begin())) == bias);
    }
  }
}

}  // namespace tidemark::on_view_test
