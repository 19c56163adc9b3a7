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

  TEST_CASE("what fits with less than 3 % free is said to be close, by every command") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 2}\nhardware: {gpu: v100-sxm-16gb}\n"
                    "training: {sequence: 256}\n");
    const auto document = nlohmann::json::parse(workspace.run("run s.yaml --json").out);
    const auto used =
        document.at("points").at(0).at("memory").at("device_used").get<std::int64_t>();
    const auto with = [&](const std::string& command, double times) {
      const auto capacity = static_cast<std::int64_t>(static_cast<double>(used) * times);
      return workspace.run(command + " -s hardware.hbm.capacity=" + std::to_string(capacity) + "B")
          .out;
    };
    const std::string sweep = " -s 'sweep={matrix: {training.micro_batch: [1, 2]}}'";
    for (const std::string& command :
         {std::string("run s.yaml"), "run s.yaml" + sweep, "search s.yaml" + sweep}) {
      CAPTURE(command);
      CHECK(contains(with(command, 1.02), "less than 3 %"));
      CHECK_FALSE(contains(with(command, 2), "less than 3 %"));
    }
    CHECK(contains(with("fit s.yaml --limit 2", 1.02), "1 of these leaves less than 3 %"));
  }

  TEST_CASE("fit of a sweep has a row for each point, the same as a fit of that point") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 2}\nhardware: v100-sxm-16gb\n"
                    "training: {sequence: 256}\n"
                    "sweep: {matrix: {hardware: [v100-sxm-16gb, a100-sxm-40gb], policies: "
                    "[[], [checkpoint_every: {period: 1}]]}}\n");
    const Outcome all = workspace.run("fit s.yaml --json -j 2");
    REQUIRE(all.code == 0);
    const auto document = nlohmann::json::parse(all.out);
    REQUIRE(document.at("fits").size() == 4);
    const auto alone = nlohmann::json::parse(
        workspace.run("fit s.yaml --json -s sweep=null -s hardware=a100-sxm-40gb").out);
    CHECK(document.at("fits").at(2) == alone.at("fit"));
    CHECK(document.at("points").at(2).at("overrides").at("hardware") == "a100-sxm-40gb");
    CHECK(document.at("points").at(2).at("overrides").at("training.micro_batch") ==
          alone.at("fit").at("largest"));
    // A larger device holds a larger batch.
    CHECK(document.at("fits").at(3).at("largest") > document.at("fits").at(1).at("largest"));
    CHECK(contains(workspace.run("fit s.yaml").out, "The largest training.micro_batch that fits"));
    const Outcome changed =
        workspace.run("fit s.yaml -s 'sweep={matrix: {training.micro_batch: [1, 2]}}'");
    CHECK(changed.code == 2);
    CHECK(contains(changed.err, "the sweep changes training.micro_batch"));
  }

  TEST_CASE("several GPUs are a point each, in run, fit, explain and compare") {
    const Workspace workspace;
    const std::string gpus = " --gpu v100-sxm-16gb --gpu a100-sxm-40gb ";
    const auto points = [](const std::string& text) {
      return nlohmann::json::parse(text).at("points");
    };
    workspace.write("m.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4,
      "vocab_size": 500, "n_positions": 128})");
    const auto run = points(workspace.run("run m.json" + gpus + "--json").out);
    REQUIRE(run.size() == 2);
    CHECK(run.at(1).at("overrides").at("hardware") == "a100-sxm-40gb");
    const auto alone = points(workspace.run("run m.json --gpu a100-sxm-40gb --json").out);
    CHECK(run.at(1).at("memory") == alone.at(0).at("memory"));
    CHECK(points(workspace.run("explain m.json" + gpus + "--json").out).size() == 2);
    const auto fits =
        nlohmann::json::parse(workspace.run("fit m.json --limit 8" + gpus + "--json").out);
    CHECK(fits.at("fits").size() == 2);
    const auto compared = nlohmann::json::parse(
        workspace.run("compare m.json --budget 90% --policy chen_sqrt" + gpus + "--json").out);
    CHECK(compared.at("comparisons").size() == 2);
    CHECK(workspace.run("plan m.json" + gpus).code == 2);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("search names the best point of a sweep, and exits with 1 where none will do") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 3}\nhardware: v100-sxm-16gb\ntraining: "
                    "{sequence: 256}\nsweep: {matrix: {training.micro_batch: [1, 4, 512]}}\n"
                    "goal: {maximize: throughput.tokens_per_second}\n");
    const Outcome found = workspace.run("search s.yaml --every-point --json");
    CHECK(found.code == 0);
    const auto search = nlohmann::json::parse(found.out).at("search");
    CHECK(search.at("best") == 1);
    CHECK(search.at("ranking") == nlohmann::json::parse("[1, 0]"));
    CHECK(search.at("maximize") == "throughput.tokens_per_second");
    CHECK(search.at("front") == nlohmann::json::parse("[1]"));
    REQUIRE(search.at("left_out").size() == 1);
    CHECK(search.at("left_out")[0].at("point") == 2);
    CHECK(search.at("left_out")[0].at("constraint") == "fits");
    const auto point = nlohmann::json::parse(found.out).at("points").at(2);
    CHECK(search.at("left_out")[0].at("by") ==
          point.at("memory").at("smallest_capacity").get<double>() -
              point.at("memory").at("capacity").get<double>());
    // The largest is not simulated, and lacks no more than it is said to.
    const auto few = nlohmann::json::parse(workspace.run("search s.yaml --json").out);
    CHECK(few.at("points").size() == 2);
    CHECK(few.at("search").at("space") == 3);
    CHECK(few.at("search").at("ranking") == search.at("ranking"));
    const auto& out = few.at("search").at("not_simulated");
    REQUIRE(out.size() == 1);
    CHECK(out[0].at("overrides").at("training.micro_batch") == 512);
    CHECK(out[0].at("because") == "fits");
    CHECK(out[0].at("by_at_least") > 0);
    CHECK(out[0].at("by_at_least") <= search.at("left_out")[0].at("by"));
    CHECK(search.at("not_simulated").empty());
    CHECK(contains(workspace.run("search s.yaml").out,
                   "  1 cannot fit (not simulated); the nearest is training.micro_batch 512, by at "
                   "least "));
    const Outcome none_can = workspace.run(
        "search s.yaml -s goal='{minimize: time.per_token, subject_to: [\"time.step < 1us\"]}'");
    CHECK(none_can.code == 1);
    CHECK(contains(none_can.out, "over 3 points, 0 simulated, of which 0 fit"));
    CHECK(contains(none_can.out, "  2 cannot keep to time.step < 1us (not simulated); the "));
    const std::string text = workspace.run("search s.yaml --every-point").out;
    CHECK(contains(text, "training.micro_batch 4"));
    CHECK(contains(text,
                   "  1 lacks a figure of the goal:\n"
                   "    training.micro_batch 512: does not fit by "));
    const Outcome broken = workspace.run(
        "search s.yaml --every-point -s goal='{minimize: time.per_token, subject_to: [\"time.step "
        "< 1us\", "
        "\"memory.peak_live < 1MiB\"]}'");
    CHECK(broken.code == 1);
    CHECK(contains(broken.out, "breaks time.step < 1us by "));
    CHECK(contains(broken.out, " ms, breaks memory.peak_live < 1MiB by "));
    // A point of the front is better in one figure, and --json gives each point's figures as a
    // list.
    const Outcome front =
        workspace.run("search s.yaml -s goal='{minimize: [time.per_token, memory.device_used]}'");
    CHECK(front.code == 0);
    CHECK(contains(front.out, "smallest time.per_token and memory.device_used over 3 points"));
    CHECK(contains(front.out, "2 of them are on the front"));
    const Outcome first = workspace.run(
        "search s.yaml --top 1 -s goal='{minimize: [time.per_token, memory.device_used]}'");
    CHECK(contains(first.out, "and 1 more; --top shows them"));
    // A count of segments has no unit, though its name begins as those of bytes do.
    const Outcome share = workspace.run(
        "search s.yaml --every-point -s goal='{minimize: time.step, subject_to: "
        "[\"memory.allocator.segments <= 1\", \"throughput.tokens_per_second >= 1000000000\"]}'");
    CHECK(contains(share.out, "breaks memory.allocator.segments <= 1 by "));
    CHECK_FALSE(contains(share.out, " B, "));
    CHECK(contains(share.out, "has no figure for throughput.tokens_per_second >= 1000000000"));
    const Outcome listed = workspace.run(
        "search s.yaml --json -s goal='{minimize: [time.per_token, memory.device_used]}'");
    const auto both = nlohmann::json::parse(listed.out).at("search");
    CHECK(both.at("front") == nlohmann::json::parse("[1, 0]"));
    CHECK(both.at("minimize").size() == 2);
    CHECK(both.at("objective")[0].size() == 2);
    const Outcome none = workspace.run(
        "search s.yaml --every-point -s goal='{minimize: time.step, subject_to: "
        "[\"memory.peak_live < 1MiB\"]}'");
    CHECK(none.code == 1);
    CHECK(contains(none.out, "none of them will do: 2 of 3 fit, 0 keep to"));
    CHECK(workspace.run("search s.yaml -s goal='{minimize: time}'").code == 2);
  }

  TEST_CASE("search names the points that have no price, and says what gives them one") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 2}\ntraining: {sequence: 128}\n"
                    "hardware: {gpu: h100-sxm-80gb, price: 2.5}\n"
                    "sweep: {matrix: {hardware: [{gpu: h100-sxm-80gb, price: 2.5}, "
                    "a100-sxm-40gb]}}\ngoal: {minimize: cost}\n");
    const Outcome found = workspace.run("search s.yaml");
    CHECK(found.code == 0);
    CHECK(contains(found.out, "1 of 2 cannot be simulated: "));
    CHECK(contains(found.out, "hardware a100-sxm-40gb ("));
    CHECK(contains(found.out, "a cost needs hardware.price, what one device costs for an hour)"));
    CHECK_FALSE(contains(found.out, "no point that was left out would be better"));
  }

  TEST_CASE("search names the points that have no such figure as the goal's") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: gpt2\nhardware: h100-sxm-80gb\nsweep: {matrix: {model: [{preset: gpt2, "
                    "layers: 1}, resnet18]}}\ngoal: {minimize: time.per_token}\n");
    const Outcome found = workspace.run("search s.yaml");
    CHECK(found.code == 0);
    CHECK(contains(found.out, "1 of 2 have no time.per_token and are not compared: "));
    CHECK(contains(found.out, "resnet18\n"));
  }

  TEST_CASE("the time of a sample is a goal") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "model: {preset: gpt2, layers: 2}\nhardware: v100-sxm-16gb\ntraining: "
                    "{sequence: 256}\nsweep: {matrix: {training.micro_batch: [1, 4]}}\n"
                    "goal: {minimize: time.per_sample}\n");
    CHECK(contains(workspace.run("search s.yaml").out, "training.micro_batch 4: "));
  }

  TEST_CASE("a global batch says how many micro-batches a step has, whatever the parallel plan") {
    const Workspace workspace;
    const auto outcome = [&](const std::string& settings) {
      return workspace.run(
          "run llama-3-8b --gpu h100-sxm-80gb -s hardware.count=8 -s model.layers=4 "
          "-s training.sequence=64 --json " +
          settings);
    };
    const auto point = [&](const std::string& settings) {
      const Outcome run = outcome(settings);
      CAPTURE(run.err);
      REQUIRE(run.code == 0);
      return nlohmann::json::parse(run.out).at("points").at(0);
    };
    // 64 samples: of 8 data ranks, of 4 that each have two stages, of 2 that cut products in four.
    const std::string batch = "-s training.micro_batch=2 -s training.global_batch=64 ";
    const std::string micro = "-s training.micro_batch=2 -s training.accumulate=";
    for (const auto& [policies, accumulate] :
         {std::pair{"-s policies=[]", "4"},
          {"-s 'policies=[pipeline: {size: 2}]'", "8"},
          {"-s 'policies=[tensor_parallel: {size: 4}]'", "16"}}) {
      CAPTURE(std::string(policies));
      const auto given = point(batch + policies);
      const auto counted = point(micro + accumulate + " " + policies);
      CHECK(given.at("time") == counted.at("time"));
      CHECK(given.at("memory") == counted.at("memory"));
      CHECK(given.at("throughput") == counted.at("throughput"));
    }
    const auto refused = [&](const std::string& settings, const std::string& part) {
      const Outcome run = outcome(settings);
      CHECK(run.code == 2);
      CAPTURE(run.err);
      CHECK(contains(run.err, part));
    };
    refused("-s training.micro_batch=3 -s training.global_batch=64",
            "training.global_batch: 64 samples are no multiple of a micro-batch of 3 of each of 8 "
            "data ranks; write 48 or 72");
    refused("-s training.micro_batch=3 -s training.global_batch=4", "write 24");
    refused(
        batch + "-s training.accumulate=3",
        "3 micro-batches of 2 of each of 8 data ranks are 48 samples, and global_batch says 64");
    refused("-s training.global_batch=64000000", "at most 4096 are simulated in a step");
    refused(batch + "-s training.accumulate=1",
            "1 micro-batch of 2 of each of 8 data ranks are 16");
    const Outcome largest = workspace.run(
        "fit gpt2 --gpu h100 -s training.global_batch=64 --maximize training.micro_batch");
    CHECK(largest.code == 2);
    CHECK(contains(largest.err, "leaves a micro-batch only its divisors"));
    refused("-s global_batch_size=64", "training.global_batch: 64");
  }

  TEST_CASE("there is no largest number of GPUs") {
    const Workspace workspace;
    const Outcome count = workspace.run("fit gpt2 --gpu h100 --maximize hardware.count");
    CHECK(count.code == 2);
    CHECK(contains(count.err, "more GPUs take no more memory of one"));
    CHECK(contains(count.err, "sweep: {matrix: {hardware.count: [1, 2, 4, 8]}}"));
  }
}

}  // namespace tidemark::testing::fit_search_test
