#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::fit_search_test {

TEST_SUITE("unit") {
  TEST_CASE("fit names the largest value, the reason of the next, and exits as run does") {
    const Workspace workspace;
    const std::string model = "fit gpt2 --gpu v100-sxm-16gb -s training.sequence=512";
    const Outcome found = workspace.run(model + " --json");
    CHECK(found.code == 0);
    const auto document = nlohmann::json::parse(found.out);
    const auto& fit = document.at("fit");
    CHECK(fit.at("key") == "training.micro_batch");
    CHECK(fit.at("next") == fit.at("largest").get<int>() + 1);
    CHECK(contains(fit.at("reason"), "out of device memory"));
    CHECK(document.at("points").size() > 4);
    const Outcome table = workspace.run(model);
    CHECK(contains(table.out, "is the largest that fits"));
    const Outcome none = workspace.run("fit llama-2-7b --gpu v100-sxm-16gb");
    CHECK(none.code == 1);
    CHECK(contains(none.out, "0 of 1 fit"));
    CHECK(workspace.run("fit gpt2 --gpu v100-sxm-16gb --limit 4 --multiple-of 8").code == 2);
    CHECK(workspace.run("fit gpt2 --gpu v100-sxm-16gb --maximize training.micro").code == 2);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("search names the best point of a sweep, and exits with 1 where none will do") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 3}\nhardware: v100-sxm-16gb\ntraining: "
                    "{sequence: 256}\nsweep: {matrix: {training.micro_batch: [1, 4, 512]}}\n"
                    "goal: {maximize: throughput.tokens_per_second}\n");
    const Outcome found = workspace.run("search s.yaml --json");
    CHECK(found.code == 0);
    const auto search = nlohmann::json::parse(found.out).at("search");
    CHECK(search.at("best") == 1);
    CHECK(search.at("ranking") == nlohmann::json::parse("[1, 0]"));
    CHECK(search.at("maximize") == "throughput.tokens_per_second");
    CHECK(contains(workspace.run("search s.yaml").out, "training.micro_batch 4"));
    const Outcome none = workspace.run(
        "search s.yaml -s goal='{minimize: time.step, subject_to: [\"memory.peak_live < 1MiB\"]}'");
    CHECK(none.code == 1);
    CHECK(contains(none.out, "none of them will do: 2 of 3 fit, 0 keep to"));
    CHECK(workspace.run("search s.yaml -s goal='{minimize: time}'").code == 2);
  }
}

}  // namespace tidemark::testing::fit_search_test
