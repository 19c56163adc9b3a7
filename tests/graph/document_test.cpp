#include "graph/core/document.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

namespace tidemark::document_test {
namespace {

// Returns the message of the reader for a text that it refuses.
std::string refusal(const std::string& text, const std::string& file = "s.yaml") {
  try {
    static_cast<void>(parse_document(text, file));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string file_refusal(const std::string& path) {
  try {
    static_cast<void>(read_document(path));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string repeat(const std::string& text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i)
    repeated += text;
  return repeated;
}

// A folder under the system's temporary one that is removed with the test.
struct Folder {
  std::filesystem::path path;

  explicit Folder(const std::string& name)
      : path(std::filesystem::temp_directory_path() / ("tidemark_document_test_" + name)) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

TEST_SUITE("unit") {
  TEST_CASE("every key and value of a YAML text knows its line and column") {
    const Value root = parse_document("a: 1\nb:\n  c: [x, \"7\"]\n  d:\n", "s.yaml");
    REQUIRE(root.is_mapping());
    REQUIRE(root.entries.size() == 2);
    CHECK(root.entries[1].key == "b");
    CHECK(root.entries[1].location.line == 2);
    CHECK(root.entries[1].location.column == 1);
    const Value* c = root.find("b")->find("c");
    REQUIRE(c != nullptr);
    REQUIRE(c->is_sequence());
    CHECK(c->location.line == 3);
    CHECK(c->location.column == 6);
    CHECK(c->items[0].scalar == "x");
    CHECK_FALSE(c->items[0].quoted);
    CHECK(c->items[1].quoted);
    CHECK(c->items[1].location.column == 10);
    CHECK(c->items[1].location.file == "s.yaml");
    CHECK(root.find("b")->find("d")->is_null());
    CHECK(root.find("e") == nullptr);
    CHECK(root.find("a")->find("b") == nullptr);
  }

  TEST_CASE("JSON indented with tabs reads like any other") {
    const Value root =
        parse_document("{\n\t\"a\": [1, -2.5e3, true, null, NaN],\n\t\"b\": {}\n}\n", "c.json");
    const Value* a = root.find("a");
    REQUIRE(a != nullptr);
    REQUIRE(a->items.size() == 5);
    CHECK(root.entries[0].location.line == 2);
    CHECK(root.entries[0].location.column == 2);
    CHECK(a->items[1].scalar == "-2.5e3");
    CHECK_FALSE(a->items[2].quoted);
    CHECK(a->items[3].is_null());
    CHECK(a->items[4].scalar == "NaN");
    CHECK(root.find("b")->is_mapping());
  }

  TEST_CASE("JSON escapes stand for their characters") {
    const Value root = parse_document(R"(["\u00e9\u20ac\ud83d\ude00\/\n\"\\"])", "c.json");
    CHECK(root.items[0].scalar == "\u00e9\u20ac\U0001F600/\n\"\\");
    CHECK(root.items[0].quoted);
  }

  TEST_CASE("JSON and YAML give the same tree") {
    const std::string json = R"({"a": [1, "x"], "b": {"c": null}})";
    const Value by_json = parse_document(json, "c.json");
    const Value by_yaml = parse_document("# YAML\n" + json, "c.yaml");
    for (const Value* root : {&by_json, &by_yaml}) {
      CHECK(root->find("a")->items[0].scalar == "1");
      CHECK_FALSE(root->find("a")->items[0].quoted);
      CHECK(root->find("a")->items[1].quoted);
      CHECK(root->find("b")->find("c")->is_null());
      CHECK(root->find("b")->location.column == 22);
    }
  }

  TEST_CASE("a text that starts with a bracket may be YAML all the same") {
    CHECK(parse_document("{a: 1, b: [x, ],}  # fine\n", "s.yaml").entries.size() == 2);
  }

  TEST_CASE("an empty text is null") {
    for (const std::string text : {"", "\n", "# only a comment\n", "---\n", "~", "\xEF\xBB\xBF"}) {
      const Value root = parse_document(text, "s.yaml");
      CHECK(root.is_null());
      CHECK(root.location.file == "s.yaml");
    }
    CHECK(parse_document(" ", "c.json").is_null());
  }

  TEST_CASE("a byte order mark and CRLF line ends are accepted") {
    CHECK(parse_document("\xEF\xBB\xBF{\"a\": 1}", "c.json").entries[0].location.column == 2);
    const Value root = parse_document(
        "\xEF\xBB\xBF"
        "a: 1\r\nb: 2\r\n",
        "s.yaml");
    CHECK(root.find("a")->scalar == "1");
    CHECK(root.entries[1].location.line == 2);
    CHECK(refusal("a: 1\rb: 2\r") ==
          "s.yaml:1:1: the lines end in CR alone; save the file with LF or CRLF line ends");
  }

  TEST_CASE("a duplicate key is reported at the second place with the line of the first") {
    CHECK(refusal("a: 1\nb: 2\na: 3\n") == "s.yaml:3:1: a: duplicate key; first given on line 1");
    CHECK(refusal("x:\n  a: 1\n  \"a\": 3\n") ==
          "s.yaml:3:3: x.a: duplicate key; first given on line 2");
    CHECK(refusal(R"({"a": 1, "a": 2})", "c.json") ==
          "c.json:1:10: a: duplicate key; first given on line 1");
    // A large mapping is searched in another way than a small one.
    std::string large;
    for (int i = 0; i < 1000; ++i)
      large += "k" + std::to_string(i) + ": 1\n";
    CHECK(refusal(large + "k5: 2\n") == "s.yaml:1001:1: k5: duplicate key; first given on line 6");
    CHECK(refusal(large + "n: 2\nn: 3\n") ==
          "s.yaml:1002:1: n: duplicate key; first given on line 1001");
  }

  TEST_CASE("keys that are no texts are refused") {
    CHECK(refusal("<<: {a: 1}") ==
          "s.yaml:1:1: merge keys ('<<') are not supported; write the keys out");
    CHECK(refusal("\"<<\": 1") == "accepted");
    CHECK(refusal("? [1]\n: 2") ==
          "s.yaml:1:3: a key must be a plain text, not a list or a mapping; quote it if it is a "
          "text");
    CHECK(refusal("a: 1\n~: 2") ==
          "s.yaml:2:1: a key is missing here; a key may not be empty or null");
    CHECK(refusal(": 2") == "s.yaml:1:1: a key is missing here; a key may not be empty or null");
  }

  TEST_CASE("a key without its colon is not taken for one with an empty value") {
    CHECK(refusal("a: 1\nb\n") == "s.yaml:2:1: b: expected ':' after the key");
    CHECK(refusal("{a:1}") ==
          "s.yaml:1:2: a:1: expected ': ' after the key; a blank must follow the colon");
    CHECK(refusal("{a, b: 1}") == "s.yaml:1:2: a: expected ':' after the key");
    CHECK(refusal("a :\n'it''s':\n\"q\\\"\" :\n") == "accepted");
  }

  TEST_CASE("an item that is missing between commas is not taken for null") {
    CHECK(refusal("[1, ,2]") == "s.yaml:1:5: [1]: an item is missing before ','");
    CHECK(refusal("[1, ~, null]") == "accepted");
  }

  TEST_CASE("one file holds one document") {
    CHECK(refusal("a: 1\n---\nb: 2\n") ==
          "s.yaml:2:1: a second document starts here; write one per file");
    CHECK(
        refusal("{a: 1} b") ==
        "s.yaml:1:8: there is more text after the end of the document; is the indentation right?");
    CHECK(
        refusal("  a: 1\nb: 2\n") ==
        "s.yaml:2:1: there is more text after the end of the document; is the indentation right?");
    CHECK(refusal("[1] [2]", "c.json") ==
          "c.json:1:5: there is more text after the end of the JSON value");
    CHECK(refusal("%YAML 1.2\n---\na: 1\n...\n") == "accepted");
    CHECK(refusal("%PDF-1.7\na: 1\n") == "s.yaml:1:1: a text may not start with '%'; quote it");
  }

  TEST_CASE("tags of YAML's own types are read and others refused") {
    const Value root = parse_document("a: !!str 8\nb: !!int \"8\"\nc: ! 8\nd: !!str\n", "s.yaml");
    CHECK(root.find("a")->quoted);
    CHECK_FALSE(root.find("b")->quoted);
    CHECK(root.find("c")->quoted);
    CHECK(root.find("d")->is_scalar());
    CHECK(refusal("a: !!python/object x") ==
          "s.yaml:1:4: a: the tag '!!python/object' is not supported on a text or a number; leave "
          "it out");
    CHECK(refusal("!gpu {a: 1}") ==
          "s.yaml:1:1: the tag '!gpu' is not supported on a mapping; leave it out");
    CHECK(refusal("!!map [1]") ==
          "s.yaml:1:1: the tag '!!map' is not supported on a list; leave it out");
  }

  TEST_CASE("an alias is a copy of the value that it names") {
    const Value root = parse_document("a: &x [1, {b: 2}]\nc: *x\n", "s.yaml");
    const Value* c = root.find("c");
    REQUIRE(c->is_sequence());
    CHECK(c->items[1].find("b")->scalar == "2");
    CHECK(c->items[1].find("b")->location.line == 1);
    CHECK(refusal("a: *nothing") ==
          "s.yaml:1:4: a: no anchor (&) of this name stands before this alias (*)");
    CHECK(refusal("a: &x [1, *x]") ==
          "s.yaml:1:11: a[1]: this alias stands inside the value that it names");
  }

  TEST_CASE("aliases of aliases cannot fill the memory") {
    std::string lists = "a: &a [x, x, x, x, x, x, x, x, x]\n";
    for (char c = 'b'; c < 'p'; ++c) {
      const std::string alias = std::string("*") + static_cast<char>(c - 1) + " ";
      lists += std::string(1, c) + ": &" + c + " [" + repeat(alias + ", ", 9) + "]\n";
    }
    CHECK(refusal(lists) ==
          "s.yaml:6:4: f: the aliases (*) expand to more than 1000000 values or 64 MiB of text");
    CHECK(refusal("a: &a \"" + std::string(1'000'000, 'x') + "\"\nb: [" + repeat("*a , ", 100) +
                  "]\n") ==
          "s.yaml:2:335: b[66]: the aliases (*) expand to more than 1000000 values or 64 MiB of "
          "text");
    std::string deep = "a0: &a0 [x]\n";
    for (int i = 1; i < 100; ++i) {
      const std::string n = std::to_string(i);
      deep += "a" + n + ": &a" + n + " [*a" + std::to_string(i - 1) + "]\n";
    }
    // The mapping and 63 lists are 64 levels.
    CHECK(refusal(deep) == "s.yaml:64:12: a63[0]: nested more than 64 levels deep");
  }

  TEST_CASE("deep nesting is an error and is found quickly") {
    const auto start = std::chrono::steady_clock::now();
    const std::string deep = "nested more than 64 levels deep";
    const std::string path = "[0][0][0][0][0][0][0][0]...: ";
    CHECK(refusal(repeat("[", 64) + repeat("]", 64)) == "accepted");
    CHECK(refusal(repeat("[", 65) + repeat("]", 65)) == "s.yaml:1:65: " + path + deep);
    CHECK(refusal(repeat("[", 100'000)) == "s.yaml:1:65: " + path + deep);
    CHECK(refusal(repeat("[\n", 100'000), "c.json") == "c.json:65:1: " + path + deep);
    CHECK(refusal(repeat("- ", 100'000)) == "s.yaml:1:129: " + path + deep);
    // Flow mappings are refused before they are parsed once 10,000 brackets are open.
    const std::string open =
        ": 10001 brackets are open here, those of texts and comments among them";
    CHECK(refusal(repeat("{a: ", 100'000)) == "s.yaml:1:40001: " + deep + open);
    CHECK(refusal("x: " + repeat("[", 10'000'000)) == "s.yaml:1:10004: " + deep + open);
    CHECK(refusal("a: 1  # " + repeat("[", 10'001)) == "s.yaml:1:10009: " + deep + open);
    CHECK(refusal(repeat("{a: ", 1000) + repeat("}", 1000)) ==
          "s.yaml:1:257: a.a.a.a.a.a.a.a...: " + deep);
    std::string block;
    for (int i = 0; i < 1000; ++i)
      block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    CHECK(refusal(block) == "s.yaml:65:65: a.a.a.a.a.a.a.a...: " + deep);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  }

  TEST_CASE("syntax errors of YAML say what to look for") {
    CHECK(refusal("a:\n  b: 1\n\tc: 2\n") == "s.yaml:3:1: a.b: indent with blanks, not tabs");
    CHECK(refusal("a:\n\tb: 1\n") == "s.yaml:2:3: indent with blanks, not tabs");
    CHECK(refusal("a: b: c") ==
          "s.yaml:1:5: a ': ' may not stand here; is the indentation right, or a quote missing?");
    CHECK(refusal("a:\n  - 1\n - 2\n") ==
          "s.yaml:3:2: this line does not belong to the mapping above; is the indentation right?");
    CHECK(refusal("a: [1, 2\n") ==
          "s.yaml:1:8: a[1].2: expected ',' or ']' in the list that '[' opens");
    CHECK(refusal("a: [1, 2\nb: 3\n") ==
          "s.yaml:2:2: a[2]: expected ',' or ']' in the list that '[' opens");
    CHECK(refusal("a: {b: 1\n") ==
          "s.yaml:2:1: a: expected ',' or '}' in the mapping that '{' opens");
    CHECK(refusal("{a: 1") == "s.yaml:1:1: this bracket is not closed before the end of the file");
    CHECK(refusal("a: 1]") == "accepted");  // a plain text may hold brackets outside of flow
    CHECK(refusal("a: [1]]") == "s.yaml:1:7: this bracket closes nothing");
    CHECK(refusal("a: \"x") ==
          "s.yaml:1:6: a: a quoted text is not closed before the end of the file");
    CHECK(refusal("a: @x") == "s.yaml:1:4: a: a text may not start with this character; quote it");
    CHECK(refusal("a: \"\\q\"") ==
          "s.yaml:1:7: a: unknown escape '\\q' in a text in double quotes");
  }

  TEST_CASE("syntax errors of JSON say what was expected and found") {
    CHECK(refusal(R"({"a": 1)", "c.json") ==
          "c.json:1:8: expected ',' or '}', found the end of the file");
    CHECK(refusal(R"({"a": 1,})", "c.json") == "c.json:1:9: JSON has no comma before '}'");
    CHECK(refusal("[1,]", "c.json") == "c.json:1:4: [1]: JSON has no comma before ']'");
    CHECK(refusal("{a: 1}", "c.json") == "c.json:1:2: expected a key in double quotes, found 'a'");
    CHECK(refusal(R"({"a" 1})", "c.json") == "c.json:1:6: a: expected ':' after a key, found '1'");
    CHECK(refusal("[1] // x", "c.json") ==
          "c.json:1:5: there is more text after the end of the JSON value");
    CHECK(refusal("[1, // x\n2]", "c.json") ==
          "c.json:1:5: [1]: expected a JSON value, found a comment; JSON has none");
    CHECK(refusal("[True]", "c.json") == "c.json:1:2: [0]: expected a JSON value, found 'True'");
    CHECK(refusal("[01]", "c.json") == "c.json:1:2: [0]: expected a JSON value, found '01'");
    CHECK(refusal("[\"a\n\"]", "c.json") ==
          "c.json:1:2: [0]: this text has no closing '\"' on its line");
    CHECK(refusal("[\"a\tb\"]", "c.json") ==
          "c.json:1:4: [0]: a tab inside a text is written \\t in JSON");
    CHECK(refusal(R"(["\ud800"])", "c.json") ==
          "c.json:1:3: [0]: half of a surrogate pair in a text");
    CHECK(refusal(R"(["\u12"])", "c.json") == "c.json:1:3: [0]: \\u needs four hexadecimal digits");
  }

  TEST_CASE("bytes that are not text are refused where they stand") {
    CHECK(refusal("a: 1\nb: \xFF") == "s.yaml:2:4: byte 0xff is not UTF-8");
    CHECK(refusal("\xED\xA0\x80") == "s.yaml:1:1: byte 0xed is not UTF-8");  // a surrogate
    CHECK(refusal("\xC0\xAF") == "s.yaml:1:1: byte 0xc0 is not UTF-8");      // overlong
    CHECK(refusal("a\xE2\x82") == "s.yaml:1:2: byte 0xe2 is not UTF-8");     // cut short
    CHECK(refusal(std::string("a: \0b", 5)) == "s.yaml:1:4: a NUL byte; this is not a text file");
    CHECK(refusal("a: \x01") ==
          "s.yaml:1:4: a control character (byte 0x01); is this a text file?");
    CHECK(refusal("a: \"x\\0y\"") == "s.yaml:1:4: a: a text may not contain a NUL character");
    CHECK(refusal("[\"\\u0000\"]", "c.json") ==
          "c.json:1:2: [0]: a text may not contain a NUL character");
    CHECK(refusal("\xFF\xFE"
                  "a") == "s.yaml: this file is UTF-16; save it as UTF-8");
    CHECK(refusal("\x1F\x8B\x08") == "s.yaml: this file is a gzip archive; unpack it first");
  }

  TEST_CASE("a file that cannot be read is named with the reason") {
    const Folder folder("files");
    const std::string good = folder.write("scenario.yaml", "a: 1\n");
    CHECK(read_document(good).find("a")->location.file == good);
    CHECK(read_text_file(good) == "a: 1\n");
    const std::string path = folder.path.string();
    CHECK(file_refusal(path) == path + ": this is a folder, not a file");
    CHECK(file_refusal(path + "/none.txt") == path + "/none.txt: no such file");
    CHECK(file_refusal(path + "/scenaro.yaml") ==
          path + "/scenaro.yaml: no such file; did you mean 'scenario.yaml'?");
    CHECK(file_refusal(good + "/x") == good + "/x: cannot be opened: Not a directory");
    CHECK(file_refusal("") == "a file name is empty");
    CHECK(file_refusal("/dev/zero") == "/dev/zero:1:1: a NUL byte; this is not a text file");
  }

  TEST_CASE("five megabytes of JSON are read in well under a second") {
    std::string text = "[";
    for (int i = 0; i < 40'000; ++i) {
      const std::string n = std::to_string(i);
      text += std::string(i == 0 ? "" : ", ") + "{\"id\": " + n + ", \"name\": \"h." + n +
              ".attn.matmul\", \"inputs\": [" + n + ", " + n + ", " + n +
              "], \"shape\": [8, 1024, 768], \"dtype\": \"bf16\", \"time\": 1.5e-3}";
    }
    text += "]";
    REQUIRE(text.size() > 5'000'000);
    const auto start = std::chrono::steady_clock::now();
    CHECK(parse_document(text, "large.json").items.size() == 40'000);
    // 0.15 s on a machine of 2023; the margin is for sanitizers and busy machines.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  }
}

}  // namespace
}  // namespace tidemark::document_test
