// The work of a training loop around the optimizer: updates in backward, averaged weights, a loss
// scale, clipped gradients. Recorded figures are those of PyTorch 1.13.1 on a CPU.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/analysis/program_order.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::tuning_loop_test {
namespace {

constexpr const char* kGpt =
    "model: {preset: gpt, layers: 4, width: 256, heads: 8, vocab: 4096, sequence: 128}\n"
    "hardware: h100-sxm-80gb\nallocator: ideal\n";
constexpr const char* kCpuGpt =
    "micro_batch: 2, sequence: 128, attention: math, dropout: 0, precision: fp32, zero_grad: none, "
    "framework: torch-1.13-cpu, optimizer: {name: adamw, implementation: loop}";

std::string gpt(const std::string& training, const std::string& policies) {
  return fmt::format("{}training: {{{}}}\npolicies: {}\n", kGpt, training, policies);
}

PointResult simulated(const std::string& text) {
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  return simulate(scenario, model, {.smallest_capacity = false});
}

std::int64_t phase_peak(const PointResult& point, Phase phase) {
  return point.run.phase_live_without_workspace[static_cast<std::size_t>(phase)].bytes.count;
}

TrainingGraph graph_of(const std::string& text) {
  return build_training(decode(text)).training;
}

std::vector<std::string> names_in(const TrainingGraph& graph, int step, int steps) {
  std::vector<std::string> names;
  for (const Occurrence& occurrence : program_order(graph, steps).at) {
    if (occurrence.step == step) names.push_back(graph.operators[occurrence.op].name);
  }
  return names;
}

std::int64_t count(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name);
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("a GPT whose optimizers run in backward takes what PyTorch takes") {
    const PointResult point = simulated(gpt(kCpuGpt, "[optimizer_in_backward]"));
    CHECK(point.gradients.count == 0);
    CHECK(point.optimizer_state.count == 33'927'376);
    CHECK(point.saved_activations.count == 25'775'140);
    // At the start of backward, where no gradient exists yet: as without the policy.
    CHECK(phase_peak(point, Phase::kBackward) == 85'320'952);
    CHECK(phase_peak(point, Phase::kForward) == 81'126'648);
    CHECK(phase_peak(point, Phase::kOptimizer) == 51'157'204);
    // The first step makes the states on the way; its peak is an update of the tied embedding. The
    // recording of that step counts the numbers inside kernels, which are at most 16 bytes.
    const std::string first = std::string(kCpuGpt) + ", steps: 1";
    const std::int64_t peak =
        phase_peak(simulated(gpt(first, "[optimizer_in_backward]")), Phase::kBackward);
    CHECK(peak <= 63'740'132);
    CHECK(peak >= 63'740'132 - 16);
  }

