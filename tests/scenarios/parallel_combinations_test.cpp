// Sharding policies, pipelines, divided layers, experts and optimizers off the device in generated
// combinations: what holds for all of them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::parallel_combinations_test {
namespace {

constexpr int kData = 4;

struct Combination {
  std::string_view model;
  std::string_view sharding;
  std::string_view pipeline;
  std::string_view tensor;
  std::string_view experts;
  std::string_view offload;
  std::string_view kernels = {};
};

// A GPT ties its embedding to its head; a mixture has experts.
constexpr std::string_view kModels[] = {
    "preset: gpt, layers: 4, width: 64, heads: 4, vocab: 512, sequence: 32",
    "preset: llama-3-8b, layers: 4, width: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 512",
    "preset: mixtral-8x7b, layers: 4, width: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 512"};
constexpr std::string_view kShardings[] = {
    "",
    "zero: {stage: 1}",
    "zero: {stage: 2, overlap: true, reduce_bucket: 20000}",
    "zero: {stage: 3, persistent_below: 100, sub_group: 20000}",
    "fsdp: {}",
    "fsdp: {version: 1, units: whole}",
    "fsdp: {shard: 2, reduce_dtype: fp32}",
    "distributed_optimizer: {}",
    "distributed_optimizer: {overlap_grad_reduce: true, bucket: 20000}"};
constexpr std::string_view kPipelines[] = {
    "", "pipeline: {size: 2}", "pipeline: {size: 2, schedule: interleaved}",
    "pipeline: {size: 2, schedule: zb-h1}", "pipeline: {size: 2, schedule: zbv}"};
constexpr std::string_view kTensors[] = {"", "tensor_parallel: {size: 2}",
                                         "tensor_parallel: {size: 2, sequence: true}"};
constexpr std::string_view kExperts[] = {"", "expert_parallel: {size: 2}",
                                         "expert_parallel: {size: 4}"};
constexpr std::string_view kOffloads[] = {"", "offload_optimizer: {}",
                                          "offload_optimizer: {ratio: 0.5, overlap: false}"};

template <std::size_t n>
std::string_view any_of(const std::string_view (&words)[n], std::mt19937& random) {
  return words[random() % n];
}

int size_of(std::string_view policy) {
  const std::size_t at = policy.find("size: ");
  return at == std::string_view::npos ? 1 : policy[at + 6] - '0';
}

std::string text_of(const Combination& c) {
  std::string policies;
  for (const std::string_view policy :
       {c.experts, c.tensor, c.pipeline, c.sharding, c.offload, c.kernels}) {
    if (policy.empty()) continue;
    policies += fmt::format("{}{}", policies.empty() ? "" : ", ", policy);
  }
  return fmt::format(
      "model: {{{}}}\nhardware: {{gpu: h100-sxm-80gb, count: {}}}\n"
      "training: {{micro_batch: 1, sequence: 32, accumulate: 4}}\npolicies: [{}]\n",
      c.model, kData * size_of(c.tensor) * size_of(c.pipeline), policies);
}

// The elements that a rank updates times the ranks that share them, and those of the parameters.
struct Shared {
  std::int64_t updated = 0;
  std::int64_t whole = 0;
  std::int64_t slack = 0;  // rows of parameters and alignment that ranks are padded by
};

bool is_expert(const TrainingGraph& graph, const UpdatedTensor& update) {
  if (update.parameter.valid()) return graph.parameters[update.parameter].of_expert;
  return update.name.find("experts") != std::string::npos;
}

// All ranks of a group together update each parameter of a stage once: experts in groups of those
// ranks that have the same ones.
void check_updates(const TrainingGraph& graph, const Combination& c) {
  const bool shards = !c.sharding.empty();
  const int group = c.sharding.find("shard: 2") != std::string_view::npos ? 2 : kData;
  const int dense = shards ? group : 1;
  const int expert = shards ? std::max(group / size_of(c.experts), 1) : 1;
  std::array<Shared, 2> shared;
  for (const ParameterId id : graph.trained) {
    const Parameter& parameter = graph.parameters[id];
    const int ranks = parameter.of_expert ? expert : dense;
    Shared& of = shared[parameter.of_expert ? 1 : 0];
    of.whole += parameter.elements.count;
    of.slack += ranks * (parameter.elements.count / std::max<std::int64_t>(parameter.shape[0], 1));
    of.slack += std::int64_t{256} * ranks;
  }
  for (const UpdatedTensor& update : graph.updates) {
    const bool experts = is_expert(graph, update);
    shared[experts ? 1 : 0].updated += update.elements.count * (experts ? expert : dense);
  }
  for (const Shared& of : shared) {
    CHECK(of.updated >= of.whole - of.slack);
    CHECK(of.updated <= of.whole + of.slack);
  }
}

// Each gathered storage is a parameter and no more than the padding of its shards, and a rank has
// one copy of it.
void check_gathered(const TrainingGraph& graph, const PointResult& point) {
  Bytes most;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kGatheredParameter) most += storage.bytes;
  }
  for (const Parameter& parameter : graph.parameters) {
    const Storage& storage = graph.storages[parameter.storage];
    if (storage.role != Role::kGatheredParameter) continue;
    const std::int64_t row =
        parameter.elements.count / std::max<std::int64_t>(parameter.shape[0], 1);
    CHECK(storage.elements.count < parameter.elements.count + kData * row);
  }
  CHECK(point.peak.by_role[static_cast<std::size_t>(Role::kGatheredParameter)] <= most);
}

