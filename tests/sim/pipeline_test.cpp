// Pipelines of a uniform chain, from schedules to the run of all ranks: what is in flight and when
// the step ends. Huang et al. 2019 (GPipe), Narayanan et al. 2019 and 2021 (1F1B).
//
//   p = 2, m = 3, f = 1, b = 2, 1F1B        ends at (m + p - 1)(f + b) = 12
//   stage 0   F0 F1 .. B0 B0 F2 .. B1 B1 .. B2 B2
//   stage 1   .. F0 B0 B0 F1 B1 B1 F2 B2 B2 .. ..
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/analysis/schedule.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"

namespace tidemark::pipeline_test {
namespace {

constexpr Duration kForwardTime{1000};
constexpr Duration kBackwardTime{2300};
constexpr Bytes kStash{1 << 20};  // bytes that a micro-batch keeps on a stage; all else is one byte

class Stage {
 public:
  Stage(int stages, int stage) : stages_(stages), stage_(stage) {
    build_forward();
    build_backward();
    check_invariants(graph_);
  }

  void schedule(const std::vector<ScheduledPart>& work) {
    order_ = program_order(graph_, training_schedule(graph_, work), 1);
    const Liveness live = analyze_liveness(graph_, order_);
    program_ = lower(graph_, order_, live, IdVector<GapId, Decision>(live.gaps.size(), Decision{}));
    for (const Operator& op : graph_.operators) {
      costs_.device.push_back(op.work.fixed);
      costs_.dispatch.push_back(Duration(0));
    }
    allocator_.reserve(program_.allocations.size());
    scratch_.prepare(program_, false);
  }

  [[nodiscard]] std::vector<std::string> problems() const {
    return verify(graph_, order_, order_, program_);
  }
  [[nodiscard]] Rank<IdealAllocator> rank() {
    return {.program = &program_,
            .costs = &costs_,
            .allocator = &allocator_,
            .scratch = &scratch_,
            .options = {.host_capacity = kGiB}};
  }

 private:
  StorageId storage(std::string name, Bytes bytes) {
    return graph_.storages.push_back(
        {.bytes = bytes, .role = Role::kSavedActivation, .name = std::move(name)});
  }
  void add(PartKind part, std::string name, Work work, const std::vector<Touch>& touches) {
    Operator op;
    op.name = std::move(name);
    op.phase = part == PartKind::kForward ? Phase::kForward : Phase::kBackward;
    op.work = work;
    graph_.part(part).push_back(graph_.add_operator(std::move(op), touches));
  }
  void compute(PartKind part, Duration time, const std::vector<Touch>& touches) {
    Work work;
    work.op_class = OperatorClass::kFixed;
    work.fixed = time;
    add(part, "compute", work, touches);
  }
  // Transfers are free of cost. Activations go one way and gradients the other.
  void transfer(PartKind part, CollectiveKind kind, int peer, StorageId value) {
    Work work;
    work.op_class = OperatorClass::kCollective;
    work.collective = {
        .kind = kind, .group = MeshDimension::kPipeline, .bytes = Bytes(1), .peer = peer};
    const bool receives = kind == CollectiveKind::kReceive;
    add(part, receives ? "receive" : "send", work,
        {{value, receives ? Access::kCreate : Access::kRead}});
  }

  void build_forward() {
    constexpr PartKind kPart = PartKind::kForward;
    stash_ = storage("stash", kStash);
    std::vector<Touch> touches{{stash_, Access::kCreate}};
    if (stage_ > 0) {
      const StorageId x = storage("x", Bytes(1));
      transfer(kPart, CollectiveKind::kReceive, stage_ - 1, x);
      touches.push_back({x, Access::kRead});
    }
    const bool last = stage_ + 1 == stages_;
    const StorageId y = last ? StorageId() : storage("y", Bytes(1));
    if (!last) touches.push_back({y, Access::kCreate});
    compute(kPart, kForwardTime, touches);
    if (!last) transfer(kPart, CollectiveKind::kSend, stage_ + 1, y);
  }

  void build_backward() {
    constexpr PartKind kPart = PartKind::kBackward;
    std::vector<Touch> touches{{stash_, Access::kRead}};
    if (stage_ + 1 < stages_) {
      const StorageId dy = storage("dy", Bytes(1));
      transfer(kPart, CollectiveKind::kReceive, stage_ + 1, dy);
      touches.push_back({dy, Access::kRead});
    }
    const StorageId dx = stage_ == 0 ? StorageId() : storage("dx", Bytes(1));
    if (stage_ > 0) touches.push_back({dx, Access::kCreate});
    compute(kPart, kBackwardTime, touches);
    if (stage_ > 0) transfer(kPart, CollectiveKind::kSend, stage_ - 1, dx);
  }

  int stages_;
  int stage_;
  TrainingGraph graph_;
  StorageId stash_;
  ProgramOrder order_;
  StepProgram program_;
  CostTable costs_;
  IdealAllocator allocator_{kGiB};
  Scratch scratch_;
};

struct Outcome {
  Duration end{};
  std::vector<std::int64_t> in_flight;  // by stage
};

template <class Work>
Outcome run_pipeline(int stages, const Work& work_of) {
  std::vector<Stage> pipeline;
  pipeline.reserve(static_cast<std::size_t>(stages));
  std::vector<Rank<IdealAllocator>> ranks;
  for (int s = 0; s < stages; ++s) {
    pipeline.emplace_back(stages, s);
    pipeline.back().schedule(work_of(s));
    REQUIRE(pipeline.back().problems().empty());
    ranks.push_back(pipeline.back().rank());
  }
  Outcome outcome;
  for (const RunResult& result : run(std::span<const Rank<IdealAllocator>>(ranks))) {
    REQUIRE(result.status == RunStatus::kCompleted);
    outcome.end = std::max(outcome.end, result.total);
    outcome.in_flight.push_back(result.live.bytes.count / kStash.count);
  }
  return outcome;
}

}  // namespace

TEST_SUITE("paper") {
  TEST_CASE("GPipe keeps m micro-batches on every stage and ends at (m + p - 1)(f + b)") {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 16; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        const Outcome outcome = run_pipeline(p, [&](int) { return gpipe(m); });
        CHECK(outcome.end == (m + p - 1) * (kForwardTime + kBackwardTime));
        for (std::int64_t in_flight : outcome.in_flight)
          CHECK(in_flight == m);
      }
    }
  }

  TEST_CASE("1F1B keeps min(m, p - s) micro-batches on stage s and ends at the same time") {
    for (int p = 1; p <= 8; ++p) {
      for (int m = 1; m <= 16; ++m) {
        CAPTURE(p);
        CAPTURE(m);
        const Outcome outcome =
            run_pipeline(p, [&](int s) { return one_forward_one_backward(p, s, m); });
        CHECK(outcome.end == (m + p - 1) * (kForwardTime + kBackwardTime));
        for (int s = 0; s < p; ++s)
          CHECK(outcome.in_flight[static_cast<std::size_t>(s)] == std::min(m, p - s));
      }
    }
  }

  TEST_CASE("a pipeline of one stage is the plain step") {
    const Outcome pipeline = run_pipeline(1, [](int) { return one_forward_one_backward(1, 0, 5); });
    const Outcome plain = run_pipeline(1, [](int) { return one_after_another(5); });
    CHECK(pipeline.end == plain.end);
    CHECK(pipeline.in_flight == plain.in_flight);
  }
}

}  // namespace tidemark::pipeline_test
