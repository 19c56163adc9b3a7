// Two peaks side by side: every table adds up to the totals' difference.
#include "scenarios/studies/peak_difference.hpp"

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plots/torch_snapshot.hpp"
#include "scenarios/results/recorded_peak.hpp"
#include "sim/step/run_compiled.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::peak_difference_test {

namespace {

DetailedPoint point_of(const std::string& training, const std::string& more = "",
                       const std::string& hardware = "h100-sxm-80gb") {
  DetailedPoint point{.scenario = decode(fmt::format(
                          "{{version: 1, model: {{preset: gpt, layers: 3, width: 256, heads: 4, "
                          "vocab: 4096, sequence: 256}}, hardware: {}, training: "
                          "{{sequence: 256, {}}}{}}}",
                          hardware, training, more))};
  point.detail.model = std::make_shared<const TrainedModel>(build_training(point.scenario));
  point.result = simulate(
      point.scenario, *point.detail.model,
      {.smallest_capacity = false, .largest_tensors = static_cast<std::size_t>(-1)}, &point.detail);
  return point;
}

template <class Term>
auto sum_of(const std::vector<Term>& terms) {
  std::pair<decltype(Term::a), decltype(Term::b)> sum{};
  for (const Term& term : terms) {
    sum.first += term.a;
    sum.second += term.b;
  }
  return sum;
}

const std::vector<DetailedPoint>& points() {
  static const std::vector<DetailedPoint> kPoints = [] {
    std::vector<DetailedPoint> list;
    list.push_back(point_of("micro_batch: 2"));
    list.push_back(point_of("micro_batch: 8"));
    list.push_back(point_of("micro_batch: 2, precision: fp32, optimizer: sgd"));
    list.push_back(point_of("micro_batch: 8", ", policies: [checkpoint_every: {period: 1}]"));
    list.push_back(point_of("micro_batch: 8", ", policies: [offload_activations: {}]"));
    list.push_back(point_of("micro_batch: 4, accumulate: 2", ", allocator: ideal"));
    list.push_back(point_of("micro_batch: 64", "", "{gpu: v100-sxm-16gb, hbm: {capacity: 1GiB}}"));
    return list;
  }();
  return kPoints;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("the terms of two peaks add up to both totals, whatever the two are") {
    for (const DetailedPoint& a : points()) {
      for (const DetailedPoint& b : points()) {
        const PeakDifference d = peak_difference(a, b);
        const std::pair live(a.result.run.live.bytes, b.result.run.live.bytes);
        CHECK(std::pair(d.live.a, d.live.b) == live);
        CHECK(sum_of(d.roles) == live);
        CHECK(sum_of(d.layers) == live);
        CHECK(sum_of(d.tensors) == live);
        CHECK(sum_of(d.device) == std::pair(d.device_used.a, d.device_used.b));
        CHECK(d.device_used.a == a.result.context + a.result.run.reserved.bytes);
        CHECK(sum_of(d.phase_times) == std::pair(d.step.a, d.step.b));
        CHECK(d.step.b == b.result.run.step);
      }
    }
  }

  TEST_CASE("a point does not differ from itself, and sides trade places") {
    for (const DetailedPoint& a : points()) {
      for (const TensorPair& pair : peak_difference(a, a).tensors) {
        CHECK(pair.difference() == Bytes(0));
        CHECK(pair.count_a == pair.count_b);
      }
      const PeakDifference there = peak_difference(a, points().front());
      const PeakDifference back = peak_difference(points().front(), a);
      CHECK(there.live.difference() == -back.live.difference());
      CHECK(there.tensors.size() == back.tensors.size());
      CHECK(there.tensors.front().difference() == -back.tensors.front().difference());
    }
  }
}

TEST_SUITE("golden") {
  TEST_CASE("four times the samples is four times the logits") {
    const PeakDifference d = peak_difference(points()[0], points()[1]);
    bool seen = false;
    for (const TensorPair& pair : d.tensors) {
      if (pair.tensor.tensor != "log_softmax") continue;
      seen = true;
      CHECK(pair.a ==
            Bytes(std::int64_t{2} * 256 * 4096 * 4));  // batch x sequence x vocabulary x fp32
      CHECK(pair.b == 4 * pair.a);
      CHECK(pair.count_a == 1);
    }
    CHECK(seen);
  }

  TEST_CASE("a run and its own snapshot are the same in every allocation") {
    for (const std::size_t which : {0U, 3U, 4U, 6U}) {
      const DetailedPoint& point = points()[which];
      Scratch scratch;
      const auto recorder = run_recorded(point.scenario, point.detail.compiled, scratch);
      const RecordedPeak simulated =
          peak_of_recording(*point.detail.model, point.detail.compiled, *recorder);
      const std::string path = (std::filesystem::temp_directory_path() /
                                fmt::format("tidemark-difference-{}.pickle", getpid()))
                                   .string();
      {
        std::ofstream out(path, std::ios::binary);
        write_torch_snapshot(out, point.detail.model->training, point.detail.compiled.order,
                             point.detail.compiled.program,
                             memory_timeline(point.detail.compiled.program, scratch), *recorder);
      }
      const RecordedPeak recorded = peak_of_snapshot(path, std::nullopt);
      std::filesystem::remove(path);
      const AllocationMatch match = match_allocations(simulated, recorded);
      CHECK(match.pairs.size() == simulated.live.size());
      // The stacks of the snapshot name every tensor; cuBLAS's workspace belongs to no layer.
      std::size_t unnamed = 0;
      for (const AllocationPair& pair : match.pairs) {
        if (pair.how == MatchedBy::kTensor) {
          CHECK(simulated.live[pair.a].names == recorded.live[pair.b].names);
        } else {
          ++unnamed;
          CHECK(simulated.live[pair.a].label == "cuBLAS workspace");
        }
      }
      CHECK(unnamed <= 1);
      CHECK(match.only_a.empty());
      CHECK(match.only_b.empty());
      CHECK(simulated.bytes == recorded.bytes);
      CHECK(simulated.reserved == recorded.reserved);
      CHECK(simulated.most_reserved == recorded.most_reserved);
      CHECK(simulated.out_of_memory == recorded.out_of_memory);
      CHECK(simulated.out_of_memory == (which == 6));
      if (which != 6) CHECK(simulated.most_reserved == point.result.run.most_reserved);
    }
  }
}

}  // namespace tidemark::peak_difference_test
