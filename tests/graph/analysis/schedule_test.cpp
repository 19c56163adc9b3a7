#include "graph/analysis/schedule.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/analysis/program_order.hpp"
#include "graph/core/errors.hpp"

namespace tidemark::schedule_test {
namespace {

constexpr PartKind kF = PartKind::kForward;
constexpr PartKind kB = PartKind::kBackward;

// "F0 B0 F1 B1"; A: backward that accumulates, R: backward that reduces, Z: zero_grad, I: the
// optimizer's first step, O: the optimizer, E: the end; W: weight gradients; b: backward of the
// first step, u: ahead of the optimizer.
std::string text_of(const std::vector<ScheduledPart>& parts) {
  constexpr char kLetters[] = {'Z', 'F', 'B', 'A', 'R', 'I', 'O',
                               'G', 'E', 'W', 'W', 'W', 'b', 'u'};
  std::string text;
  for (const ScheduledPart& part : parts) {
    if (!text.empty()) text += ' ';
    text += kLetters[static_cast<std::size_t>(part.part)];
    text += std::to_string(part.micro_batch);
  }
  return text;
}

// A graph with one operator in each part of a step on one rank.
TrainingGraph one_of_each() {
  TrainingGraph graph;
  for (std::size_t kind = 0; kind < kPartKinds; ++kind) {
    // Reductions and weight gradients of their own are there in some graphs only.
    const auto part = static_cast<PartKind>(kind);
    if (part == PartKind::kBackwardReduce || part > PartKind::kEndOfStep) continue;
    Operator op;
    op.name = name_of(static_cast<PartKind>(kind));
    graph.part(static_cast<PartKind>(kind)).push_back(graph.add_operator(std::move(op), {}));
  }
  return graph;
}

// Returns the most micro-batches that have begun forward and not ended backward.
int most_in_flight(const std::vector<ScheduledPart>& work) {
  int now = 0;
  int most = 0;
  for (const ScheduledPart& part : work) {
    now += part.part == kF ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("micro-batches run one after another, all forward first, or in turn") {
    CHECK(text_of(one_after_another(3)) == "F0 B0 F1 B1 F2 B2");
    CHECK(text_of(gpipe(3)) == "F0 F1 F2 B0 B1 B2");
    CHECK(text_of(one_forward_one_backward(4, 0, 5)) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
    CHECK(text_of(one_forward_one_backward(4, 3, 3)) == "F0 B0 F1 B1 F2 B2");
    CHECK(text_of(one_forward_one_backward(4, 0, 2)) == "F0 F1 B0 B1");
  }

  TEST_CASE("1F1B has at most min(m, p - s) micro-batches in flight on stage s, GPipe m") {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 16; ++m) {
        CHECK(most_in_flight(gpipe(m)) == m);
        for (int s = 0; s < p; ++s)
          CHECK(most_in_flight(one_forward_one_backward(p, s, m)) == std::min(m, p - s));
      }
    }
  }

  TEST_CASE("a training step accumulates after its first backward; state is made in step 0") {
    TrainingGraph graph = one_of_each();
    graph.micro_batches = 3;
    const StepSchedule schedule = training_schedule(graph);
    CHECK(text_of(schedule.first_step) == "Z0 F0 B0 F1 A1 F2 A2 I2 O2 G2 E2");
    CHECK(text_of(schedule.later_steps) == "Z0 F0 B0 F1 A1 F2 A2 O2 G2 E2");
    CHECK(schedule.micro_batches == 3);
    graph.gradients_persist = true;  // step 0 finds none, later steps find those of the last one
    CHECK(text_of(training_schedule(graph).first_step) == "F0 B0 F1 A1 F2 A2 I2 O2 G2 E2");
    CHECK(text_of(training_schedule(graph).later_steps) == "Z0 F0 A0 F1 A1 F2 A2 O2 G2 E2");
    graph.part(PartKind::kBackwardAccumulate).clear();
    CHECK(text_of(training_schedule(graph).later_steps) == "Z0 F0 B0 F1 B1 F2 B2 O2 G2 E2");
  }

  TEST_CASE("data ranks bring gradients together in the last backward of a step") {
    TrainingGraph graph = one_of_each();
    graph.micro_batches = 3;
    graph.part(PartKind::kBackwardReduce).push_back(graph.part(PartKind::kBackward).front());
    CHECK(text_of(training_schedule(graph).later_steps) == "Z0 F0 B0 F1 A1 F2 R2 O2 G2 E2");
    graph.micro_batches = 1;
    CHECK(text_of(training_schedule(graph).later_steps) == "Z0 F0 R0 O0 G0 E0");
  }

  TEST_CASE("the first step has a backward of its own where that creates optimizer state") {
    TrainingGraph graph = one_of_each();
    graph.part(PartKind::kBackwardFirst).push_back(graph.part(PartKind::kBackward).front());
    CHECK(text_of(training_schedule(graph).first_step) == "Z0 F0 b0 I0 O0 G0 E0");
    CHECK(text_of(training_schedule(graph).later_steps) == "Z0 F0 B0 O0 G0 E0");
  }

  TEST_CASE("steps that a loss scale skips have no optimizer, and its state comes behind them") {
    TrainingGraph graph = one_of_each();
    graph.part(PartKind::kBeforeOptimizer).push_back(graph.part(PartKind::kOptimizer).front());
    graph.skipped_updates = 2;
    const StepSchedule schedule = training_schedule(graph);
    const char* steps[] = {"Z0 F0 B0 u0 G0 E0", "Z0 F0 B0 u0 G0 E0", "Z0 F0 B0 u0 I0 O0 G0 E0",
                           "Z0 F0 B0 u0 O0 G0 E0", "Z0 F0 B0 u0 O0 G0 E0"};
    for (int step = 0; step < 5; ++step)
      CHECK(text_of(schedule.of(step)) == steps[step]);
    graph.gradients_persist = true;  // those of a skipped step are filled with zeros
    CHECK(text_of(training_schedule(graph).of(0)) == "F0 B0 u0 G0 E0");
    CHECK(text_of(training_schedule(graph).of(1)) == "Z0 F0 A0 u0 G0 E0");
    CHECK(text_of(training_schedule(graph).of(2)) == "Z0 F0 A0 u0 I0 O0 G0 E0");
  }

  TEST_CASE("an evaluation runs forward only") {
    TrainingGraph graph = one_of_each();
    graph.micro_batches = 2;
    CHECK(text_of(forward_schedule(graph).first_step) == "F0 F1 E1");
    CHECK(text_of(forward_schedule(graph).later_steps) == "F0 F1 E1");
  }

  TEST_CASE("the first backward of each chunk makes its gradients") {
    TrainingGraph graph = one_of_each();
    const std::vector<OperatorId> whole = graph.part(PartKind::kBackwardAccumulate);
    graph.part(PartKind::kBackwardAccumulate, 1) = whole;  // a new part may move the others
    const StepSchedule schedule = training_schedule(
        graph, std::vector<ScheduledPart>{
                   {kF, 0, 0}, {kF, 0, 1}, {kB, 0, 1}, {kF, 1, 1}, {kB, 1, 1}, {kB, 0, 0}});
    CHECK(text_of(schedule.later_steps) == "Z0 F0 F0 B0 F1 A1 B0 O1 G1 E1");
  }

  TEST_CASE("a schedule that skips, repeats or reverses a micro-batch is refused") {
    const TrainingGraph graph = one_of_each();
    using Work = std::vector<ScheduledPart>;
    CHECK_THROWS_AS(static_cast<void>(training_schedule(graph, Work{{kF, 0}})), InternalError);
    CHECK_THROWS_AS(static_cast<void>(training_schedule(graph, Work{{kB, 0}, {kF, 0}})),
                    InternalError);
    CHECK_THROWS_AS(static_cast<void>(training_schedule(graph, Work{{kF, 0}, {kF, 0}})),
                    InternalError);
    CHECK_THROWS_AS(static_cast<void>(training_schedule(graph, Work{{kF, 0}, {kB, 0}, {kB, 0}})),
                    InternalError);
  }

  TEST_CASE("micro-batches that are in flight together have numbers of their own") {
    const TrainingGraph graph = one_of_each();
    const auto numbers = [&](const std::vector<ScheduledPart>& work) {
      const ProgramOrder order = program_order(graph, training_schedule(graph, work), 2);
      std::string text = std::to_string(order.in_flight) + ":";
      for (const Occurrence& o : order.at) {
        if (o.step == 1 && o.op == graph.part(kF).front()) text += std::to_string(o.instance);
      }
      return text;
    };
    CHECK(numbers(one_after_another(4)) == "1:0000");
    CHECK(numbers(gpipe(4)) == "4:0123");
    CHECK(numbers(one_forward_one_backward(2, 0, 5)) == "2:01010");
    // The last one is in flight until the optimizer has run.
    CHECK(program_order(graph, training_schedule(graph, gpipe(2)), 1).at.back().instance == 1);
  }

  TEST_CASE("parts exist from the start, those of further chunks once they are named") {
    TrainingGraph graph;
    CHECK(graph.parts.all().size() == kPartKinds);
    const TrainingGraph& constant = graph;
    CHECK(constant.part(kF, 2).empty());
    CHECK(graph.parts.all().size() == kPartKinds);
    graph.part(kF, 2).push_back(OperatorId(7U));
    CHECK(graph.parts.all().size() == kPartKinds + 1);
    CHECK(constant.part(kF, 2) == std::vector{OperatorId(7U)});
    CHECK(constant.part(kF).empty());
  }
}

}  // namespace tidemark::schedule_test
