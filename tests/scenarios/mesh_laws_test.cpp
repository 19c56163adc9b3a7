// Random decoders on random meshes: what each rank keeps, by formulas of parallel training, and
// laws that hold for every mesh.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::mesh_laws_test {
namespace {

constexpr std::int64_t kLayers = 4;

// A decoder whose attention has no biases and whose feed-forward layers have gates, on a mesh.
struct Drawn {
  std::int64_t width = 0;
  std::int64_t kv_width = 0;
  std::int64_t kv_heads = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t experts = 0;  // 0: dense feed-forward layers
  int tensor = 1;
  int stages = 1;
  int data = 1;
  int expert_ranks = 1;
  std::string sharding;  // "" where nothing is sharded
  std::string precision;
  std::vector<std::string> policies;

  [[nodiscard]] std::string text(int more_data = 1, const std::string& network = "") const {
    const std::string model = fmt::format(
        "preset: {}, layers: {}, width: {}, heads: {}, kv_heads: {}, ffn: {}, vocab: {}{}",
        experts > 0 ? "mixtral-8x7b" : "llama", kLayers, width, heads, kv_heads, ffn, vocab,
        experts > 0 ? fmt::format(", experts: {}", experts) : "");
    return fmt::format(
        "model: {{{}}}\nhardware: {{gpu: h100-sxm-80gb, count: {}{}}}\n"
        "training: {{micro_batch: 1, sequence: 32, accumulate: 4, precision: {}}}\n"
        "policies: [{}]\n",
        model, tensor * stages * data * more_data, network, precision, fmt::join(policies, ", "));
  }
};

Drawn draw(std::mt19937& random) {
  const auto pick = [&](auto... values) {
    const std::vector all{values...};
    return all[random() % all.size()];
  };
  Drawn d;
  d.kv_heads = pick(2, 4);
  d.heads = d.kv_heads * pick(1, 2, 4);
  const std::int64_t head = pick(16, 32);
  d.width = d.heads * head;
  d.kv_width = d.kv_heads * head;
  d.ffn = d.width * pick(2, 3);
  d.vocab = pick(512, 1000, 1537);
  d.experts = pick(0, 0, 4, 8);
  d.tensor = pick(1, 1, 2);
  d.stages = pick(1, 1, 2, 4);
  d.data = pick(1, 2, 4);
  if (d.experts > 0) d.expert_ranks = std::min(pick(1, 2, 4), d.data);
  if (d.data > 1) {
    d.sharding = pick(std::string(), std::string("fsdp: {}"), std::string("zero: {stage: 1}"),
                      std::string("zero: {stage: 2}"), std::string("distributed_optimizer: {}"));
  }
  d.precision = d.sharding.starts_with("fsdp") ? "fp32" : "bf16_mixed";
  if (d.tensor > 1) {
    d.policies.push_back(
        fmt::format("tensor_parallel: {{size: 2, sequence: {}}}", random() % 2 == 0));
  }
  if (d.stages > 1) {
    d.policies.push_back(fmt::format("pipeline: {{size: {}, schedule: {}}}", d.stages,
                                     random() % 2 == 0 ? "1f1b" : "gpipe"));
  }
  if (d.expert_ranks > 1)
    d.policies.push_back(fmt::format("expert_parallel: {{size: {}}}", d.expert_ranks));
  if (!d.sharding.empty()) d.policies.push_back(d.sharding);
  std::shuffle(d.policies.begin(), d.policies.end(), random);
  return d;
}

// Parameters of one stage on one rank, before sharding over data ranks.
struct Kept {
  std::int64_t dense = 0;
  std::int64_t experts = 0;
};

// Megatron-LM's division: columns and rows of the products over the tensor ranks, the vocabulary
// padded to a multiple of 128 per rank; norms and routers whole.
Kept kept_by(const Drawn& d, int stage) {
  const std::int64_t t = d.tensor;
  const std::int64_t layers = kLayers / d.stages;
  const std::int64_t padded = t == 1 ? d.vocab : (d.vocab + 128 * t - 1) / (128 * t) * (128 * t);
  const std::int64_t attention = (2 * d.width * d.width + 2 * d.width * d.kv_width) / t;
  const std::int64_t feed_forward = 3 * d.width * d.ffn / t;
  Kept kept;
  kept.dense = layers * (attention + 2 * d.width);
  if (d.experts > 0) {
    kept.dense += layers * d.width * d.experts;
    kept.experts = layers * feed_forward * d.experts / d.expert_ranks;
  } else {
    kept.dense += layers * feed_forward;
  }
  if (stage == 0) kept.dense += padded / t * d.width;
  if (stage == d.stages - 1) kept.dense += padded / t * d.width + d.width;
  return kept;
}

// The whole model's parameters, whatever divides them.
std::int64_t parameters_of(Drawn d) {
  d.tensor = 1;
  d.stages = 1;
  d.expert_ranks = 1;
  const Kept kept = kept_by(d, 0);
  return kept.dense + kept.experts;
}

// A rank's share under sharding: dense parameters over all data ranks, experts over those that have
// the same ones.
double share_of(const Drawn& d, const Kept& kept, bool sharded) {
  if (!sharded) return static_cast<double>(kept.dense + kept.experts);
  return static_cast<double>(kept.dense) / d.data +
         static_cast<double>(kept.experts) * d.expert_ranks / d.data;
}

void check_rank(const Drawn& d, int stage, const PointResult& rank) {
  CAPTURE(stage);
  const Kept kept = kept_by(d, stage);
  const bool fsdp = d.sharding.starts_with("fsdp");
  const double width = fsdp ? 4 : 2;   // of a parameter
  const double state = fsdp ? 8 : 12;  // fp32 master, exp_avg and exp_avg_sq; FSDP's are fp32
  const double padding = 0.03;         // of shards to rows or to the alignment of buckets
  const double parameters = share_of(d, kept, fsdp) * width;
  const bool exact = d.sharding.empty() || d.sharding.starts_with("zero");
  CHECK(std::abs(static_cast<double>(rank.parameters.count) - parameters) <=
        (exact ? 0.0 : padding * parameters + 4096));
  const double states = share_of(d, kept, !d.sharding.empty()) * state;
  CHECK(std::abs(static_cast<double>(rank.optimizer_state.count) - states) <=
        (d.sharding.empty() ? 0.0 : padding * states + 8192));
}

PointResult result_of(const std::string& text) {
  CAPTURE(text);
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  PointResult result = simulate(scenario, model, {.smallest_capacity = false});
  REQUIRE(result.status == PointStatus::kFits);
  return result;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("each rank of a random mesh keeps its share of parameters and states") {
    std::mt19937 random(41);
    const int trials = std::getenv("TIDEMARK_LONG_TESTS") != nullptr ? 400 : 40;
    for (int trial = 0; trial < trials; ++trial) {
      const Drawn d = draw(random);
      const std::string text = d.text();
      CAPTURE(text);
      const PointResult point = result_of(text);
      CHECK(point.parameter_count.count == parameters_of(d));
      if (point.stages.empty()) check_rank(d, 0, point);
      for (const StageResult& stage : point.stages)
        check_rank(d, stage.stage, stage.point);
      // Nothing is recomputed.
      CHECK(point.hardware_flops_utilization / point.model_flops_utilization ==
            doctest::Approx(1).epsilon(1e-9));
    }
  }

  TEST_CASE(
      "more data ranks keep no more, groups of one change nothing, faster links slow nothing") {
    std::mt19937 random(43);
    const int trials = std::getenv("TIDEMARK_LONG_TESTS") != nullptr ? 200 : 15;
    for (int trial = 0; trial < trials; ++trial) {
      Drawn d = draw(random);
      const std::string text = d.text();
      CAPTURE(text);
      const PointResult point = result_of(text);
      if (!d.sharding.empty()) {
        const PointResult twice = result_of(d.text(2));
        // Shards are padded to whole rows, buckets to their alignment.
        CHECK(twice.model_bytes().count <= point.model_bytes().count + 65536);
      }
      std::int64_t before = 0;
      for (const char* const bandwidth : {"50GB/s", "200GB/s", "800GB/s"}) {
        const PointResult linked = result_of(d.text(
            1, fmt::format(", node: 1, network: {{bandwidth: {}, latency: 5us}}", bandwidth)));
        const std::int64_t step = linked.run.step.count();
        if (before > 0) CHECK(step <= before);
        before = step;
      }
      if (d.tensor == 1) d.policies.emplace_back("tensor_parallel: {size: 1}");
      if (d.stages == 1) d.policies.emplace_back("pipeline: {size: 1}");
      if (d.expert_ranks == 1 && d.experts > 0)
        d.policies.emplace_back("expert_parallel: {size: 1}");
      d.policies.emplace_back("context_parallel: {size: 1}");
      const PointResult same = result_of(d.text());
      CHECK(same.run.live.bytes == point.run.live.bytes);
      CHECK(same.run.step == point.run.step);
    }
  }
}

}  // namespace tidemark::mesh_laws_test
