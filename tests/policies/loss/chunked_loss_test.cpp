// Losses in chunks: Liger's rule, the chunks' kernels and what each kind keeps.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/loss/replace_loss.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::chunked_loss_test {
namespace {

PointResult simulated(const std::string& loss, const std::string& more = "") {
  const Scenario scenario = decode(fmt::format(
      "model: {{preset: gpt, layers: 1, width: 64, heads: 4, vocab: 512, sequence: 32, tie: "
      "false}}\n"
      "hardware: h100-sxm-80gb\nallocator: ideal\n"
      "training: {{micro_batch: 2, sequence: 32, precision: fp32, framework: torch-1.13-cpu, "
      "attention: math, dropout: 0, optimizer: sgd{}}}\npolicies: [{}]\n",
      more, loss));
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("Liger's chunks have about as many logits as rows have elements") {
    struct Row {
      std::int64_t tokens, width, classes, rows;
    };
    // ceil(32000 / 2048) = 16 times as many classes as features: 1024 / 16 = 64 rows; elsewhere the
    // next power of two: ceil(1024 / 25) = 41 becomes 64, ceil(4096 / 63) = 66 becomes 128.
    for (const Row& row : std::vector<Row>{{1024, 2048, 32000, 64},
                                           {1024, 2048, 50257, 64},
                                           {1024, 8192, 50257, 256},
                                           {4096, 2048, 128256, 128},
                                           {4096, 2048, 256000, 64},
                                           {16384, 2304, 32000, 2048}}) {
      CHECK(liger_rows(row.tokens, row.classes, row.width) == row.rows);
    }
  }

  TEST_CASE("a fused loss keeps gradients of rows and head instead of log-probabilities") {
    // 64 tokens, 64 features, 512 classes, fp32. Whole: log-probabilities 64 x 512 x 4, the head's
    // input 64 x 64 x 4 and the 4 bytes of nll_loss's total weight.
    constexpr std::int64_t kProbabilities = 64 * 512 * 4;
    constexpr std::int64_t kRows = 64 * 64 * 4;
    const std::int64_t whole = simulated("").saved_activations.count;
    // Fused: the gradient of the head, 512 x 64 x 4, and that of the rows.
    CHECK(simulated("chunked_loss: {chunks: 4, kind: fused}").saved_activations.count ==
          whole - kProbabilities - kRows - 4 + 512 * 64 * 4 + kRows);
    // Checkpointed: the hooks hold the rows, autograd the divisor of 8 bytes.
    CHECK(simulated("chunked_loss: {chunks: 4}").saved_activations.count ==
          whole - kProbabilities - kRows - 4 + 8);
    // Cut: the rows stay, and the log-sum of each.
    CHECK(simulated("fused_loss: cut_cross_entropy").saved_activations.count ==
          whole - kProbabilities - 4 + 64 * 4);
  }

  TEST_CASE("a frozen step that accumulates makes .grad in backward") {
    const PointResult fused =
        simulated("chunked_loss: {chunks: 4, kind: fused}", ", accumulate: 2");
    CHECK(fused.status == PointStatus::kFits);
    CHECK(fused.gradients == simulated("", ", accumulate: 2").gradients);
  }

  TEST_CASE("models without a head and cross-entropy are refused by name") {
    const auto error = [](const std::string& text) {
      return error_of([&] {
        const Scenario scenario = decode(text);
        static_cast<void>(build_training(scenario));
      });
    };
    const std::string mse = error(
        "model: mlp\nhardware: h100-sxm-80gb\ntraining: {loss: mse}\n"
        "policies: [chunked_loss: {chunks: 2}]\n");
    CHECK(mse.find("policies.chunked_loss") != std::string::npos);
    CHECK(mse.find("mse_loss") != std::string::npos);
    const std::string word =
        error("model: gpt2\nhardware: h100-sxm-80gb\npolicies: [fused_loss: ligger]\n");
    CHECK(word.find("liger") != std::string::npos);
  }
}

}  // namespace tidemark::chunked_loss_test
