#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::replay_allocator_test {

using namespace tidemark::testing;

namespace {

const std::string kTrace = tidemark::test::data_path("allocator/33_cnn.csv.gz");

Outcome replay(const std::string& arguments) {
  return Workspace().run("replay allocator " + kTrace + ' ' + arguments);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("replay allocator prints one document under the names of the cases") {
    const Outcome outcome = replay("--capacity 80GiB --json");
    REQUIRE(outcome.code == 0);
    CHECK(outcome.err.empty());
    const auto document = nlohmann::json::parse(outcome.out);
    CHECK(document["peak_reserved"] == 1260388352);
    CHECK(document["num_device_alloc"] == 34);
    CHECK(document["final"]["ooms"] == 0);
    CHECK(document["steps"].size() == 4);
  }

  TEST_CASE("replay allocator ends well when the trace runs out of memory") {
    const Outcome outcome = replay("--capacity 500MiB --allocator ideal");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "first failure: out of memory"));
  }

  TEST_CASE("mistakes on the command line of replay name the option") {
    const auto fails = [](const Outcome& outcome, const std::string& text) {
      CHECK(outcome.code == 2);
      CHECK(outcome.out.empty());
      CAPTURE(outcome.err);
      CHECK(contains(outcome.err, text));
    };
    fails(replay("--capacity 0"), "--capacity: must be more than 0 bytes");
    const Workspace space;
    fails(space.run("replay"), "tidemark replay needs one of its commands: allocator, eviction");
    fails(space.run("replay alocator"), "unknown command 'alocator'; did you mean 'allocator'?");
    fails(space.run("replay allocator snapshot.pickle --capacity 1GiB"),
          "snapshot.pickle: no such file");
    fails(replay("--capacity 1GiB --csv same.json --layout ./same.json"), "give two files");
    fails(replay("--capacity 1GiB --device 0"), "--device: only snapshots of PyTorch");
    fails(replay(""), "--capacity is required");
    fails(replay("--capacity 80G"), "--capacity: 80G is ambiguous");
    fails(replay("--capacity 1GiB --allocator bcf"), "did you mean 'bfc'?");
    fails(replay("--capacity 1GiB --conf max_split_size:64"),
          "--conf: unknown option 'max_split_size'; did you mean 'max_split_size_mb'?");
    fails(replay("--capacity 1GiB --memory-fraction 2"), "--memory-fraction: expected");
    fails(replay("--capacity 1GiB --event-delay -1"), "--event-delay: expected");
    fails(replay("--capacity 1GiB --allocator bfc --conf backend:native"),
          "--conf: only the allocator torch has it");
  }

  TEST_CASE("the rows of a replay are written whole or not at all") {
    const Workspace space;
    CHECK(space.run("replay allocator " + kTrace + " --capacity 80GiB --csv out.csv").code == 0);
    CHECK(space.names() == std::vector<std::string>{"out.csv"});
    std::filesystem::remove(space.folder() / "out.csv");
    space.write("bad.csv", "op,id,bytes,stream\na,1,512,0\nf,2,0,0\n");
    const Outcome outcome = space.run("replay allocator bad.csv --capacity 1GiB --csv out.csv");
    CHECK(outcome.code == 2);
    CHECK(outcome.err ==
          "tidemark: error: bad.csv:3:3: id: id 2 is freed but was never allocated\n");
    CHECK(space.names() == std::vector<std::string>{"bad.csv"});
  }

  TEST_CASE("a snapshot that a run has written is replayed, and nothing in a pickle is executed") {
    const Workspace space;
    space.write(
        "s.yaml",
        "model: {preset: gpt, layers: 2, width: 256, heads: 4, vocab: 4096, sequence: 256}\n"
        "hardware: v100-sxm-16gb\ntraining: {sequence: 256, precision: fp16_mixed}\n"
        "report: {formats: [json, torch_snapshot]}\n");
    REQUIRE(space.run("run s.yaml -o out").code == 0);
    REQUIRE(space.exists("out/torch_snapshot.pickle"));
    const auto point = nlohmann::json::parse(space.read("out/results.json"))["points"][0];
    const Outcome outcome =
        space.run("replay allocator out/torch_snapshot.pickle --capacity 15GiB --json");
    REQUIRE(outcome.code == 0);
    const auto document = nlohmann::json::parse(outcome.out);
    CHECK(document["peak_reserved"] == point["memory"]["peak_reserved"]);
    CHECK(document["snapshot"]["live_at_start"]["blocks"] == 0);
    CHECK(
        space.run("replay allocator out/torch_snapshot.pickle --capacity 15GiB --device 3").err ==
        "tidemark: error: out/torch_snapshot.pickle: device_traces: device 3 has no entries; those "
        "with entries: 0\n");
    space.write("evil.pickle", std::string("\x80\x02"
                                           "cos\nsystem\nX\x0a\x00\x00\x00touch gone\x85R.",
                                           31));
    const Outcome evil = space.run("replay allocator evil.pickle --capacity 1GiB");
    CHECK(evil.code == 2);
    CHECK(contains(evil.err, "evil.pickle: byte 2: opcode GLOBAL imports or calls something"));
    CHECK_FALSE(space.exists("gone"));
  }

  TEST_CASE("what is no regular file is written in place") {
    CHECK(replay("--capacity 1GiB --csv /dev/null").code == 0);
    CHECK(std::filesystem::is_character_file("/dev/null"));
    const Outcome outcome = replay("--capacity 1GiB --csv /dev/stderr");
    CHECK(outcome.err.starts_with("op,id,bytes,stream,addr,"));
  }
}

}  // namespace tidemark::replay_allocator_test
