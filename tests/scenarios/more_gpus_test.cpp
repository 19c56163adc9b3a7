// The terms of a peak that twice the GPUs share.
#include "scenarios/studies/more_gpus.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/studies/simulate_point.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::more_gpus_test {
namespace {

DetailedPoint point_of(int count, const std::string& policies, const std::string& training) {
  const std::string text = fmt::format(
      "{{model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: 512, sequence: 64}}, "
      "hardware: {{gpu: h100-sxm-80gb, count: {}, node: 64}}, training: {{{}, sequence: 64}}, "
      "allocator: ideal, policies: [{}]}}",
      count, training, policies);
  DetailedPoint point = simulate_in_detail(parse_document(text, "s.yaml"), 0, environment(), {});
  REQUIRE_MESSAGE(point.result.status == PointStatus::kFits, point.result.error);
  return point;
}
std::optional<MoreGpus> more_of(int count, const std::string& policies,
                                const std::string& training = "micro_batch: 1") {
  return on_twice_the_gpus(point_of(count, policies, training), environment());
}

// Returns the term of a role; nothing where it does not differ.
std::optional<SharedTerm> term_of(const std::optional<MoreGpus>& more, Role role) {
  REQUIRE(more.has_value());
  for (const SharedTerm& term : more->terms) {
    if (term.role == role) return term;
  }
  return std::nullopt;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("what a policy shares among data ranks halves on twice the GPUs") {
    struct Case {
      const char* policies;
      bool parameters;
      bool gradients;
      bool states;
    };
    for (const Case& c :
         {Case{"zero: {stage: 1, reduce_bucket: 1000}", false, false, true},
          Case{"zero: {stage: 3, reduce_bucket: 1000, persistent_below: 0}", true, true, true},
          Case{"fsdp: {}", true, true, true}, Case{"fsdp: {shard: 2}", false, false, false},
          Case{"data_parallel: {}", false, false, false}}) {
      CAPTURE(c.policies);
      const auto more = more_of(4, c.policies);
      REQUIRE(more.has_value());
      CHECK(more->count == 8);
      const auto halves = [&](Role role, bool expected) {
        CAPTURE(name_of(role));
        const std::optional<SharedTerm> term = term_of(more, role);
        CHECK(term.has_value() == expected);
        if (!term) return;
        CHECK(static_cast<double>(2 * term->there.count) ==
              doctest::Approx(static_cast<double>(term->here.count)).epsilon(0.02));
      };
      halves(Role::kParameter, c.parameters);
      halves(Role::kOptimizerState, c.states);
      // At the peak of FSDP the sharded gradients may not be there yet.
      if (!c.gradients) halves(Role::kGradient, false);
    }
  }

  TEST_CASE("terms that shrink and grow add up to the change of the peak") {
    bool grows = false;
    for (const char* policies :
         {"zero: {stage: 1, reduce_bucket: 1000}", "fsdp: {}", "fsdp: {shard: 2}",
          "data_parallel: {}", "pipeline: {size: 4}, zero: {stage: 1}"}) {
      CAPTURE(policies);
      const std::string training = "micro_batch: 1, accumulate: 4";
      const DetailedPoint point = point_of(4, policies, training);
      const auto more = on_twice_the_gpus(point, environment());
      REQUIRE(more.has_value());
      CHECK(more->peak == point_of(8, policies, training).result.run.live.bytes);
      Bytes change;
      for (const SharedTerm& term : more->terms) {
        change += term.there - term.here;
        grows = grows || term.there > term.here;
      }
      CHECK(point.result.run.live.bytes + change == more->peak);
      Bytes there;
      for (const SharedTerm& term : more->terms)
        there += term.there;
      for (const SharedTerm& term : more->unchanged) {
        CHECK(term.here > Bytes(0));
        CHECK(term.here == term.there);
        there += term.there;
      }
      CHECK(there == more->peak);
    }
    // One data rank has no buckets to reduce, two have.
    CHECK(grows);
  }

  TEST_CASE("nothing is said of one GPU, nor of a step that twice as many cannot run") {
    CHECK_FALSE(more_of(1, "").has_value());
    CHECK_FALSE(more_of(4, "fsdp: {}", "micro_batch: 1, global_batch: 4").has_value());
    CHECK(more_gpus_json(std::nullopt).is_null());
    const auto json = more_gpus_json(more_of(2, "zero: {stage: 1, reduce_bucket: 1000}"));
    CHECK(json.at("count") == 4);
    CHECK(json.at("terms").at(0).at("role") == "optimizer_state");
    CHECK(json.at("unchanged").at(0).at("role") == "parameter");
  }
}

}  // namespace tidemark::more_gpus_test
