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
    const Outcome wrong = workspace.run(small + "--budget 110%");
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "--budget:1:1: compare.budgets[0]"));
    const Outcome policy = workspace.run(small + "--budget 90% --policy '[checkpoint_every: 2]'");
    CHECK(contains(policy.err, "--policy:1:20"));
    CHECK(contains(policy.err, "write checkpoint_every: {period: 2}"));
  }
}

}  // namespace tidemark::cli_compare_test
