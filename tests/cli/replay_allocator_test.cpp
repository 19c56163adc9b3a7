#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

const std::string kTrace = std::string(TIDEMARK_TEST_DATA) + "/allocator/33_cnn.csv.gz";

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr
};

Outcome replay(const std::string& arguments) {
  const std::string command =
      std::string(TIDEMARK_BINARY) + " replay " + arguments + " 2>&1 </dev/null";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.text.append(buffer.data(), n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome replay_trace_with(const std::string& arguments) {
  return replay("allocator " + kTrace + ' ' + arguments);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("replay allocator prints one document under the names of the cases") {
    const Outcome outcome = replay_trace_with("--capacity 80GiB --json");
    REQUIRE(outcome.code == 0);
    const auto document = nlohmann::json::parse(outcome.text);
    CHECK(document["peak_reserved"] == 1260388352);
    CHECK(document["num_device_alloc"] == 34);
    CHECK(document["final"]["ooms"] == 0);
    CHECK(document["steps"].size() == 4);
  }

  TEST_CASE("replay allocator ends well when the trace runs out of memory") {
    const Outcome outcome = replay_trace_with("--capacity 500MiB --allocator ideal");
    CHECK(outcome.code == 0);
    CHECK(outcome.text.find("first failure: out of memory") != std::string::npos);
  }

  TEST_CASE("mistakes on the command line of replay name the option") {
    const auto fails = [](const Outcome& outcome, const std::string& text) {
      CHECK(outcome.code == 2);
      CAPTURE(outcome.text);
      CHECK(outcome.text.find(text) != std::string::npos);
    };
    fails(replay(""), "tidemark replay needs one of its commands: allocator");
    fails(replay("alocator"), "unknown command 'alocator'; did you mean 'allocator'?");
    fails(replay_trace_with(""), "--capacity is required");
    fails(replay_trace_with("--capacity 80G"), "--capacity: 80G is ambiguous");
    fails(replay_trace_with("--capacity 1GiB --allocator bcf"), "did you mean 'bfc'?");
    fails(replay_trace_with("--capacity 1GiB --conf max_split_size:64"),
          "--conf: unknown option 'max_split_size'; did you mean 'max_split_size_mb'?");
    fails(replay_trace_with("--capacity 1GiB --memory-fraction 2"), "--memory-fraction: expected");
    fails(replay_trace_with("--capacity 1GiB --event-delay -1"), "--event-delay: expected");
    fails(replay_trace_with("--capacity 1GiB --allocator bfc --conf backend:native"),
          "--conf: only the allocator torch has it");
    fails(replay("allocator snapshot.pickle --capacity 1GiB"), "cannot be replayed yet");
  }

  TEST_CASE("the rows are written whole or not at all") {
    const fs::path folder =
        fs::temp_directory_path() / ("tidemark-replay-" + std::to_string(getpid()));
    fs::create_directories(folder);
    const std::string out = (folder / "out.csv").string();
    CHECK(replay_trace_with("--capacity 80GiB --csv " + out).code == 0);
    CHECK(fs::file_size(out) > 0);
    fs::remove(out);
    const std::string bad = (folder / "bad.csv").string();
    std::ofstream(bad) << "op,id,bytes,stream\na,1,512,0\nf,2,0,0\n";
    const Outcome outcome = replay("allocator " + bad + " --capacity 1GiB --csv " + out);
    CHECK(outcome.code == 2);
    CHECK(outcome.text ==
          "tidemark: error: " + bad + ":3:3: id: id 2 is freed but was never allocated\n");
    CHECK(!fs::exists(out));
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
    CHECK(replay("allocator " + kTrace + " --capacity 1GiB --csv /dev/null").code == 0);
    CHECK(fs::is_character_file("/dev/null"));
    fs::remove_all(folder);
  }
}
