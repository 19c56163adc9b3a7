#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::cli_compare_test {

using namespace tidemark::testing;

TEST_SUITE("unit") {
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
    for (const char* file : {"results.json", "compare.csv", "overhead.svg", "pareto.svg.csv"})
      CHECK(workspace.exists(std::string("out/") + file));
    CHECK(workspace.run("check s.yaml").code == 0);
    CHECK(workspace.run("compare s.yaml -s compare=null").code == 2);
  }
}

}  // namespace tidemark::cli_compare_test
