// training.memory_format, from the scenario to the kernels.
#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/ir/convolutions.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "sim/step/build_training.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::memory_format_test {

namespace {

Scenario scenario_in(const std::string& format) {
  const std::string text =
      "{version: 1, model: resnet18, hardware: rtx-3090-24gb, training: {micro_batch: 4, "
      "precision: "
      "fp16_autocast, optimizer: sgd, memory_format: " +
      format + "}}";
  return decode_scenario(parse_document(text, "test"), environment());
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("channels_last reorders convolutions and normalizations, and nothing else changes") {
    const TrainedModel plain = build_training(scenario_in("contiguous"));
    const TrainedModel last = build_training(scenario_in("channels_last"));
    REQUIRE(plain.training.operators.size() == last.training.operators.size());
    std::size_t reordered = 0;
    for (const OperatorId op : ids_of(plain.training.operators)) {
      const Work& before = plain.training.operators[op].work;
      const Work& after = last.training.operators[op].work;
      CHECK(before.op_class == after.op_class);
      CHECK(before.flops == after.flops);
      // Sums of gradients are as much in place as before.
      CHECK(plain.training.operators[op].touch_count == last.training.operators[op].touch_count);
      // Gradients that come back from the pooling are row-major: the first relu reorders them.
      const bool felt =
          is_convolution(after.op_class) || after.op_class == OperatorClass::kNormalization;
      if (!felt) continue;
      CHECK_FALSE(before.channels_last);
      CHECK(after.channels_last);
      ++reordered;
    }
    // 20 convolutions, forward and two gradients, without the image's; 20 normalizations, forward
    // and backward.
    CHECK(reordered == 20 * 3 - 1 + 20 * 2);
    CHECK(plain.parameters == last.parameters);
    CHECK(plain.step_flops.count == last.step_flops.count);
  }

  TEST_CASE("channels_last holds through the joins of a densenet") {
    const std::string text =
        "{version: 1, model: densenet121, hardware: rtx-3090-24gb, training: {micro_batch: 4, "
        "precision: fp16_autocast, optimizer: sgd, memory_format: channels_last}}";
    const TrainedModel model =
        build_training(decode_scenario(parse_document(text, "test"), environment()));
    std::size_t convolutions = 0;
    for (const Operator& op : model.training.operators) {
      const bool forward = op.part == OperatorPart::kForward;
      if (!forward || !is_convolution(op.work.op_class)) continue;
      CHECK_MESSAGE(op.work.channels_last, op.name);
      ++convolutions;
    }
    CHECK(convolutions == 120);  // 2 in each of 58 layers, 3 between the blocks, the first
  }

  TEST_CASE("a GPU adds the bias of a convolution with a kernel of its own") {
    const std::string text =
        "{version: 1, model: vgg11, hardware: rtx-3090-24gb, training: {micro_batch: 4, "
        "precision: fp16_autocast, optimizer: sgd}}";
    const TrainedModel model =
        build_training(decode_scenario(parse_document(text, "test"), environment()));
    std::size_t convolutions = 0;
    for (const Operator& op : model.training.operators) {
      if (!is_convolution(op.work.op_class)) continue;
      // The output is read and written once more.
      const bool forward = op.part == OperatorPart::kForward;
      CHECK(op.work.apart == (forward ? op.work.written * 2 : Bytes(0)));
      CHECK(op.work.launches == (forward ? 2 : 1));
      ++convolutions;
    }
    CHECK(convolutions == 8 * 3 - 1);  // without the image's gradient
  }

  TEST_CASE("a step is faster in channels_last on tensor cores") {
    const Value document = load_scenario(test::source_path("scenarios/basics/channels_last.yaml"));
    const std::vector<PointResult> points =
        simulate_points(document, environment(), 1, {.smallest_capacity = false});
    REQUIRE(points.size() == 2);
    CHECK(points[1].run.step < points[0].run.step);
    CHECK(points[1].run.live.bytes == points[0].run.live.bytes);
  }
}

}  // namespace tidemark::memory_format_test
