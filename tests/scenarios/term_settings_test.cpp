// The settings that explain names behind the terms of a peak.
#include "scenarios/studies/term_settings.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_point.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::term_settings_test {
namespace {

std::vector<TermSetting> settings_of(std::int64_t vocabulary, const std::string& policies) {
  const std::string text = fmt::format(
      "{{model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: {}, sequence: 512}}, "
      "hardware: h100-sxm-80gb, training: {{micro_batch: 8, sequence: 512, precision: bf16_mixed, "
      "optimizer: {{name: adamw, implementation: fused}}}}, policies: [{}]}}",
      vocabulary, policies);
  return term_settings(simulate_in_detail(parse_document(text, "s.yaml"), 0, environment(), {}));
}

bool names(const std::vector<TermSetting>& settings, Role role, const std::string& change) {
  return std::any_of(settings.begin(), settings.end(), [&](const TermSetting& setting) {
    return setting.role == role && setting.change == change;
  });
}

TEST_SUITE("unit") {
  TEST_CASE("a fused loss is named where logits are among the largest tensors of the peak") {
    const std::vector<TermSetting> wide = settings_of(64000, "");
    CHECK(names(wide, Role::kSavedActivation, "fused_loss(liger)"));
    const std::vector<TermSetting> narrow = settings_of(16, "");
    CHECK_FALSE(names(narrow, Role::kSavedActivation, "fused_loss(liger)"));
    CHECK_FALSE(names(settings_of(64000, "fused_loss: liger"), Role::kSavedActivation,
                      "fused_loss(liger)"));
  }

  TEST_CASE("frozen weights in 4 bits are named for weights, and adapters for states") {
    const std::vector<TermSetting> full = settings_of(64000, "");
    CHECK(names(full, Role::kParameter, "qlora(rank 16, 4-bit base)"));
    CHECK(names(full, Role::kOptimizerState, "lora(rank 16)"));
    const std::vector<TermSetting> adapted = settings_of(64000, "lora: {rank: 8}");
    CHECK_FALSE(names(adapted, Role::kParameter, "qlora(rank 16, 4-bit base)"));
  }
}

}  // namespace
}  // namespace tidemark::term_settings_test
