// The lines that `tidemark recipe` prints to copy.
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::recipe_command_test {
namespace {

using nlohmann::json;

// Returns the arguments of a line of Python as lines of YAML: `bf16=True, optim="sgd"`.
std::string as_yaml(const std::string& python) {
  std::string yaml;
  int depth = 0;
  for (const char c : python.substr(0, python.find("  #"))) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    const bool between = depth == 0 && c == ',';
    if (between) {
      yaml += '\n';
    } else if (depth == 0 && c == '=') {
      yaml += ": ";
    } else if (!(c == ' ' && (yaml.empty() || yaml.back() == '\n'))) {
      yaml += c;
    }
  }
  return yaml + '\n';
}

// Returns a file of TRL's scripts that says what arguments of its trainer do.
std::string trl_file(const json& lines) {
  std::string file = "output_dir: o\nmax_grad_norm: 0\nmax_length: 1024\n";
  for (const json& line : lines) {
    const auto text = line.get<std::string>();
    if (text.starts_with("torch_dtype=torch.")) {
      file += "dtype: " + text.substr(18, text.find(' ') - 18) + '\n';
    } else if (text.starts_with("peft_config=LoraConfig(r=16, lora_alpha=32, "
                                "target_modules=\"all-linear\")")) {
      file +=
          "use_peft: true\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0\n"
          "lora_target_modules: [all-linear]\n";
    } else {
      file += as_yaml(text);
    }
  }
  return file;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("recipe has axolotl's lines only for weights of the type that it loads") {
    const Workspace workspace;
    const std::string command =
        "recipe llama-3.2-1b --gpu a100-sxm-80gb -s training.sequence=256 -s model.layers=4";
    const auto document = json::parse(workspace.run(command + " --json").out);
    int kept = 0;
    int shown = 0;
    for (const auto& recipe : document.at("recipes")) {
      const bool keeps_fp32 =
          recipe.at("method") == "full" && !recipe.at("overrides").contains("training.precision");
      if (keeps_fp32) CHECK(recipe.at("axolotl").empty());
      kept += keeps_fp32 ? 1 : 0;
      shown += recipe.at("axolotl").empty() ? 0 : 1;
    }
    CHECK(kept > 0);
    CHECK(shown > 0);
    CHECK(contains(workspace.run(command).out, "    bf16: true\n    adapter: lora\n"));
  }

  TEST_CASE("recipe's lines for axolotl and the Trainer, imported, are the recipe's step") {
    const Workspace workspace;
    int axolotl = 0;
    int trainer = 0;
    int lora = 0;
    const std::string small = " -s model.layers=3";
    const auto compare = [&](const std::string& lines, const std::string& model,
                             const std::string& device, const json& point) {
      CAPTURE(lines);
      workspace.write("settings.yaml", lines);
      workspace.write("scenario.yaml",
                      workspace.run("import settings.yaml --model " + model + device).out);
      const auto run =
          json::parse(workspace.run("run scenario.yaml --json" + small).out).at("points");
      CHECK(run.at(0).at("memory").at("device_used") == point.at("memory").at("device_used"));
      CHECK(run.at(0).at("time").at("step") == point.at("time").at("step"));
    };
    for (const auto& [model, count] : {std::pair<std::string, std::string>{"llama-3.2-1b", "1"},
                                       {"llama-3.2-1b", "2"},
                                       {"gpt2", "1"}}) {
      const std::string device = " --gpu rtx-4090 --count " + count;
      const auto document = json::parse(
          workspace.run("recipe " + model + " --json -s training.sequence=1024" + small + device)
              .out);
      for (std::size_t i = 0; i < document.at("recipes").size(); ++i) {
        const json& recipe = document.at("recipes").at(i);
        const json& point = document.at("points").at(i);
        if (!recipe.at("axolotl").empty()) {
          std::string lines = "base_model: m\nsequence_len: 1024\nmax_grad_norm: 0\n";
          for (const json& line : recipe.at("axolotl"))
            lines += line.get<std::string>() + '\n';
          compare(lines, model, device, point);
          ++axolotl;
        }
        // TRL's scripts cast the adapters of a quantised model, which the lines leave in fp32.
        if (recipe.at("hugging_face").empty() || recipe.at("method") == "qlora") continue;
        compare(trl_file(recipe.at("hugging_face")), model, device, point);
        ++trainer;
        lora += recipe.at("method") == "lora" ? 1 : 0;
      }
    }
    CHECK(axolotl > 12);
    CHECK(trainer > 8);
    CHECK(lora > 3);
  }

  TEST_CASE("the lines of LoRA load a base of 16 bits and compute under autocast") {
    const Workspace workspace;
    const auto lines = [&](const std::string& arguments) {
      return workspace.run("recipe --method " + arguments + " -s training.sequence=256").out;
    };
    const std::string lora = lines("lora llama-3.2-1b --gpu rtx-4090");
    CHECK(contains(lora, "model = from_pretrained(name, torch_dtype=torch.bfloat16)\n"));
    CHECK(contains(lora, "with torch.autocast(\"cuda\", dtype=torch.bfloat16): ...\n"));
    const std::string qlora = lines("qlora gpt2 --gpu rtx-4090");
    CHECK(contains(qlora, "bnb_4bit_compute_dtype=torch.bfloat16))\n"));
    CHECK(contains(qlora, "for axolotl: it has no norms and embeddings of 16 bits"));
    CHECK(contains(lines("lora gpt2 --gpu v100-sxm-16gb"), "training.loss_scale=\"dynamic\""));
  }

  TEST_CASE("recipe names the policies that a scenario has beside what is shown") {
    const Workspace workspace;
    const std::string scenario =
        "model: {preset: gpt2, layers: 1}\nhardware: {gpu: a100-sxm-80gb, count: 2}\n"
        "training: {sequence: 64}\n";
    workspace.write("s.yaml", scenario + "policies: [fsdp]\n");
    workspace.write("none.yaml", scenario);
    const std::string words = "The scenario's own policies come to each of them";
    CHECK(contains(workspace.run("recipe s.yaml --method full").out, words + ": fsdp."));
    CHECK_FALSE(contains(workspace.run("recipe none.yaml --method full").out, words));
  }
}

}  // namespace tidemark::testing::recipe_command_test
