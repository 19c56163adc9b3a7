#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing {

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

}  // namespace tidemark::testing
