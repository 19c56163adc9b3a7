// Pickles as data: plain containers are read, everything else is refused at its byte.
#include "sim/memory/trace/pickle_reader.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "graph/core/errors.hpp"

namespace tidemark::pickle_reader_test {

namespace {

// A file that exists for one test.
class PickleFile {
 public:
  explicit PickleFile(const std::string& bytes)
      : path_((std::filesystem::temp_directory_path() /
               fmt::format("tidemark-pickle-{}.pickle", getpid()))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~PickleFile() { std::filesystem::remove(path_); }
  PickleFile(const PickleFile&) = delete;
  PickleFile& operator=(const PickleFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <std::size_t N>
std::string bytes(const char (&text)[N]) {
  return std::string(text, N - 1);
}

std::string problem_of(const std::string& content) {
  const PickleFile file(content);
  try {
    const Pickle pickle(file.path());
  } catch (const UserError& error) {
    return error.problem();
  }
  return "accepted";
}

// pickle.dumps({'a': [1, 300, -5, 2**40, 2**63 - 1, True, None, 1.5], 'b': ('x', 'x')}, 2)
const std::string kProtocol2 = bytes(
    "\x80\x02}q\x00(X\x01\x00\x00\x00"
    "aq\x01]q\x02(K\x01M,\x01J\xfb\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x08\xff\xff\xff"
    "\xff\xff\xff\xff\x7f\x88NG?\xf8\x00\x00\x00\x00\x00\x00"
    "eX\x01\x00\x00\x00"
    "bq\x03X\x01\x00\x00\x00xq\x04h\x04\x86q\x05u.");
// The object of kProtocol2, pickled with protocol 4.
const std::string kProtocol4 = bytes(
    "\x80\x04\x95\x3f\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
    "a\x94]\x94(K\x01M,"
    "\x01J\xfb\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x08\xff\xff\xff\xff"
    "\xff\xff\xff\x7f\x88NG?\xf8\x00\x00\x00\x00\x00\x00"
    "e\x8c\x01"
    "b\x94\x8c\x01x\x94h\x04\x86\x94u.");

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("containers, texts and numbers of protocols 2 and 4 are read") {
    for (const std::string& content : {kProtocol2, kProtocol4}) {
      const PickleFile file(content);
      const Pickle pickle(file.path());
      REQUIRE(pickle.top().kind() == PickleKind::kDict);
      const PickleValue* a = pickle.find(pickle.top(), "a");
      REQUIRE(a != nullptr);
      const auto items = pickle.items(*a);
      REQUIRE(items.size() == 8);
      CHECK(items[0].integer() == 1);
      CHECK(items[1].integer() == 300);
      CHECK(items[2].integer() == -5);
      CHECK(items[3].integer() == std::int64_t{1} << 40);
      CHECK(items[4].integer() == std::numeric_limits<std::int64_t>::max());
      CHECK(items[5].kind() == PickleKind::kBoolean);
      CHECK(items[6].kind() == PickleKind::kNone);
      CHECK(items[7].real() == 1.5);
      const auto pair = pickle.items(*pickle.find(pickle.top(), "b"));
      REQUIRE(pair.size() == 2);
      CHECK(pickle.text(pair[0]) == "x");
      CHECK(pickle.text(pair[1]) == "x");
      CHECK(pickle.find(pickle.top(), "c") == nullptr);
    }
  }

  TEST_CASE("what would import or call is refused with the name and byte of its opcode") {
    const auto refused = [](const std::string& content, std::size_t byte, const std::string& name) {
      const std::string problem = problem_of(content);
      CAPTURE(problem);
      CHECK(problem.starts_with(
          fmt::format("byte {}: opcode {} imports or calls something", byte, name)));
    };
    refused(bytes("\x80\x02"
                  "cos\nsystem\nX\x02\x00\x00\x00ls\x85R."),
            2, "GLOBAL");
    refused(bytes("\x80\x04\x8c\x02os\x8c\x06system\x93."), 14, "STACK_GLOBAL");
    refused(bytes("\x80\x02K\x01)R."), 5, "REDUCE");
    refused(bytes("\x80\x02K\x01}b."), 5, "BUILD");
    refused(bytes("\x80\x02(ios\nsystem\n."), 3, "INST");
    refused(bytes("\x80\x02K\x01)\x81."), 5, "NEWOBJ");
    refused(bytes("\x80\x02K\x01Q."), 4, "BINPERSID");
    CHECK(problem_of(bytes("\x80\x04\x8f.")) ==
          "byte 2: opcode EMPTY_SET does not occur in a snapshot");
    CHECK(problem_of(bytes("\x80\x02\xff.")) == "byte 2: 0xff is no opcode of a pickle");
  }

  TEST_CASE("malformed pickles are reported with the byte and the reason") {
    CHECK(problem_of("") ==
          "byte 0: is no pickle of protocol 2 or newer: it does not begin with "
          "the opcode PROTO");
    CHECK(problem_of(bytes("\x80\x07N.")) == "byte 0: protocol 7 is not one of 2 to 5");
    CHECK(problem_of(bytes("\x80\x02X\xff\x00\x00\x00"
                           "abc.")) == "byte 2: the file ends 251 bytes too early");
    CHECK(problem_of(bytes("\x80\x02h\x05.")) == "byte 2: place 5 of the memo has not been filled");
    CHECK(problem_of(bytes("\x80\x02Nr\xff\xff\xff\xff.")) ==
          "byte 3: place 4294967295 of the memo is out of range");
    CHECK(problem_of(bytes("\x80\x02"
                           "e.")) == "byte 2: there is no mark on the stack for this opcode");
    CHECK(problem_of(bytes("\x80\x02N(K\x01"
                           "e.")) == "byte 6: there is no list below the items");
    CHECK(problem_of(bytes("\x80\x02}(K\x01u.")) == "byte 6: a key has no value");
    CHECK(problem_of(bytes("\x80\x02N")) == "byte 3: the file ends without the opcode STOP");
    CHECK(problem_of(bytes("\x80\x02NN.")) ==
          "byte 4: the pickle ends with 2 values on the stack instead of one");
    CHECK(problem_of(bytes("\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00N.")) ==
          "byte 2: a frame is longer than the file");
  }

  TEST_CASE("depth costs nothing: a million lists in one another are read") {
    constexpr std::size_t kDepth = 1'000'000;
    std::string nested = bytes("\x80\x02");
    nested.append(kDepth, ']').append(kDepth - 1, 'a').append(".");
    const PickleFile file(nested);
    const Pickle pickle(file.path());
    CHECK(pickle.items(pickle.top()).size() == 1);
  }
}

TEST_SUITE("property") {
  TEST_CASE("no beginning of a pickle and no damaged one does harm") {
    for (const std::string& whole : {kProtocol2, kProtocol4}) {
      for (std::size_t length = 0; length < whole.size(); ++length)
        CHECK(problem_of(whole.substr(0, length)).starts_with("byte "));
      std::uint32_t random = 7;
      const auto next = [&] { return (random = random * 1664525U + 1013904223U) >> 8U; };
      int refused = 0;
      for (int i = 0; i < 3000; ++i) {
        std::string damaged = whole;
        for (int change = 0; change < 1 + i % 3; ++change)
          damaged[2 + next() % (damaged.size() - 2)] = static_cast<char>(next());
        const std::string problem = problem_of(damaged);
        CHECK((problem == "accepted" || problem.starts_with("byte ")));
        refused += problem == "accepted" ? 0 : 1;
      }
      CHECK(refused > 1000);
    }
  }
}

}  // namespace tidemark::pickle_reader_test
