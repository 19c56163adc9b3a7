// What a step loses against the kernels that are timed alone: multiprocessors and bandwidth to
// collectives, clock to the power limit, and the wait for the slowest rank.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::sustained_step_test {
namespace {

// `hardware`: further keys of it.
PointResult simulated(int count, const std::string& hardware, const std::string& policies,
                      int layers = 8) {
  const std::string text = fmt::format(
      "{{model: {{preset: gpt, layers: {}, width: 2048, heads: 16, vocab: 4096, sequence: 1024}}, "
      "hardware: {{gpu: a100-sxm-80gb, count: {}, hbm: {{capacity: 8TiB}}{}}}, training: "
      "{{micro_batch: 8, precision: fp32, host: cuda_graphs}}, allocator: ideal, policies: [{}]}}",
      layers, count, hardware, policies);
  const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
  return point;
}

constexpr const char* kFsdp = "fsdp: {param_dtype: bf16, reduce_dtype: fp32}";

Duration busy(const PointResult& point) {
  return point.run.busy[static_cast<std::size_t>(Stream::kCompute)];
}

Duration communicates(const PointResult& point) {
  Duration sum{};
  for (const Communication& used : point.communication)
    sum += used.busy;
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels beside a collective have fewer multiprocessors") {
    const auto with = [](const char* channels) {
      return simulated(8, fmt::format(", links: {{collective: {{channels: {}}}}}", channels),
                       kFsdp);
    };
    const PointResult none = with("null");
    const PointResult some = with("16");
    const PointResult more = with("32");
    // Collectives themselves take as long.
    CHECK(communicates(some) == communicates(none));
    CHECK(busy(some) > busy(none));
    CHECK(busy(more) > busy(some));
    // 16 of 108 are taken from arithmetic, at most while a collective runs; two run at the same
    // time in backward.
    const double taken = 16.0 / 108;
    const double most = taken / (1 - 2 * taken) * 2;
    const auto longer = static_cast<double>((busy(some) - busy(none)).count());
    CHECK(longer <= most * static_cast<double>(communicates(none).count()));
    // Nothing communicates on one GPU.
    CHECK(busy(simulated(1, ", links: {collective: {channels: 32}}", "")) ==
          busy(simulated(1, ", links: {collective: {channels: null}}", "")));
  }

  TEST_CASE("products run at the rate that the board sustains, and at that of the slowest rank") {
    const auto step = [](int count, const char* sustained, const char* spread) {
      return static_cast<double>(
          busy(simulated(count,
                         fmt::format(", efficiency: {{matmul: {{sustained: {}, spread: {}}}}}, "
                                     "links: {{collective: {{channels: null}}}}",
                                     sustained, spread),
                         kFsdp))
              .count());
    };
    // Compute is products and attention for the most part.
    const double alone = step(8, "null", "null");
    const double half = step(8, "0.5", "null");
    CHECK(half > 1.4 * alone);
    CHECK(half < 2 * alone);
    // The slowest of 8 is 1.4 standard deviations slower, that of 64 is 2.3.
    const double eight = step(8, "null", "0.1") / alone - 1;
    const double many = step(64, "null", "0.1") / step(64, "null", "null") - 1;
    CHECK(eight > 0.05);
    CHECK(eight < 0.17);
    CHECK(many > 1.5 * eight);
    CHECK(step(8, "0.5", "0") == half);
  }
}

}  // namespace tidemark::sustained_step_test
