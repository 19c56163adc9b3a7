// Every policy with every allocator and the rules of every framework, on random models: a mistake
// of the user, or a step whose program is verified and runs.
#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "tests/scenarios/listed_policies.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::every_setting_test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  template <class List>
  [[nodiscard]] auto of(const List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }
  [[nodiscard]] std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  // A model of a few layers over vectors, images or tokens.
  [[nodiscard]] std::string model();
  // The rest of a scenario; `policies` as a list.
  [[nodiscard]] std::string scenario(const std::vector<std::string>& policies);

 private:
  std::mt19937_64 random_;
};

std::string Draw::model() {
  std::vector<std::string> layers;
  const std::size_t count = 2 + below(5);
  const std::size_t kind = below(4);
  if (kind == 0) {
    return fmt::format(
        "{{preset: gpt, layers: {}, width: 32, heads: {}, vocab: 256, sequence: 32, "
        "dropout: {}}}",
        1 + below(4), of(std::array{1, 2, 4}), of(std::array{0.0, 0.1}));
  }
  if (kind == 1) {
    constexpr std::array kinds{"{linear: 24}",
                               "relu",
                               "gelu",
                               "{layer_norm: {}}",
                               "{dropout: 0.1}",
                               "tanh",
                               "{residual: [{linear: 24}, relu]}"};
    for (std::size_t i = 0; i < count; ++i)
      layers.emplace_back(of(kinds));
    return fmt::format(
        "{{layers: {{inputs: {{x: [batch, 24]}}, layers: [{{linear: 24}}, {}, "
        "{{linear: 8}}]}}}}",
        fmt::join(layers, ", "));
  }
  if (kind == 2) {
    constexpr std::array kinds{"{conv: {channels: 6, kernel: 3}}", "batch_norm", "relu",
                               "{residual: [{conv: {channels: 6, kernel: 3}}, batch_norm, relu]}",
                               "silu"};
    for (std::size_t i = 0; i < count; ++i)
      layers.emplace_back(of(kinds));
    return fmt::format(
        "{{layers: {{inputs: {{x: [batch, 3, 12, 12]}}, layers: [{{conv: {{channels: "
        "6, kernel: 3}}}}, {}, flatten, {{linear: 8}}]}}}}",
        fmt::join(layers, ", "));
  }
  constexpr std::array kinds{"{residual: [layer_norm, {attention: {heads: 2}}]}",
                             "{residual: [layer_norm, {linear: 32}, gelu, {linear: 16}]}",
                             "{residual: [{rms_norm: {eager: true}}, {linear: 16}]}",
                             "{dropout: 0.1}"};
  for (std::size_t i = 0; i < count; ++i)
    layers.emplace_back(of(kinds));
  return fmt::format(
      "{{layers: {{inputs: {{tokens: {{shape: [batch, 12], type: int64}}}}, layers: "
      "[{{embedding: {{rows: 40, width: 16}}}}, {}, {{linear: 40}}]}}}}",
      fmt::join(layers, ", "));
}

std::string Draw::scenario(const std::vector<std::string>& policies) {
  constexpr std::array frameworks{"torch-2.4-cuda", "torch-2.1-cuda", "torch-1.13-cuda",
                                  "torch-1.9-cuda", "torch-1.13-cpu", "ideal"};
  constexpr std::array precisions{"fp32",          "bf16_mixed",    "fp16_mixed",
                                  "bf16_autocast", "fp16_autocast", "bf16"};
  constexpr std::array optimizers{"sgd",
                                  "momentum",
                                  "adam",
                                  "adamw",
                                  "{name: adamw, implementation: "
                                  "loop}",
                                  "adafactor",
                                  "lion",
                                  "{name: adam, implementation: foreach}"};
  constexpr std::array allocators{"torch", "{kind: torch, expandable_segments: true}", "bfc",
                                  "ideal", "packed"};
  constexpr std::array devices{"h100-sxm-80gb", "a100-sxm-40gb", "v100-sxm-16gb"};
  constexpr std::array counts{1, 1, 1, 2, 4};
  return fmt::format(
      "{{model: {}, hardware: {{gpu: {}, count: {}}}, allocator: {}, training: {{micro_batch: {}, "
      "accumulate: {}, framework: {}, precision: {}, optimizer: {}}}, policies: [{}]}}",
      model(), of(devices), of(counts), of(allocators), 1 + below(3), 1 + below(2), of(frameworks),
      of(precisions), of(optimizers), fmt::join(policies, ", "));
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE(
      "every policy, allocator and framework on random models: refused, or verified and run") {
    const std::span<const PolicyEntry> entries = environment().policies.entries();
    const std::size_t rounds = test::runs_long_tests() ? 300 : 10;
    std::map<std::string, int> ran;
    std::size_t refused = 0;
    for (const PolicyEntry& entry : entries) {
      const std::string name(entry.name);
      // A policy that few models suit is tried more often, until it ran.
      for (std::size_t round = 0; round < rounds || (ran[name] == 0 && round < 100); ++round) {
        Draw draw(1000 * static_cast<std::size_t>(&entry - entries.data()) + round);
        CAPTURE(round);
        std::vector<std::string> policies{listed(name)};
        for (std::size_t more = draw.below(3); more > 0; --more)
          policies.push_back(listed(std::string(draw.of(entries).name)));
        const std::string text = draw.scenario(policies);
        CAPTURE(text);
        std::string fault;
        try {
          const DetailedPoint point = simulate_in_detail(parse_document(text, "s.yaml"), 0,
                                                         environment(), {.convergence_limit = 4});
          const RunResult& run = point.result.run;
          ++ran[name];
          CHECK(run.live.bytes <= run.allocated.bytes);
          CHECK(run.allocated.bytes <= run.active.bytes);
          CHECK(run.active.bytes <= run.reserved.bytes);
          CHECK(run.reserved.bytes <= point.result.capacity);
          CHECK(run.status == RunStatus::kCompleted);
        } catch (const UserError&) {
          ++refused;
        } catch (const std::exception& error) {
          fault = error.what();
        }
        CHECK(fault == "");
      }
      CHECK_MESSAGE(ran[name] > 0, name);
    }
    int all = 0;
    for (const auto& [name, times] : ran)
      all += times;
    MESSAGE(all, " ran, ", refused, " were refused");
  }
}

}  // namespace tidemark::every_setting_test
