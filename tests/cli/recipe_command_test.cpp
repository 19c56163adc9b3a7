// The lines that `tidemark recipe` prints to copy.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::recipe_command_test {

TEST_SUITE("unit") {
  TEST_CASE("recipe has axolotl's lines only for weights of the type that it loads") {
    const Workspace workspace;
    const std::string command = "recipe llama-3.2-1b --gpu a100-sxm-80gb -s training.sequence=256";
    const auto document = nlohmann::json::parse(workspace.run(command + " --json").out);
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

  TEST_CASE("recipe's lines for axolotl, imported, are the recipe's step") {
    const Workspace workspace;
    int compared = 0;
    for (const std::string& count : {std::string(" --count 1"), std::string(" --count 2")}) {
      const std::string device = " --gpu rtx-4090" + count;
      const auto document = nlohmann::json::parse(
          workspace.run("recipe llama-3.2-1b --json -s training.sequence=1024" + device).out);
      for (std::size_t i = 0; i < document.at("recipes").size(); ++i) {
        const auto& recipe = document.at("recipes").at(i);
        if (recipe.at("axolotl").empty()) continue;
        std::string lines = "base_model: m\nsequence_len: 1024\nmax_grad_norm: 0\n";
        for (const auto& line : recipe.at("axolotl"))
          lines += line.get<std::string>() + '\n';
        CAPTURE(lines);
        workspace.write("axolotl.yaml", lines);
        workspace.write("scenario.yaml",
                        workspace.run("import axolotl.yaml --model llama-3.2-1b" + device).out);
        const auto run = nlohmann::json::parse(workspace.run("run scenario.yaml --json").out);
        CHECK(run.at("points").at(0).at("memory").at("device_used") ==
              document.at("points").at(i).at("memory").at("device_used"));
        CHECK(run.at("points").at(0).at("time").at("step") ==
              document.at("points").at(i).at("time").at("step"));
        ++compared;
      }
    }
    CHECK(compared > 8);
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
