// training.mode: forward, from the scenario to the result.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::evaluation_test {
namespace {

PointResult point_of(const std::string& text) {
  const Value document = parse_document(text, "s.yaml");
  const Scenario scenario = decode_scenario(document, environment());
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

}  // namespace

TEST_SUITE("golden") {
  // shared/cases/adapters/torch, steps[1] of resnet18_b2_eval_nograd and gpt_eval_nograd.
  TEST_CASE("evaluations of PyTorch under no_grad are simulated to the byte") {
    struct Recorded {
      std::string_view model;
      std::string_view training;
      std::int64_t start;
      std::int64_t peak;
    };
    const Recorded cases[] = {
        // The first convolution's output and its normalisation, 2 * 64 * 112 * 112 * 4 each, and
        // factor and summand of 64 channels.
        {"{preset: resnet18}", "micro_batch: 2", 48'000'848, 60'846'416},
        // Logits 2 * 128 * 4096 * 4, x and ln_f(x) of 2 * 128 * 256 * 4 each, positions 128 * 8.
        {"{preset: gpt, layers: 4, width: 256, heads: 8, vocab: 4096, sequence: 128, tie: true}",
         "micro_batch: 2, sequence: 128, attention: math, dropout: 0", 17'229'824, 21'949'440}};
    for (const Recorded& recorded : cases) {
      CAPTURE(recorded.model);
      const PointResult point = point_of(fmt::format(
          "model: {}\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {{mode: forward, "
          "precision: fp32, framework: torch-1.13-cpu, {}}}\n",
          recorded.model, recorded.training));
      CHECK(point.parameters + point.buffers + point.inputs == Bytes(recorded.start));
      CHECK(point.run.live_without_workspace.bytes.count == recorded.peak);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("an evaluation has no backward, no gradients and nothing saved") {
    const PointResult point = point_of(
        "model: {preset: gpt2, layers: 2}\nhardware: h100-sxm-80gb\n"
        "training: {mode: forward, micro_batch: 2, sequence: 128}\n");
    CHECK(point.status == PointStatus::kFits);
    CHECK(point.gradients == Bytes(0));
    CHECK(point.optimizer_state == Bytes(0));
    CHECK(point.saved_activations == Bytes(0));
    CHECK(point.trainable_parameter_count == point.parameter_count);
    CHECK(point.step_flops == point.forward_flops);
    CHECK(point.run.phase[static_cast<std::size_t>(Phase::kBackward)].count() == 0);
    const auto optimizer = static_cast<std::size_t>(Phase::kOptimizer);
    CHECK(point.run.phase[optimizer].count() == 0);
    CHECK(point.run.phase_live[optimizer].bytes == Bytes(0));
    CHECK(point.run.step > Duration(0));
    CHECK(point.samples_per_second > 0);
  }

  TEST_CASE("micro-batches of an evaluation run one after another in the same memory") {
    const auto run = [](int accumulate) {
      return point_of(fmt::format(
          "model: {{preset: gpt2, layers: 2}}\nhardware: h100-sxm-80gb\nallocator: ideal\n"
          "training: {{mode: forward, sequence: 128, accumulate: {}, framework: ideal}}\n",
          accumulate));
    };
    CHECK(run(3).run.live.bytes.count == run(1).run.live.bytes.count);
    CHECK(run(3).step_flops.count == 3 * run(1).step_flops.count);
  }

  TEST_CASE("stages of a pipeline that evaluate reduce no gradients") {
    for (const char* policy : {"", ", zero: {stage: 1}", ", fsdp: {}", ", data_parallel: {}"}) {
      CAPTURE(policy);
      const auto run = [&](int accumulate) {
        return point_of(fmt::format(
            "model: {{preset: gpt2, layers: 2}}\nhardware: {{gpu: h100-sxm-80gb, count: 4}}\n"
            "training: {{mode: forward, sequence: 128, accumulate: {}}}\n"
            "policies: [pipeline: {{size: 2}}{}]\n",
            accumulate, policy));
      };
      CHECK(run(1).status == PointStatus::kFits);
      CHECK(run(3).samples == 3 * run(1).samples);
      CHECK(run(3).optimizer_state == Bytes(0));
    }
  }

  TEST_CASE("policies about what training keeps find nothing to decide in an evaluation") {
    const std::string plain =
        "model: {preset: gpt2, layers: 2}\nhardware: h100-sxm-80gb\n"
        "training: {mode: forward, micro_batch: 2, sequence: 128}\n";
    const PointResult without = point_of(plain);
    for (const char* policy :
         {"checkpoint_every: {period: 1}", "optimal: {budget: 1GiB}", "offload_activations: {}",
          "revolve: {checkpoints: 1}", "capuchin: {}"}) {
      CAPTURE(policy);
      const PointResult with = point_of(fmt::format("{}policies: [{{{}}}]\n", plain, policy));
      CHECK(with.status == PointStatus::kFits);
      CHECK(with.run.live.bytes == without.run.live.bytes);
      CHECK(with.run.step == without.run.step);
      CHECK(with.policies[0].decided == 0);
    }
    for (const char* policy : {"optimal", "belady", "revolve"}) {
      CAPTURE(policy);
      const PointResult missed =
          point_of(fmt::format("{}policies: [{{{}: {{budget: 1MiB}}}}]\n", plain, policy));
      CHECK(missed.status == PointStatus::kInfeasible);
    }
  }

  TEST_CASE("the loss of an evaluation is computed where the scenario names one") {
    const auto names_loss = [](std::string_view loss) {
      return point_of(fmt::format("model: {{preset: gpt2, layers: 1}}\nhardware: h100-sxm-80gb\n"
                                  "training: {{mode: forward, sequence: 64{}}}\n",
                                  loss))
          .operators;
    };
    CHECK(names_loss(", loss: cross_entropy") > names_loss(""));
  }

  TEST_CASE("policies of training say that an evaluation has nothing for them") {
    const auto warnings = [](std::string_view mode, std::string_view policies) {
      return point_of(fmt::format("model: {{preset: gpt2, layers: 1}}\nhardware: h100-sxm-80gb\n"
                                  "training: {{mode: {}, sequence: 64}}\npolicies: [{}]\n",
                                  mode, policies))
          .warnings;
    };
    REQUIRE(warnings("forward", "checkpoint_every, ema").size() == 1);
    CHECK(warnings("forward", "checkpoint_every, ema").front().find("checkpoint_every, ema") == 0);
    CHECK(warnings("forward", "quantise_weights: {dtype: nf4}").empty());
    CHECK(warnings("forward", "zero: {stage: 3}").empty());  // it shards the parameters
    // So do plans for what backward needs, gradients that are reduced and shards of states, and a
    // loss in chunks where no loss is computed.
    for (const std::string policy :
         {"optimal", "revolve: {checkpoints: 1}", "zero", "distributed_optimizer", "data_parallel",
          "distill: {teacher: {preset: gpt2, layers: 1}}", "chunked_loss: {chunks: 2}",
          "fused_loss: liger"}) {
      CAPTURE(policy);
      REQUIRE(!warnings("forward", policy).empty());
      const std::string name = policy.substr(0, policy.find(':'));
      CHECK(warnings("forward", policy).front().find(name + " decides about training") == 0);
    }
    CHECK(warnings("forward", "freeze: {layers: ['*']}").front().find("freeze decides") == 0);
    CHECK(warnings("forward, loss: cross_entropy", "chunked_loss: {chunks: 2}").empty());
    const std::vector<std::string> settings =
        warnings("forward, clip_grad_norm: 1.0, loss_scale: dynamic, precision: fp16_autocast", "");
    REQUIRE(settings.size() == 1);
    CHECK(settings.front().find("training.loss_scale, training.clip_grad_norm decide") == 0);
    CHECK(warnings("train", "checkpoint_every, ema").empty());
    const PointResult tpu = point_of("model: {preset: gpt2, layers: 1}\nhardware: tpu-v4-32gb\n");
    REQUIRE(tpu.warnings.size() == 1);
    CHECK(tpu.warnings.front().find("of tpu-v4-32gb only capacity and roofline are known") == 0);
    CHECK_THROWS_AS(point_of("model: gpt2\nhardware: h100-sxm-80gb\ntraining: {ema: device}\n"
                             "policies: [ema]\n"),
                    UserError);
  }

  TEST_CASE("modes have names") {
    const auto problem = [](std::string_view mode) {
      try {
        static_cast<void>(point_of(
            fmt::format("model: gpt2\nhardware: h100-sxm-80gb\ntraining: {{mode: {}}}\n", mode)));
      } catch (const UserError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(problem("foreward").find("did you mean 'forward'") != std::string::npos);
    CHECK(problem("train").empty());
  }
}

}  // namespace tidemark::evaluation_test
