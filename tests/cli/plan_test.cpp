#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::plan_test {

using namespace tidemark::testing;

namespace {

// a -> b -> c and back; keeping all takes 14 bytes during B_b.
constexpr const char* kGraph = R"({"name": "three", "fixed_bytes": 1, "nodes": [
  {"id": 0, "name": "a", "kind": "forward", "cost": 1, "bytes": 5, "workspace": 0, "deps": []},
  {"id": 1, "name": "b", "kind": "forward", "cost": 2, "bytes": 3, "workspace": 0, "deps": [0]},
  {"id": 2, "name": "c", "kind": "forward", "cost": 1, "bytes": 1, "workspace": 0, "deps": [1]},
  {"id": 3, "name": "Bc", "kind": "backward", "cost": 1, "bytes": 3, "workspace": 0, "deps": [1, 2]},
  {"id": 4, "name": "Bb", "kind": "backward", "cost": 2, "bytes": 5, "workspace": 0, "deps": [0, 3]}]})";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("plan prints a document with the interface's fields and exits with 0") {
    const Workspace workspace;
    workspace.write("g.json", kGraph);
    const Outcome outcome = workspace.run("plan g.json --policy optimal --budget 14 --json");
    CHECK(outcome.code == 0);
    const auto document = nlohmann::json::parse(outcome.out);
    CHECK(document.at("status") == "optimal");
    CHECK(document.at("policy") == "optimal");
    CHECK(document.at("class") == "fixed");
    CHECK(document.at("cost") == 7);
    CHECK(document.at("lower_bound") == 7);
    CHECK(document.at("base_cost") == 7);
    CHECK(document.at("peak") == 14);
    CHECK(document.at("budget") == 14);
    CHECK(document.at("order") == nlohmann::json::parse("[0, 1, 2, 3, 4]"));
    CHECK(document.at("solve_seconds").is_number());
  }

  TEST_CASE("a plan of many values names the first ones, and all of them in JSON") {
    const Workspace workspace;
    std::string nodes;
    for (int i = 0; i < 200; ++i) {
      nodes += fmt::format(
          "{{\"id\": {0}, \"name\": \"{1}{0}\", \"kind\": \"{2}\", \"cost\": 1, \"bytes\": 1, "
          "\"workspace\": 0, \"deps\": [{3}]}}{4}\n",
          i, i < 100 ? 'f' : 'b', i < 100 ? "forward" : "backward",
          i == 0     ? ""
          : i <= 100 ? fmt::format("{}", i - 1)
                     : fmt::format("{}, {}", i - 1, 199 - i),
          i < 199 ? "," : "");
    }
    workspace.write(
        "g.json",
        fmt::format("{{\"name\": \"chain\", \"fixed_bytes\": 0, \"nodes\": [{}]}}", nodes));
    const Outcome outcome = workspace.run("plan g.json --policy chen_sqrt --budget 60%");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, " more\n"));
    CHECK(contains(outcome.out, "--json has the whole order"));
    CHECK(outcome.out.size() < 1500);
  }

  TEST_CASE("a model's cost graph is what plan reads, and its peak is that of a scenario's plan") {
    const Workspace workspace;
    const std::string scenario =
        "version: 1\nmodel: resnet18\nhardware: a100-sxm-40gb\n"
        "training: {micro_batch: 4, framework: ideal}\nallocator: ideal\n"
        "policies: [optimal: {budget: 215MiB, iterations: 50}]\n";
    workspace.write("s.yaml", scenario);
    workspace.write("g.json", workspace.run("graph s.yaml --cost-graph").out);
    const Outcome planned = workspace.run("plan g.json --budget 215MiB --iterations 50 --json");
    const Outcome ran = workspace.run("run s.yaml --json");
    const auto plan = nlohmann::json::parse(planned.out);
    const auto policy = nlohmann::json::parse(ran.out).at("points").at(0).at("policies").at(0);
    CHECK(policy.at("budget") == 215 * 1024 * 1024);
    for (const char* key : {"status", "class", "peak", "cost", "base_cost", "lower_bound"})
      CHECK(policy.at(key) == plan.at(key));
    // The scenario itself may be given, or a model with its device.
    const Outcome direct = workspace.run("plan s.yaml --budget 215MiB --iterations 50 --json");
    CHECK(nlohmann::json::parse(direct.out).at("order") == plan.at("order"));
    const Outcome preset = workspace.run(
        "plan resnet18 --gpu a100-sxm-40gb -s training.micro_batch=4 -s training.framework=ideal "
        "--budget 215MiB --iterations 50 --json");
    CHECK(nlohmann::json::parse(preset.out).at("order") == plan.at("order"));
  }

  TEST_CASE("policies by kind plan alike for a model and for the cost graph written of it") {
    const Workspace workspace;
    for (const std::string options : {"resnet18 --gpu a100-sxm-40gb",
                                      "gpt2 --gpu h100-sxm-80gb -s training.precision=fp8_mixed",
                                      "gpt2 --gpu a100-sxm-80gb -s training.compile=inductor"}) {
      CAPTURE(options);
      workspace.write("g.json", workspace.run("graph " + options + " --cost-graph").out);
      for (const std::string policy : {"selective: {recompute: [batch_norm, layer_norm]}",
                                       "checkpoint_every: {over: layers}", "chen_sqrt"}) {
        CAPTURE(policy);
        const auto order = [&](const std::string& scenario) {
          const Outcome outcome = workspace.run(
              fmt::format("plan {} --budget 100% --policy \"{}\" --json", scenario, policy));
          return outcome.out.empty() ? outcome.err
                                     : nlohmann::json::parse(outcome.out).at("order").dump();
        };
        CHECK(order("g.json") == order(options));
      }
    }
  }

  TEST_CASE("a budget may be a share of what computing every node once takes") {
    const Workspace workspace;
    workspace.write("g.json", kGraph);
    const auto budget = [&](const char* share) {
      const Outcome outcome = workspace.run(fmt::format("plan g.json --budget {} --json", share));
      return nlohmann::json::parse(outcome.out).at("budget").get<int>();
    };
    CHECK(budget("100%") == 14);
    CHECK(budget("50%") == 7);
    CHECK(budget("92.9%") == 13);
    // Also where the policy has a budget of its own, which then counts.
    const std::string own = "plan g.json --policy 'optimal: {budget: 14}' --json --budget ";
    CHECK(nlohmann::json::parse(workspace.run(own + "50%").out).at("budget") == 14);
    const Outcome wrong = workspace.run(own + "xyz");
    CHECK(wrong.code == 2);
    CHECK(wrong.err.find("--budget: expected a size") != std::string::npos);
  }

  TEST_CASE("the help's example for a model fits, and names what is recomputed") {
    const Workspace workspace;
    const std::string help = workspace.run("plan --help").out;
    const std::string start = "tidemark plan resnet50";
    const std::size_t at = help.find(start);
    REQUIRE(at != std::string::npos);
    const std::string example = help.substr(at + 9, help.find('\n', at) - at - 9);
    CHECK(workspace.run(example + " --iterations 20").code == 0);
    // The report lists as many repeats as it counts, where it has room for all of them.
    std::string roomy = example;
    const std::size_t budget = roomy.find("60%");
    REQUIRE(budget != std::string::npos);
    roomy.replace(budget, 3, "70%");
    const Outcome planned = workspace.run(roomy + " --iterations 20");
    CHECK(planned.code == 0);
    CHECK(contains(planned.out, " ms, "));
    std::size_t listed = 0;
    const std::size_t list = planned.out.find("  recomputes ");
    REQUIRE(list != std::string::npos);
    for (const char c : planned.out.substr(list))
      listed += c == '\n' || c == ',' ? 1U : 0U;
    CHECK(contains(planned.out, fmt::format("  repeats      {}\n", listed)));
  }

  TEST_CASE("what does not fit exits with 1 and gives the least budget that could") {
    const Workspace workspace;
    workspace.write("g.json", kGraph);
    const Outcome outcome = workspace.run("plan g.json --budget 13 --json");
    CHECK(outcome.code == 1);
    const auto document = nlohmann::json::parse(outcome.out);
    CHECK(document.at("status") == "infeasible");
    CHECK(document.at("order").is_null());
    CHECK(contains(document.at("reason"), "14 bytes"));
  }

  TEST_CASE("bad input exits with 2 and says where and what") {
    const Workspace workspace;
    workspace.write("g.json", kGraph);
    const auto fails = [&](const std::string& arguments, const std::string& part) {
      const Outcome outcome = workspace.run("plan " + arguments);
      CAPTURE(outcome.err);
      CHECK(outcome.code == 2);
      CHECK(outcome.out.empty());
      CHECK(contains(outcome.err, part));
    };
    fails("g.json --budget 80G", "--budget");
    fails("g.json --budget -5", "--budget");
    fails("g.json --budget 120%", "up to 100 %");
    fails("resnet18 --budget 50%", "add --gpu");
    workspace.write("config.json", "{\"model_type\": \"gpt2\"}");
    fails("config.json --budget 50%", "no nodes and no fixed_bytes");
    fails("g.json --budget 20 --class fixd", "did you mean 'fixed'?");
    fails("g.json --budget 20 --policy optimum", "did you mean 'optimal'?");
    fails("g.json --budget 20 --policy 'checkpoint_every: {period: 0}'", "period");
    fails("g.json --budget 20 --policy 'checkpoint_every: {perid: 2}'", "did you mean 'period'?");
    fails("g.json --budget 20 --time-limit 10", "--time-limit");
    fails("none.json --budget 20", "none.json");
    fails("g.json", "--budget");
    std::string cycle = kGraph;
    cycle.replace(cycle.find("\"deps\": []"), 10, "\"deps\": [1]");
    workspace.write("cycle.json", cycle);
    fails("cycle.json --budget 20", "cycle.json:2:");
    std::string negative = kGraph;
    negative.replace(negative.find("\"cost\": 2"), 9, "\"cost\": -2");
    workspace.write("negative.json", negative);
    fails("negative.json --budget 20", "negative.json:3:");
  }
}

}  // namespace tidemark::plan_test
