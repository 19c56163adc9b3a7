#include <filesystem>
#include <fstream>
#include <random>
#include <unordered_map>

#include <doctest/doctest.h>
#include <unistd.h>

#include "sim/memory/trace/id_map.hpp"
#include "sim/memory/trace/replay.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::trace_errors_test {

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("tidemark-trace-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

constexpr ReplayOptions kRoomy{.capacity = Bytes(std::int64_t{1} << 30)};

// Returns the error of replaying a trace, without the folder; "ok" and the rows when it can be
// replayed.
std::string outcome(std::string_view text, const ReplayOptions& options = kRoomy) {
  const Folder folder;
  const std::string trace = (folder.path / "t.csv").string();
  const std::string out = (folder.path / "out.csv").string();
  std::ofstream(trace, std::ios::binary) << text;
  try {
    WholeFile rows(out);
    static_cast<void>(replay_trace(trace, options, &rows));
    rows.commit();
  } catch (const UserError& error) {
    CHECK(!fs::exists(out));
    CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
    const std::string what = error.what();
    return what.substr(what.find("t.csv"));
  }
  std::ifstream file(out, std::ios::binary);
  return "ok " + std::string(std::istreambuf_iterator<char>(file), {});
}

std::string rows_of(std::string_view rows, const ReplayOptions& options = kRoomy) {
  return outcome("op,id,bytes,stream\n" + std::string(rows), options);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a trace that cannot be is an error at its line and column, and leaves no file") {
    CHECK(rows_of("a,1,512,0\nf,1,0,0\nf,1,0,0\n") ==
          "t.csv:4:3: id: id 1 is freed after it was freed");
    CHECK(rows_of("f,7,0,0\n") == "t.csv:2:3: id: id 7 is freed but was never allocated");
    CHECK(rows_of("a,1,512,0\na,1,512,0\n") ==
          "t.csv:3:3: id: id 1 is live: it is allocated a second time before it is freed");
    CHECK(rows_of("a,1,512,0\nf,1,0,0\nr,1,0,1\n") ==
          "t.csv:4:3: id: id 1 is recorded on a stream after it was freed");
    CHECK(rows_of("a,1,-5,0\n") == "t.csv:2:5: bytes: '-5' is negative");
    CHECK(rows_of("a,1,9223372036854775808,0\n") ==
          "t.csv:2:5: bytes: '9223372036854775808' does not fit into 63 bits");
    CHECK(rows_of("a,1,-9223372036854775809,0\n") ==
          "t.csv:2:5: bytes: '-9223372036854775809' is negative");
    CHECK(rows_of("a,1,1e3,0\n") == "t.csv:2:5: bytes: expected a whole number, found '1e3'");
    CHECK(rows_of("a,,512,0\n") == "t.csv:2:3: id: expected a whole number, found ''");
    CHECK(rows_of("x,1,512,0\n") == "t.csv:2:1: op: expected a, o, f, r, e or m, found 'x'");
    CHECK(rows_of("a,1,512\n") == "t.csv:2:8: the row ends after 3 of 4 columns");
  }

  TEST_CASE("a trace needs its columns, in any order") {
    CHECK(outcome("") ==
          "t.csv: the file is empty; a trace starts with the columns "
          "op,id,bytes,stream");
    CHECK(outcome("op,id,byte,stream\n") ==
          "t.csv:1:1: column 'bytes' is missing; did you mean 'byte'?; a trace starts with the "
          "columns op,id,bytes,stream");
    CHECK(outcome("op,id,id,bytes,stream\n") == "t.csv:1:7: column 'id' is there twice");
    CHECK(outcome("note,stream,bytes,id,op\r\nhello,0,512,4,a\r\n\r\n").starts_with("ok"));
  }

  TEST_CASE("requests of no bytes change nothing, those above an exabyte fail without a trace") {
    const std::string header =
        "ok op,id,bytes,stream,addr,allocated,reserved,active,inactive_split,segments,retries,"
        "ooms\n";
    CHECK(rows_of("a,1,0,0\nr,1,0,3\nf,1,0,0\n") ==
          header +
              "a,1,0,0,-1,0,0,0,0,0,0,0\nr,1,0,3,-1,0,0,0,0,0,0,0\n"
              "f,1,0,0,-1,0,0,0,0,0,0,0\n");
    CHECK(rows_of("a,1,9223372036854775807,0\n") ==
          header + "o,1,9223372036854775807,0,-1,0,0,0,0,0,0,0\n");
  }

  TEST_CASE("a failed request is written as o, and its later frees are left out") {
    const ReplayOptions tight{.capacity = Bytes(std::int64_t{4} << 20)};
    CHECK(rows_of("a,1,8388608,0\nr,1,0,1\nf,1,0,0\na,1,512,0\n", tight) ==
          "ok op,id,bytes,stream,addr,allocated,reserved,active,inactive_split,segments,retries,"
          "ooms\n"
          "o,1,8388608,0,-1,0,0,0,0,0,1,1\n"
          "a,1,512,0,0,512,2097152,512,2096640,1,1,1\n");
    CHECK(rows_of("a,1,8388608,0\nf,1,0,0\nf,1,0,0\n", tight) ==
          "t.csv:4:3: id: id 1 is freed after it was freed");
  }

  TEST_CASE("files that cannot be read are errors") {
    const Folder folder;
    CHECK_THROWS_AS(replay_trace((folder.path / "none.csv").string(), kRoomy), UserError);
    CHECK_THROWS_AS(replay_trace(folder.path.string(), kRoomy), UserError);
    const std::string cut = (folder.path / "cut.csv.gz").string();
    std::ifstream whole(test::data_path("allocator/33_cnn.csv.gz"), std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(whole), {});
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
    CHECK_THROWS_WITH_AS(replay_trace(cut, kRoomy),
                         (cut + ": the compressed file ends too early").c_str(), UserError);
    bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
    std::ofstream(cut, std::ios::binary) << bytes;
    CHECK_THROWS_AS(replay_trace(cut, kRoomy), UserError);
  }

  TEST_CASE("a file that ends in .gz is written compressed and reads back") {
    const Folder folder;
    const std::string path = (folder.path / "out.csv.gz").string();
    WholeFile file(path);
    for (int i = 0; i < 100'000; ++i)
      file.write("the same line\n");
    CHECK(!fs::exists(path));
    file.commit();
    CHECK(fs::file_size(path) < 100'000);
    LineReader reader(path);
    std::string_view line;
    std::int64_t lines = 0;
    while (reader.next(line))
      lines += line == "the same line" ? 1 : 0;
    CHECK(lines == 100'000);
  }
}

TEST_SUITE("property") {
  TEST_CASE("the flat map agrees with the standard one under random inserts and erases") {
    std::mt19937 random(5);
    IdMap<int> map;
    std::unordered_map<std::int64_t, int> model;
    for (int i = 0; i < 200'000; ++i) {
      const std::int64_t key = static_cast<std::int64_t>(random() % 700) * 4096;
      if (random() % 2 == 0) {
        map[key] = i;
        model[key] = i;
      } else if (int* found = map.find(key)) {
        REQUIRE(model.at(key) == *found);
        map.erase(found);
        model.erase(key);
      } else {
        REQUIRE(model.count(key) == 0);
      }
      REQUIRE(map.size() == model.size());
    }
    for (const auto& [key, value] : model)
      REQUIRE(*map.find(key) == value);
  }
}

}  // namespace tidemark::trace_errors_test
