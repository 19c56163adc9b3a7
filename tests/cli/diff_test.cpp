// tidemark diff on the command line.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/sim/memory/snapshot_file.hpp"

namespace tidemark::diff_test {

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
    // Every tensor has its name: those of twice the samples are twice as large.
    std::int64_t larger = 0;
    std::int64_t all = 0;
    for (const Json& group : other["matched"]) {
      const auto bytes_a = group["bytes_a"].get<std::int64_t>();
      const auto bytes_b = group["bytes_b"].get<std::int64_t>();
      const auto count = group["count"].get<std::int64_t>();
      all += count * (bytes_b - bytes_a);
      if (group["by"] != "the same tensor, another size") continue;
      CHECK(bytes_b == 2 * bytes_a);
      ++larger;
    }
    CHECK(larger > 10);
    CHECK(other["only_a"].empty());
    CHECK(other["only_b"].empty());
    CHECK(all == live);
  }

  TEST_CASE("diff with a snapshot of PyTorch says per line how it was matched") {
    const std::string torch = "/usr/lib/python3/dist-packages/torch/";
    const std::vector<SnapshotFrame> linear{{"at::_ops::empty_memory_format::call(...)", "??", 0},
                                            {"at::_ops::addmm::call(...)", "??", 0},
                                            {"forward", torch + "nn/modules/linear.py", 116},
                                            {"_call_impl", torch + "nn/modules/module.py", 1527},
                                            {"forward", "/home/me/model.py", 54}};
    // 3 x 3 MiB of one operator, and a tensor of 1000 bytes without a stack.
    std::vector<Entry> trace{{"segment_alloc", 0x10000000, 20 << 20}};
    for (std::int64_t i = 0; i < 3; ++i)
      trace.push_back({"alloc", 0x10000000 + (i << 22), 3 << 20, 0, linear});
    trace.push_back({"alloc", 0x20000000, 1000, 0, {}});
    const SnapshotFile file({trace}, {});
    const Workspace work;
    // GELU keeps the outputs of three linear layers, 8192 x 192 of 4 bytes; the loss has the last.
    work.write("s.yaml", R"(
model: {preset: mlp, widths: [192, 192, 192, 192, 192], activation: gelu}
hardware: a100-sxm-80gb
training: {micro_batch: 8192, precision: fp32, optimizer: sgd}
)");
    const std::string command = "diff s.yaml " + file.path();
    const Outcome text = work.run(command);
    INFO(text.err);
    REQUIRE(text.code == 0);
    CHECK(contains(text.out, "forward model.py:54: linear in forward"));
    CHECK(contains(text.out, "matched by"));
    const Json json = Json::parse(work.run(command + " --json").out);
    std::int64_t linears = 0;
    for (const Json& group : json["matched"]) {
      if (group["b"] != "forward model.py:54: linear in forward") continue;
      CHECK(group["by"] == "the same operator, another size");
      CHECK(group["bytes_a"] == 8192 * 192 * 4);
      CHECK(group["bytes_b"] == 3 << 20);
      linears += group["count"].get<std::int64_t>();
    }
    CHECK(linears == 3);
    std::int64_t live = 0;
    std::size_t allocations = 0;
    for (const Json& term : json["terms"]) {
      live += term["difference"].get<std::int64_t>();
      if (term["name"] != "only in A") allocations += term["count"].get<std::size_t>();
    }
    CHECK(live == json["live"]["difference"].get<std::int64_t>());
    CHECK(json["live"]["b"] == 3 * (3 << 20) + 1000);
    CHECK(allocations == 4);
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

}  // namespace tidemark::diff_test
