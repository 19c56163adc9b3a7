// What imported settings make of a step: types of adapters and of what they stand beside, GPUs.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/import/import_settings.hpp"
#include "scenarios/read/axolotl_models.hpp"
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
    for (const char* model : {"gpt", "gpt2", "gpt2-xl", "mpt-7b"}) {
      CAPTURE(model);
      CHECK(policies(of(quantised, model)).find("prepare") != std::string::npos);
    }
    // It knows the embeddings of Falcon, word_embeddings, and of GPT-NeoX, embed_in, by their
    // types.
    for (const char* model : {"falcon-7b", "gpt-neox-20b", "pythia-410m", "phi-2", "gemma-2b"}) {
      CAPTURE(model);
      CHECK(policies(of(quantised, model)).find("prepare") == std::string::npos);
    }
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

  TEST_CASE("a preset is of the type of model that its name begins with, hyphens left out") {
    const auto narrows = [](const std::string& name) {
      return axolotl_narrows_rest(ModelReference{.kind = ModelKind::kPreset, .name = name});
    };
    for (const char* name :
         {"gpt-j-6b", "gpt-neo-125m", "gpt-bigcode", "gpt2-medium", "codegen-2b"})
      CHECK_FALSE(narrows(name));
    for (const char* name : {"gpt-neox-20b", "gptx", "gpt2x", "mp"})
      CHECK(narrows(name));
  }

  TEST_CASE("what shards among a number of GPUs that no file says names how to say it") {
    const auto missing = [](const std::string& text, int count = 0) {
      const ImportedScenario imported =
          read_settings(parse_document(text, "file.yaml"),
                        {.model = "gpt2", .gpu = "a100-sxm-80gb", .count = count});
      const auto& rest = imported.report.not_understood;
      const auto found = std::find_if(rest.begin(), rest.end(), [](const ImportedSetting& setting) {
        return setting.key == "hardware.count";
      });
      return found == rest.end() ? std::string()
                                 : fmt::format("{}: {}", found->location.line, found->outcome);
    };
    const std::string trainer = "output_dir: o\nfsdp: full_shard\n";
    const std::string accelerate = "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n";
    CHECK(missing(trainer) ==
          "2: the file does not say among how many GPUs fsdp divides the model, so that one is "
          "taken; import it with --count N, as the launcher's number of processes");
    CHECK(missing(accelerate).starts_with("2: "));
    CHECK(missing("{zero_optimization: {stage: 3}}").find("GPUs zero") != std::string::npos);
    CHECK(missing(trainer, 4).empty());
    CHECK(missing(accelerate + "num_processes: 8\n").empty());
    CHECK(missing("{output_dir: o, bf16: true}").empty());
  }
}

}  // namespace tidemark::imported_steps_test
