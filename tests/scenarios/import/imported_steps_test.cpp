// What imported settings make of a step: types of adapters and of what they stand beside.
#include <string>

#include <doctest/doctest.h>

#include "scenarios/import/import_settings.hpp"
#include "scenarios/results/document_json.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::imported_steps_test {
namespace {

std::string policies(const ImportedScenario& imported) {
  return as_json(*imported.scenario.find("policies"));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("adapters of axolotl and the Trainer compute under autocast over a base of 16 bits") {
    const auto of = [](const std::string& text, const std::string& model = "llama-3.2-1b") {
      return read_settings(parse_document(text, "file.yaml"),
                           {.model = model, .gpu = "a100-sxm-80gb"});
    };
    const auto precision = [&](const std::string& text) {
      return of(text).scenario.find("training")->find("precision")->scalar;
    };
    const std::string axolotl = "base_model: m\nbf16: true\nadapter: ";
    CHECK(precision(axolotl + "lora\n") == "bf16_autocast");
    CHECK(policies(of(axolotl + "lora\n")) == R"([{"lora": {"base": "bf16"}}])");
    CHECK(policies(of("base_model: m\nfp16: true\nadapter: lora\n")) ==
          R"([{"lora": {"base": "fp16"}}])");
    // axolotl casts norms and embeddings of a quantised model back that it finds by their names.
    const std::string quantised = axolotl + "qlora\nload_in_4bit: true\n";
    CHECK(policies(of(quantised)) == R"([{"lora": {"base": "nf4_dq", "compute_dtype": "bf16"}}])");
    CHECK(policies(of(quantised, "gpt2")).find("prepare") != std::string::npos);
    CHECK(policies(of(quantised + "bnb_config_kwargs: {bnb_4bit_compute_dtype: float32}\n"))
              .find(R"("compute_dtype": "fp32")") != std::string::npos);
    // A model in bf16 without bf16: true has no autocast, and DeepSpeed has none.
    const std::string script = "output_dir: o\nuse_peft: true\ndtype: bfloat16\n";
    CHECK(precision(script + "bf16: true\n") == "bf16_autocast");
    CHECK(policies(of(script + "bf16: true\n")).find(R"("base": "bf16")") != std::string::npos);
    CHECK(precision(script) == "bf16");
    CHECK(policies(of(script)).find("base") == std::string::npos);
    CHECK(precision(axolotl + "lora\ndeepspeed: {zero_optimization: {stage: 1}}\n") == "bf16");
    // TRL loads the rest in fp32 unless it is told a type.
    const std::string wide =
        policies(of("output_dir: o\nuse_peft: true\nload_in_4bit: true\nbf16: true\n"));
    CHECK(wide.find(R"("base": "nf4", "prepare": true, "compute_dtype": "bf16", )") !=
          std::string::npos);
    CHECK(wide.find(R"("dtype": "bf16"}}])") != std::string::npos);
  }
}

}  // namespace tidemark::imported_steps_test
