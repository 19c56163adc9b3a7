// Reentrant checkpoints of blocks that nothing with a gradient enters.
#include "graph/rewrite/detach_segments.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/environment.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark::detach_segments_test {

namespace {

struct Simulated {
  TrainedModel model;
  PointResult result;
};

Simulated simulated(const std::string& policies,
                    const std::string& model = "preset: gpt, tie: false", int layers = 4) {
  const std::string text = fmt::format(
      "{{model: {{{}, layers: {}, width: 256, heads: 8, vocab: 4096, sequence: 128}}, hardware: "
      "h100-sxm-80gb, training: {{micro_batch: 2, sequence: 128, precision: fp32, framework: "
      "torch-1.13-cpu, attention: math, dropout: 0, zero_grad: none, optimizer: {{name: adamw, "
      "implementation: "
      "loop}}}}, allocator: ideal, policies: {}}}",
      model, layers, policies);
  const Scenario scenario =
      decode_scenario(parse_document(text, "test.yaml"), default_environment());
  Simulated s{.model = build_training(scenario)};
  s.result = simulate(scenario, s.model, {.smallest_capacity = false});
  return s;
}

std::string frozen(int blocks, const std::string& reentrant, const std::string& more = "") {
  std::string layers = "wte, wpe";
  for (int i = 0; i < blocks; ++i)
    layers += fmt::format(", h.{}", i);
  return fmt::format("[{{freeze: {{layers: [{}]}}}}, {{checkpoint_every: {{{}reentrant: {}}}}}]",
                     layers, more, reentrant);
}

}  // namespace

TEST_SUITE("pytorch") {
  // PyTorch 1.13.1, CPU: h.2 and h.3 are not frozen, and get no gradient.
  TEST_CASE("nothing behind frozen embeddings is trained under reentrant checkpoints") {
    const Simulated two = simulated(frozen(2, "true"));
    CHECK(two.result.run.live.bytes.count == 42'926'100);
    const Simulated all = simulated(frozen(4, "true"));
    CHECK(two.result.run.live.bytes == all.result.run.live.bytes);
    CHECK(two.model.gradients == all.model.gradients);
    CHECK(two.model.optimizer_state == all.model.optimizer_state);
    // With hooks in place of the function they are trained.
    const Simulated hooks = simulated(frozen(2, "false"));
    CHECK(hooks.model.gradients > 2 * all.model.gradients);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a warning says that such blocks are not trained") {
    const auto warned = [](const Simulated& s) {
      for (const std::string& warning : s.result.warnings) {
        if (warning.find("None of the inputs have requires_grad=True") != std::string::npos)
          return warning.find("nor does this step") != std::string::npos ? 1 : 2;
      }
      return 0;
    };
    CHECK(warned(simulated(frozen(2, "true"))) == 1);
    CHECK(warned(simulated(frozen(2, "false"))) == 0);
    CHECK(warned(simulated("[{freeze: {layers: [h.0]}}, checkpoint_every]")) == 0);
    // PyTorch refuses what trains nothing at all; the figures are those with gradients.
    const Simulated nothing =
        simulated("[{lora: {rank: 4, targets: [c_attn]}}, {checkpoint_every: {reentrant: true}}]");
    CHECK(warned(nothing) == 2);
    CHECK(nothing.model.gradients > Bytes(0));
    CHECK(warned(simulated("[{lora: {rank: 4, targets: [c_attn], input_gradients: true}}, "
                           "{checkpoint_every: {reentrant: true}}]")) == 0);
  }

  TEST_CASE("blocks outside of the checkpoints are trained, and so is what follows them") {
    const auto gradients = [](const std::string& checkpoint) {
      return simulated("[{freeze: {layers: [wte, wpe]}}, " + checkpoint + "]").model.gradients;
    };
    const Bytes all = gradients("{checkpoint: {first: 2, reentrant: false}}");
    const Bytes last = gradients("{checkpoint: {first: 2}}");
    const Bytes none = gradients("checkpoint_every");
    CHECK(last < all);
    CHECK(none < last);
    // The first block is run by no function, and what it returns requires a gradient.
    CHECK(gradients("{checkpoint: {layers: [1, 2, 3]}}") == all);
    // checkpoint_sequential leaves the last segment alone.
    CHECK(gradients("{checkpoint_sequential: {segments: 2}}") == last);
  }

  TEST_CASE("segments of blocks") {
    const std::vector<BlockRange> segments = segments_of(5, 2);
    REQUIRE(segments.size() == 3);
    CHECK(segments[1].first == 2);
    CHECK(segments[2].first == 4);
    CHECK(segments[2].end == 5);
    CHECK(segments_of(0, 3).empty());
  }
}

}  // namespace tidemark::detach_segments_test