void check(const Combination& c) {
  const std::string text = text_of(c);
  CAPTURE(text);
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  const PointResult point = simulate(scenario, model, {.smallest_capacity = false});
  REQUIRE(point.status == PointStatus::kFits);
  if (model.stages.empty()) {
    check_updates(model.training, c);
    check_gathered(model.training, point);
  }
  for (std::size_t s = 0; s < model.stages.size(); ++s) {
    check_updates(model.stages[s]->training, c);
    check_gathered(model.stages[s]->training, point.stages[s].point);
    CHECK(point.stages[s].point.run.step == point.run.step);
  }
}

// Policies by what they do, of which a random list takes one each or none.
const std::vector<std::vector<std::string>> kKinds{
    {"data_parallel: {}", "data_parallel: {gradient_as_bucket_view: true}",
     "data_parallel: {find_unused: true, static_graph: true}", "fsdp: {}", "fsdp: {version: 1}",
     "fsdp: {reshard_after_forward: 2, param_dtype: bf16}", "fsdp: {reshard_after_forward: false}",
     "fsdp: {offload: host}", "fsdp: {shard: 2}", "zero: {stage: 1}", "zero: {stage: 2}",
     "zero: {stage: 3, persistent_below: 100, max_reuse_distance: 0}",
     "zero: {stage: 3, persistent_below: 0, zero_hpz_partition_size: 2}",
     "zero: {stage: 3, zero_hpz_partition_size: 2, offload: {optimizer: host, parameters: host}}",
     "distributed_optimizer: {overlap_grad_reduce: true}", "megatron_data_parallel"},
    {"tensor_parallel: {size: 2}", "tensor_parallel: {size: 2, sequence: true}"},
    {"pipeline: {size: 2}", "pipeline: {size: 2, schedule: gpipe}",
     "pipeline: {size: 2, schedule: zb-h1}"},
    {"context_parallel: {size: 2}", "context_parallel: {size: 2, kind: ulysses}"},
    {"checkpoint_every: {period: 1}", "checkpoint: {every_other: 2, reentrant: false}",
     "selective: {recompute: [attention]}", "megatron_selective", "superneurons", "keep_all"},
    {"offload_activations: {}", "offload_optimizer: {}", "capuchin: {}", "vdnn: {layers: all}",
     "te_offload: {layers: 2}", "hybrid: {}", "eviction: {heuristic: lru}",
     "compress_activations: {bits: 4}", "compress_gradients: {kind: bf16}"}};

struct Ran {
  std::string error;  // why it is refused; empty where it runs
  std::int64_t peak = 0;
  std::int64_t step = 0;
  std::int64_t contested = 0;  // decisions that another policy has taken before
  friend bool operator==(const Ran&, const Ran&) = default;
};

Ran run_with(const std::vector<std::string>& policies, const std::string& training, int count) {
  const std::string text = fmt::format(
      "model: {{{}}}\nhardware: {{gpu: h100-sxm-80gb, count: {}, node: 4, network: "
      "infiniband-400}}\ntraining: {{sequence: 32, {}}}\npolicies: [{}]\n",
      kModels[0], count, training, fmt::join(policies, ", "));
  CAPTURE(text);
  try {
    const Scenario scenario = decode(text);
    const TrainedModel model = build_training(scenario);
    const PointResult point = simulate(scenario, model, {.smallest_capacity = false});
    Ran ran{.peak = point.run.live.bytes.count, .step = point.run.step.count()};
    for (const PolicyOutcome& outcome : point.policies)
      ran.contested += outcome.contested;
    return ran;
  } catch (const UserError& error) {
    return {.error = error.what()};
  }
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("parallel policies with recomputation, movement and precisions, in either order") {
    std::mt19937 random(29);
    const auto pick = [&](const std::vector<std::string>& words) {
      return words[random() % words.size()];
    };
    int ran = 0;
    for (int trial = 0; trial < 80; ++trial) {
      std::vector<std::string> policies;
      for (const std::vector<std::string>& kind : kKinds) {
        if (random() % 2 == 0) policies.push_back(pick(kind));
      }
      const std::string training =
          fmt::format("micro_batch: 2, accumulate: {}, precision: {}{}", pick({"1", "2", "4"}),
                      pick({"bf16_mixed", "fp32", "bf16_autocast", "fp16_mixed", "fp8_mixed"}),
                      pick({"", "", ", clip_grad_norm: 1.0", ", zero_grad: zero", ", steps: 1"}));
      const int count = 1 << (1 + random() % 4);
      const Ran first = run_with(policies, training, count);
      std::reverse(policies.begin(), policies.end());
      const Ran last = run_with(policies, training, count);
      CAPTURE(fmt::format("{}", fmt::join(policies, ", ")));
      CAPTURE(training);
      CAPTURE(first.error);
      CAPTURE(last.error);
      CHECK(first.error.empty() == last.error.empty());
      if (!first.error.empty()) continue;
      ++ran;
      if (first.contested + last.contested > 0) continue;
      CHECK(first.peak == last.peak);
      CHECK(first.step == last.step);
    }
    CHECK(ran > 30);
  }

  TEST_CASE("parallel policies combine: nothing is lost, doubled or out of step") {
    std::mt19937 random(17);
    for (const std::string_view sharding : kShardings) {
      for (const std::string_view pipeline : kPipelines) {
        Combination c{.model = any_of(kModels, random),
                      .sharding = sharding,
                      .pipeline = pipeline,
                      .tensor = any_of(kTensors, random),
                      .experts = "",
                      .offload = any_of(kOffloads, random)};
        // A schedule with several chunks cannot share a tied weight between those of one rank.
        if (pipeline.find("zbv") != std::string_view::npos) c.model = kModels[1 + random() % 2];
        if (c.model == kModels[2]) c.experts = any_of(kExperts, random);
        check(c);
        if (c.model == kModels[0]) continue;
        c.kernels = "liger_kernels";
        check(c);
      }
    }
  }
}

}  // namespace tidemark::parallel_combinations_test
