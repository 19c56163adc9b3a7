#include "graph/operators/framework.hpp"

#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::framework_test {
namespace {

// Returns the bytes that softmax of [8, 64] fp32 and the product after it keep: 2,048 each.
std::int64_t saved_by_softmax(std::string_view framework) {
  ModelBuilder b("softmax", DType::kFloat32);
  const TensorId x = b.input("x", {8, 64}, DType::kFloat32);
  const TensorId scores = b.linear("scores", x, 64, false);
  b.set_output(b.linear("out", b.softmax(scores), 64, false));
  return probe::saved_bytes(probe::train(b.finish(), framework));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("softmax kept its input until PyTorch 1.10") {
    CHECK(saved_by_softmax("torch-1.9-cuda") == 2 * 8 * 64 * 4);
    CHECK(saved_by_softmax("torch-1.13-cuda") == 8 * 64 * 4);
    CHECK(saved_by_softmax("torch-2.4-cuda") == 8 * 64 * 4);
  }

  TEST_CASE("what came with a version is absent before it") {
    const FrameworkRules& old = *find_framework("torch-1.9-cuda");
    const FrameworkRules& last_of_1 = *find_framework("torch-1.13-cuda");
    const FrameworkRules& first_of_2 = *find_framework("torch-2.1-cuda");
    CHECK_FALSE(old.has_cuda_graphs);
    CHECK(last_of_1.has_cuda_graphs);
    for (const FrameworkRules* rules : {&old, &last_of_1}) {
      CHECK_FALSE(rules->has_fused_attention);
      CHECK_FALSE(rules->has_compiler);
      CHECK_FALSE(rules->has_expandable_segments);
      CHECK_FALSE(rules->zero_grad_drops);
      CHECK_FALSE(rules->adds_gradients_in_place);
      CHECK(rules->optimizer_implementation == "loop");
      // Kernels are CUDA's: masks of one byte, no blocked layouts.
      CHECK(rules->dropout_mask_is_bool);
      CHECK_FALSE(rules->blocked_convolutions);
      CHECK(rules->library_workspaces);
    }
    CHECK_FALSE(old.caches_cublas_workspace);
    CHECK(last_of_1.caches_cublas_workspace);
    CHECK(first_of_2.has_compiler);
    CHECK(first_of_2.optimizer_implementation == "foreach");
  }

  TEST_CASE("every version says where its rules come from") {
    for (const FrameworkRules& rules : framework_profiles()) {
      CAPTURE(rules.name);
      CHECK_FALSE(rules.source.empty());
      CHECK(find_framework(rules.name) == &rules);
    }
  }
}

}  // namespace tidemark::framework_test
