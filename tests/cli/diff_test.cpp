// tidemark diff, as it is called.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

using namespace tidemark::testing;
using Json = nlohmann::json;

namespace {

const std::string kScenario = R"(
model: {preset: gpt, layers: 2, width: 128, heads: 2, vocab: 1024, sequence: 128}
hardware: a100-sxm-80gb
training: {micro_batch: 2, sequence: 128}
)";

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("diff compares a file with a change of itself, in text and in JSON") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    const Outcome text = work.run("diff s.yaml -b training.micro_batch=4");
    CHECK(text.code == 0);
    CHECK(text.err.empty());
    CHECK(contains(text.out, "At its peak B has "));
    CHECK(contains(text.out, "At the peak, by role"));
    CHECK(contains(text.out, "Time of a step"));
    CHECK(text.out.find('\x1b') == std::string::npos);
    const Outcome json = work.run("diff s.yaml -b training.micro_batch=4 --json");
    const Json document = Json::parse(json.out);
    for (const char* table : {"by_role", "by_layer", "by_tensor"}) {
      std::int64_t sum = 0;
      for (const Json& term : document[table])
        sum += term["difference"].get<std::int64_t>();
      CHECK(sum == document["peak"]["difference"].get<std::int64_t>());
    }
    CHECK(document["peak"]["difference"].get<std::int64_t>() > 0);
  }

  TEST_CASE("diff explains a snapshot of its own run entirely, and another one to the byte") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    REQUIRE(work.run("run s.yaml -o out -s 'report.formats=[torch_snapshot]'").code == 0);
    const Outcome same = work.run("diff s.yaml out/torch_snapshot.pickle");
    CHECK(same.code == 0);
    CHECK(contains(same.out, "100 % of what is live"));
    const Json equal = Json::parse(work.run("diff s.yaml out/torch_snapshot.pickle --json").out);
    CHECK(equal["explained"] == 1.0);
    CHECK(equal["reserved"]["difference"] == 0);
    CHECK(equal["only_a"].empty());
    const Json other = Json::parse(
        work.run("diff out/torch_snapshot.pickle s.yaml -b training.micro_batch=4 --json").out);
    CHECK(other["explained"] < 1.0);
    std::int64_t live = 0;
    std::int64_t reserved = 0;
    for (const Json& term : other["terms"])
      live += term["difference"].get<std::int64_t>();
    CHECK(live == other["live"]["difference"].get<std::int64_t>());
    reserved = live;
    for (const Json& term : other["above"])
      reserved += term["difference"].get<std::int64_t>();
    CHECK(reserved == other["reserved"]["difference"].get<std::int64_t>());
    // Twice the samples: whatever is left is twice as large.
    CHECK_FALSE(other["multiples"].empty());
    for (const Json& pair : other["multiples"])
      CHECK(pair["bytes_b"].get<std::int64_t>() == 2 * pair["bytes_a"].get<std::int64_t>());
    std::int64_t only_b = 0;
    for (const Json& group : other["only_b"])
      only_b += group["bytes"].get<std::int64_t>() * group["count"].get<std::int64_t>();
    CHECK(only_b == other["terms"][3]["b"].get<std::int64_t>());
  }

  TEST_CASE("diff says what it needs") {
    const Workspace work;
    work.write("s.yaml", kScenario);
    const Outcome alone = work.run("diff s.yaml");
    CHECK(alone.code == 2);
    CHECK(contains(alone.err, "name a second scenario or snapshot"));
    work.write("bad.pickle", "nothing");
    CHECK(work.run("diff s.yaml bad.pickle").code == 2);
    CHECK(work.run("diff s.yaml none.yaml").code == 2);
    REQUIRE(work.run("run s.yaml -o out -s 'report.formats=[torch_snapshot]'").code == 0);
    const Outcome ideal = work.run("diff s.yaml out/torch_snapshot.pickle -s allocator=ideal");
    CHECK(ideal.code == 2);
    CHECK(contains(ideal.err, "add -s allocator=torch"));
    const Outcome changed = work.run("diff s.yaml out/torch_snapshot.pickle -b name=x");
    CHECK(changed.code == 2);
    CHECK(contains(changed.err, "is a snapshot"));
  }
}
