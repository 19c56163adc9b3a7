#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::import_test {

TEST_SUITE("unit") {
  TEST_CASE("import writes a scenario that runs, and lists what it does not understand") {
    const Workspace workspace;
    workspace.write("ds.json",
                    "{\"train_micro_batch_size_per_gpu\": 2, \"bf16\": {\"enabled\": true},\n"
                    " \"zero_optimization\": {\"stage\": 2},\n \"brand_new\": 1}\n");
    const Outcome written =
        workspace.run("import ds.json --model gpt2 --gpu v100-sxm-16gb --count 2 -o scenario.yaml");
    CHECK(written.code == 0);
    CHECK(contains(written.err, "ds.json:3:2: brand_new: not understood"));
    const Outcome onto = workspace.run("import ds.json --model gpt2 -o ./ds.json");
    CHECK(onto.code == 2);
    CHECK(contains(onto.err, "--output: ./ds.json is the file that is imported"));
    CHECK(contains(workspace.read("ds.json"), "brand_new"));
    const Outcome ran = workspace.run("run scenario.yaml -s training.sequence=64 --json");
    CHECK(ran.code == 0);
    CHECK(nlohmann::json::parse(ran.out).at("points").at(0).at("mesh").at("data") == 2);
    const Outcome json = workspace.run("import ds.json --model gpt2 --json");
    const auto document = nlohmann::json::parse(json.out);
    CHECK(document.at("import").at("not_understood").at(0).at("key") == "brand_new");
    CHECK(document.at("import").at("not_understood").at(0).at("line") == 3);
    CHECK(document.at("scenario").at("training").at("micro_batch") == 2);
    CHECK(workspace.run("import ds.json --model no-such-model").code == 2);
    CHECK(workspace.run("import missing.json --model gpt2").code == 2);
  }

  TEST_CASE("fit shows what a library's finder tries, and run shows elastic steps") {
    const Workspace workspace;
    const std::string model =
        "fit gpt2 --gpu v100-sxm-16gb -s training.sequence=256 -s model.layers=1 ";
    const Outcome found = workspace.run(model + "--finder lightning_power --json");
    CHECK(found.code == 0);
    const auto fit = nlohmann::json::parse(found.out).at("fit");
    const auto& finder = fit.at("finder");
    CHECK(finder.at("found").get<int>() <= fit.at("largest").get<int>());
    CHECK(finder.at("trials").at(0).at("value") == 2);
    CHECK(finder.at("time").get<double>() > 0);
    CHECK(contains(workspace.run(model + "--finder lightning").err, "lightning_power"));
    workspace.write("e.yaml",
                    "model: {preset: gpt2, layers: 1}\nhardware: v100-sxm-16gb\npolicies:\n  - "
                    "memory_elastic: {global_batch: 4, lengths: [64, 32]}\n");
    const Outcome elastic = workspace.run("run e.yaml --json");
    CHECK(elastic.code == 0);
    const auto steps = nlohmann::json::parse(elastic.out).at("elastic").at("steps");
    CHECK(steps.size() == 2);
    CHECK(contains(workspace.run("run e.yaml").out, "best fixed setting"));
    CHECK(contains(workspace.run("fit e.yaml").err, "e.yaml:4:5: policies.memory_elastic"));
  }
}

}  // namespace tidemark::testing::import_test
