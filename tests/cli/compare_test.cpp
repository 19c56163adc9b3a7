#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"
#include "tidemark/version.hpp"

namespace tidemark::cli_compare_test {

using namespace tidemark::testing;

TEST_SUITE("unit") {
  TEST_CASE("runs of one policy for several budgets have names of their own") {
    const Workspace workspace;
    REQUIRE(workspace
                .run("compare gpt2 --gpu v100-sxm-16gb -s model.layers=2 -s model.vocab=4096 -s "
                     "training.micro_batch=4 --budget 70% --budget 90% --policy capuchin "
                     "-s 'report={formats: [svg]}' -o out")
                .code == 0);
    std::istringstream rows(workspace.read("out/pareto.svg.csv"));
    std::set<std::string> names;
    std::string row;
    std::getline(rows, row);
    int count = 0;
    for (; std::getline(rows, row); ++count)
      names.insert(row.substr(0, row.find("\",")));
    CHECK(count > 2);
    CHECK(static_cast<int>(names.size()) == count);
  }

  TEST_CASE(
      "compare writes its files, exits with 0 also where nothing fits, and prints one document") {
    const Workspace workspace;
    workspace.write(
        "s.yaml", "model: {graph: " + tidemark::test::data_path("rematerialization/chain_n6.json") +
                      "}\n"
                      "compare: {policies: [[], [optimal]], budgets: [100%, 1]}\n");
    const Outcome outcome = workspace.run("compare s.yaml --json -o out");
    CHECK(outcome.code == 0);
    CHECK(outcome.err.starts_with("tidemark: wrote out/results.json, out/compare.csv, "));
    const auto document = nlohmann::json::parse(outcome.out);
    REQUIRE(document.at("points").size() == 4);
    CHECK(document.at("points")[0].at("status") == "fits");
    CHECK(document.at("points")[3].at("status") == "infeasible");
    for (const char* file : {"results.json", "compare.csv", "overhead.svg", "overhead.pdf",
                             "pareto.svg.csv", "pareto.pdf"})
      CHECK(workspace.exists(std::string("out/") + file));
    CHECK(
        contains(workspace.read("out/overhead.svg"),
                 ">reproduce (tidemark " + std::string(kVersion) + "): tidemark compare s.yaml<"));
    CHECK(workspace.read("out/pareto.svg.csv").starts_with("name,memory_bytes,cost,"));
    CHECK(workspace.run("check s.yaml").code == 0);
    CHECK(workspace.run("compare s.yaml -s compare=null").code == 2);
  }

  TEST_CASE("a scenario's own policies are compared, and those that make its model stay") {
    const Workspace workspace;
    const std::string model =
        "model: {preset: gpt2, layers: 2, vocab: 1024, width: 192}\nhardware: h100-sxm-80gb\n"
        "training: {sequence: 128}\n";
    workspace.write("own.yaml", model +
                                    "policies: [{lora: {rank: 4, targets: [c_attn]}}, "
                                    "{checkpoint: {first: 1}}]\n");
    const std::string options = " --budget 100% --policy chen_greedy --json";
    const auto document = nlohmann::json::parse(workspace.run("compare own.yaml" + options).out);
    // No policy, chen_greedy, and what the scenario does itself; each with the scenario's adapters.
    REQUIRE(document.at("points").size() == 3);
    for (const auto& point : document.at("points"))
      CHECK(point.at("overrides").at("policies").at(0).contains("lora"));
    const auto& own = document.at("points")[2];
    CHECK(own.at("overrides").at("policies").at(1).contains("checkpoint"));
    const auto alone = nlohmann::json::parse(workspace.run("run own.yaml --json").out);
    CHECK(own.at("time").at("step") == alone.at("points")[0].at("time").at("step"));
    // Without the second policy the base is what runs.
    workspace.write("lora.yaml", model + "policies: [{lora: {rank: 4, targets: [c_attn]}}]\n");
    const auto base = nlohmann::json::parse(workspace.run("compare lora.yaml" + options).out);
    REQUIRE(base.at("points").size() == 2);
    const auto adapters = nlohmann::json::parse(workspace.run("run lora.yaml --json").out);
    CHECK(base.at("points")[0].at("time").at("step") ==
          adapters.at("points")[0].at("time").at("step"));
    CHECK(contains(workspace.run("compare lora.yaml --budget 100% --policy chen_greedy").out,
                   ": with lora(rank 4, targets [\"c_attn\"]) alone "));
    // A policy that cannot stand beside a list gives way to it.
    workspace.write("zero.yaml", model + "policies: [zero]\n");
    const auto sharded = nlohmann::json::parse(
        workspace
            .run("compare zero.yaml -s hardware.count=2 --budget 100% --policy fsdp "
                 "--policy '[checkpoint: {first: 1}]' --json")
            .out);
    REQUIRE(sharded.at("points").size() == 3);
    CHECK(sharded.at("points")[1].at("overrides").at("policies") ==
          nlohmann::json::array({"fsdp"}));
    CHECK(sharded.at("points")[2].at("overrides").at("policies").at(0) == "zero");
    // An author who names the lists is told what is left out of them.
    workspace.write("named.yaml", model +
                                      "policies: [{checkpoint: {first: 1}}]\ncompare: "
                                      "{policies: [[], [chen_greedy]], budgets: [100%]}\n");
    const Outcome named = workspace.run("compare named.yaml --json");
    CHECK(nlohmann::json::parse(named.out).at("points").size() == 2);
    CHECK(contains(named.err, "checkpoint(first 1), which the scenario lists under policies"));
  }

  TEST_CASE("a model is compared without a file, under budgets and policies of the command line") {
    const Workspace workspace;
    const std::string small =
        "compare gpt2 --gpu h100 -s model.layers=2 -s model.vocab=1024 -s model.width=192 "
        "-s training.sequence=128 "
        "-s compare.iterations=10 ";
    const Outcome usual = workspace.run(small + "--budget 90% --json");
    CHECK(usual.code == 0);
    CHECK(nlohmann::json::parse(usual.out).at("points").size() == 5);
    const Outcome chosen = workspace.run(small +
                                         "--budget 90% --budget 95% --policy optimal --policy "
                                         "'[checkpoint_every: {period: 2}]' --json");
    CHECK(nlohmann::json::parse(chosen.out).at("points").size() == 6);
    // A policy or a budget that is given twice is compared once.
    const Outcome twice = workspace.run(small +
                                        "--budget 90% --budget 90% --policy optimal --policy "
                                        "'[optimal]' --policy '[]' --json");
    CHECK(nlohmann::json::parse(twice.out).at("points").size() == 2);
    const Outcome no_unit = workspace.run(small + "--budget 12");
    CHECK(no_unit.code == 2);
    CHECK(contains(no_unit.err, "12 bytes hold no step; is 12GiB meant?"));
    const Outcome wrong = workspace.run(small + "--budget 110%");
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "--budget:1:1: compare.budgets[0]"));
    const Outcome policy = workspace.run(small + "--budget 90% --policy '[checkpoint_every: 2]'");
    CHECK(contains(policy.err, "--policy:1:20"));
    CHECK(contains(policy.err, "write checkpoint_every: {period: 2}"));
  }
}

}  // namespace tidemark::cli_compare_test