  TEST_CASE("swa_utils keeps a module, a counter and two tensors of the largest parameter") {
    const PointResult plain = simulated(gpt(kCpuGpt, "[]"));
    const PointResult averaged = simulated(gpt(kCpuGpt, "[ema: {kind: swa_utils}]"));
    // 33,927,168 - 16,963,584 of parameters, 524,296 - 262,144 of buffers and the counter.
    CHECK(averaged.optimizer_state.count - plain.optimizer_state.count == 16'963'584 + 262'144 + 8);
    CHECK(averaged.run.live_without_workspace.bytes.count == 102'546'688);
    // 85,346,524 between the parts, 2 * 4096 * 256 * 4 and the divisor's 12.
    CHECK(phase_peak(averaged, Phase::kOptimizer) == 93'735'144);
    // In place nothing is made.
    const PointResult in_place = simulated(gpt(kCpuGpt, "[ema: {decay: 0.999}]"));
    CHECK(phase_peak(in_place, Phase::kOptimizer) - phase_peak(plain, Phase::kOptimizer) ==
          16'963'584 + 262'144);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("settings that need all gradients at once refuse an optimizer in backward") {
    const auto message = [](const std::string& training, const std::string& policies) {
      return error_of([&] { static_cast<void>(graph_of(gpt(training, policies))); });
    };
    const std::string both = "[optimizer_in_backward]";
    CHECK(message("accumulate: 2", both).find("training.accumulate: 2") != std::string::npos);
    CHECK(message("zero_grad: zero", both).find("training.zero_grad: zero") != std::string::npos);
    for (const std::string key : {"clip_grad_norm: 1.0", "loss_scale: dynamic"}) {
      const std::string error = message(key, both);
      CHECK(error.find("training." + key.substr(0, key.find(':'))) != std::string::npos);
      CHECK(error.find("optimizer_in_backward") != std::string::npos);
    }
    for (const std::string other :
         {"offload_optimizer", "zero: {stage: 2}", "zero: {stage: 3}", "distributed_optimizer",
          "data_parallel", "pipeline: {size: 2}"}) {
      for (const bool first : {true, false}) {
        const std::string list = first ? "[optimizer_in_backward, " + other + "]"
                                       : "[" + other + ", optimizer_in_backward]";
        const std::string text = fmt::format(
            "{}hardware: {{gpu: h100-sxm-80gb, count: {}}}\ntraining: {{}}\npolicies: {}\n",
            "model: {preset: gpt, layers: 2}\n", other == "offload_optimizer" ? 1 : 2, list);
        const std::string error = error_of([&] { static_cast<void>(graph_of(text)); });
        CAPTURE(error);
        CHECK(error.find("optimizer_in_backward") != std::string::npos);
        CHECK(error.find(other.substr(0, other.find(':'))) != std::string::npos);
      }
    }
  }

  TEST_CASE("tied weights are updated once, behind their last contribution") {
    const TrainingGraph graph = graph_of(gpt(kCpuGpt, "[optimizer_in_backward]"));
    const std::vector<std::string> names = names_in(graph, 1, 2);
    CHECK(count(names, "adamw.update") == 52);
    CHECK(count(names_in(graph, 0, 2), "adamw.create_state") == 52);
    CHECK(count(names, "adamw.create_state") == 0);
    const auto last_update = std::find(names.rbegin(), names.rend(), "adamw.update");
    const auto embedding = std::find(names.rbegin(), names.rend(), "embedding.weight_gradient");
    CHECK(last_update <= embedding);
  }

  TEST_CASE("a dynamic loss scale checks all gradients and skips the first update") {
    const std::string training = "precision: fp16_autocast, loss_scale: {skipped: 2}";
    const TrainingGraph graph = graph_of(gpt(training, "[]"));
    for (const int step : {0, 1, 2, 3}) {
      const std::vector<std::string> names = names_in(graph, step, 4);
      CAPTURE(step);
      CHECK(count(names, "grad_scaler.unscale") == 1);
      CHECK(count(names, "scale_loss") == 1);
      CHECK(count(names, "grad_scaler.update") == 1);
      CHECK((count(names, "adamw.create_state") > 0) == (step == 2));
      CHECK((count(names, "adamw.foreach_update") > 0) == (step >= 2));
    }
    // A scale and a growth tracker.
    const auto states = [](const std::string& text) {
      return build_training(decode(text)).optimizer_state.count;
    };
    CHECK(states(gpt(training, "[]")) - states(gpt("precision: fp16_autocast", "[]")) == 8);
    CHECK(decode(gpt(training, "[]")).training.steps == 4);
    CHECK(error_of([&] {
            static_cast<void>(graph_of(gpt("precision: fp16, loss_scale: dynamic", "[]")));
          }).find("training.precision fp16") != std::string::npos);
  }

  TEST_CASE("clipping reads all gradients, scales them in place and makes numbers only") {
    const TrainingGraph plain = graph_of(gpt(kCpuGpt, "[]"));
    const TrainingGraph clipped = graph_of(gpt(std::string(kCpuGpt) + ", clip_grad_norm: 1", "[]"));
    Bytes gradients;
    for (const ParameterId id : plain.trained)
      gradients += plain.storages[plain.parameters[id].gradient].bytes;
    Bytes read;
    Bytes written;
    Bytes made;
    for (const OperatorId id : clipped.part(PartKind::kBeforeOptimizer)) {
      read += clipped.operators[id].work.read;
      written += clipped.operators[id].work.written;
      for (const Touch& touch : clipped.touches_of(id)) {
        if (touch.access == Access::kCreate) made += clipped.storages[touch.storage].bytes;
      }
    }
    // 52 norms, the same stacked, their norm, the quotient and its clamp.
    CHECK(made.count == 4 * (52 + 52 + 3));
    CHECK(read.count == 2 * gradients.count + 4 * (52 + 1));
    CHECK(written.count == gradients.count + 4 * (52 + 1));
  }
}

TEST_SUITE("property") {
  TEST_CASE("with updates in backward no more than a node's gradients are alive at once") {
    // The oracle walks the order and counts gradients from their creation to their update.
    for (const char* model : {"mlp", "resnet18", "gpt"}) {
      for (const char* policies :
           {"[optimizer_in_backward]", "[optimizer_in_backward, checkpoint_every: {period: 1}]"}) {
        const bool is_gpt = std::string(model) == "gpt";
        const std::string name =
            is_gpt ? "{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 64, tie: false}" : model;
        if (std::string(model) == "mlp" && std::string(policies).size() > 30) continue;
        const TrainingGraph graph = graph_of(fmt::format(
            "model: {}\nhardware: h100-sxm-80gb\ntraining: {{optimizer: momentum}}\npolicies: {}\n",
            name, policies));
        CAPTURE(model);
        IdVector<StorageId, int> alive(graph.storages.size(), 0);
        IdVector<StorageId, int> updated(graph.storages.size(), 0);
        int now = 0;
        int most = 0;
        for (const Occurrence& occurrence : program_order(graph, 1).at) {
          const bool updates = graph.operators[occurrence.op].part == OperatorPart::kUpdate;
          for (const Touch& touch : graph.touches_of(occurrence.op)) {
            if (graph.storages[touch.storage].role != Role::kGradient) continue;
            if (touch.access == Access::kCreate) now += 1 - std::exchange(alive[touch.storage], 1);
            if (updates && touch.access == Access::kRead) ++updated[touch.storage];
          }
          most = std::max(most, now);
          for (const Touch& touch : graph.touches_of(occurrence.op)) {
            if (graph.storages[touch.storage].role != Role::kGradient || !updates) continue;
            now -= std::exchange(alive[touch.storage], 0);
          }
        }
        CHECK(now == 0);
        CHECK(most <= 2);
        for (const UpdatedTensor& tensor : graph.updates)
          CHECK(updated[tensor.gradient] >= 1);
      }
    }
  }
}

}  // namespace tidemark::tuning_loop_test
